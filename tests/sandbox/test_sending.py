"""sendMail: what is taken, what is refused, and in which words."""

from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from sandbox.graph_client import SENDER, message


def test_a_json_mail_is_accepted_and_written_down_whole(control, graph):
    answer = graph.send(
        rqmail_id="m-1",
        ccRecipients=[{"emailAddress": {"address": "c@example.org", "name": "Cé"}}],
        bccRecipients=[{"emailAddress": {"address": "b@example.org"}}],
    )
    assert (answer.status_code, answer.content) == (202, b"")
    [mail] = control.accepted()
    wanted = {
        "seq": 1,
        "mailbox": SENDER,
        "rqmailId": "m-1",
        "subject": "Uitnodiging voor José",
        "to": ["jose@example.org"],
        "cc": ["c@example.org"],
        "bcc": ["b@example.org"],
        "bodyType": "html",
        "body": "<p>Welkom</p>",
        "via": "json",
        "nonDelivery": None,
    }
    assert {name: mail[name] for name in wanted} == wanted
    assert mail["requestId"] == answer.headers["request-id"]


@pytest.mark.parametrize("name", ["rqmail-id", "x-rqmail-id"])
def test_our_id_is_read_from_an_extended_property_too(control, graph, name):
    key = f"String {{66f5a359-4659-4830-9070-00047ec6ac6e}} Name {name}"
    assert graph.send(singleValueExtendedProperties=[{"id": key, "value": "m-2"}]).status_code == 202
    assert control.accepted()[0]["rqmailId"] == "m-2"


def test_a_mime_mail_is_accepted_and_written_down_whole(control, graph):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Cc"] = SENDER, "Zoë <zoe@example.org>", "c@example.org"
    mail["Subject"], mail["X-Rqmail-Id"] = "Één vraag", "m-3"
    mail.set_content("tekst")
    mail.add_alternative("<p>tekst</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="bijlage.pdf")
    answer = graph.call(
        "POST", "/sendMail", data=base64.b64encode(mail.as_bytes()), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 202, answer.text
    [taken] = control.accepted()
    assert (taken["subject"], taken["to"], taken["cc"]) == ("Één vraag", ["zoe@example.org"], ["c@example.org"])
    assert (taken["rqmailId"], taken["via"], taken["bodyType"]) == ("m-3", "mime", "html")
    assert [(file["name"], file["size"]) for file in taken["attachments"]] == [("bijlage.pdf", 4)]


@pytest.mark.parametrize(
    ("changes", "status", "code", "part"),
    [
        ({"tittle": "x"}, 400, "RequestBodyRead", "The property 'tittle' does not exist on type"),
        ({"subject": 7}, 400, "RequestBodyRead", "'subject'"),
        ({"importance": "urgent"}, 400, "RequestBodyRead", "low, normal, high"),
        ({"toRecipients": {"emailAddress": {}}}, 400, "RequestBodyRead", "collection"),
        ({"toRecipients": [{"address": "a@example.org"}]}, 400, "RequestBodyRead", "microsoft.graph.recipient"),
        ({"toRecipients": []}, 400, "ErrorInvalidRecipients", "no recipients"),
        ({"to": ("geen-adres",)}, 400, "ErrorInvalidRecipients", "geen-adres"),
        ({"to": ("a@b",)}, 400, "ErrorInvalidRecipients", "a@b"),
        (
            {"internetMessageHeaders": [{"name": "List-Unsubscribe", "value": "x"}]},
            400,
            "InvalidInternetMessageHeader",
            "List-Unsubscribe",
        ),
        ({"from": {"emailAddress": {"address": "ander@voorbeeld.nl"}}}, 403, "ErrorSendAsDenied", "right to send"),
        ({"singleValueExtendedProperties": [{"id": "x", "value": "y"}]}, 400, "ErrorInvalidRequest", "property"),
        ({"attachments": [{"name": "a", "contentBytes": "%%%"}]}, 400, "RequestBodyRead", "Edm.Binary"),
    ],
)
def test_a_wrong_message_is_refused_with_its_own_code(control, graph, changes, status, code, part):
    answer = graph.send(**changes)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert part in error["message"]
    assert control.accepted() == []
    assert control.stats()["refused"] == {code: 1}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"message": message(), "sendAt": "now"}, "RequestBodyRead"),
        ({"message": message(), "saveToSentItems": "yes"}, "RequestBodyRead"),
        ({"saveToSentItems": True}, "ErrorInvalidParameter"),
        ([1], "BadRequest"),
    ],
)
def test_wrong_parameters_are_refused(graph, body, code):
    answer = graph.call("POST", "/sendMail", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize("data", [b"{", b"\xff", b"", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(graph, data):
    answer = graph.call("POST", "/sendMail", data=data, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"###", "ErrorMimeContentInvalidBase64String"), (base64.b64encode(b""), "ErrorMimeContentInvalid")],
)
def test_broken_mime_is_refused(graph, data, code):
    answer = graph.call("POST", "/sendMail", data=data, headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_parameter_names_may_be_written_in_any_case(control, graph):
    body = {"Message": message(), "SaveToSentItems": False}
    assert graph.call("POST", "/sendMail", json=body).status_code == 202
    assert graph.call("GET", "/mailFolders/SentItems/messages").json()["value"] == []


def test_text_that_is_no_text_harms_nobody(control, graph, sandbox):
    assert graph.send(subject="\ud800", attachments=[{"contentBytes": "YQ=="}]).status_code == 202
    assert control.accepted()[0]["subject"] == "\ud800"
    assert graph.call("GET", "/mailFolders/SentItems/messages").status_code == 200
    for path in ("/", "/mail/1"):
        assert graph.http.get(f"{sandbox.authority}{path}", timeout=5).status_code == 200


def test_an_error_carries_the_ids_support_asks_for(graph):
    answer = graph.call("POST", "/sendMail", json={}, headers={"client-request-id": "trace-1"})
    inner = answer.json()["error"]["innerError"]
    assert inner["client-request-id"] == answer.headers["client-request-id"] == "trace-1"
    assert inner["request-id"] == answer.headers["request-id"]
    assert "x-ms-ags-diagnostic" in answer.headers


def test_a_mailbox_is_one_under_its_address_in_any_case_and_its_object_id(control, graph, sandbox):
    user = graph.call("GET", "").json()
    for name in (SENDER.upper(), SENDER.replace("@", "%40"), user["id"]):
        assert graph.send(mailbox=name).status_code == 202
    assert list(control.stats()["mailboxes"]) == [SENDER]


@pytest.mark.parametrize("directory", [{"known_users": ["ander@voorbeeld.nl"]}, {"domains": ["elders.nl"]}])
def test_an_unknown_sender_is_a_404(control, graph, directory):
    control.configure(directory=directory)
    answer = graph.send()
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ErrorInvalidUser")


def test_without_the_permission_nothing_is_sent(control, graph):
    control.configure(directory={"may_send": False})
    answer = graph.send()
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ErrorAccessDenied")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 400), ("DELETE", "/sendMail", 405)])
def test_what_does_not_exist_is_refused_as_graph_does(graph, method, path, status):
    answer = graph.call(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, "BadRequest")


def test_a_mail_accepted_twice_is_a_duplicate(control, graph):
    for rqmail_id in ("m-1", "m-2", "m-3", "m-1", "m-2", "m-1"):
        graph.send(rqmail_id=rqmail_id)
    stats = control.stats()
    assert (stats["duplicates"], stats["duplicateCount"]) == ({"m-1": 3, "m-2": 2}, 3)


def test_the_list_of_accepted_mail_can_be_read_in_parts(control, graph):
    for number in range(4):
        graph.send(rqmail_id=f"m-{number}", mailbox=f"box{number % 2}@voorbeeld.nl")
    assert [mail["seq"] for mail in control.accepted(after=2)] == [3, 4]
    assert [mail["rqmailId"] for mail in control.accepted(mailbox="BOX1@voorbeeld.nl")] == ["m-1", "m-3"]
    assert control.accepted(after=1, limit=1, fields=("seq", "mailbox")) == [{"seq": 2, "mailbox": "box1@voorbeeld.nl"}]


def test_a_reset_forgets_everything(control, graph):
    graph.send()
    control.faults("reset", count=None)
    control.configure(latency_ms=5)
    control.reset()
    assert (control.accepted(), control.faults_in_force(), control.stats()["accepted"]) == ([], [], 0)
    assert graph.send().status_code == 202


def test_a_sixth_custom_header_is_refused_as_graph_refuses_it(graph):
    headers = [{"name": f"x-part-{number}", "value": "1"} for number in range(6)]
    refused = graph.send(internetMessageHeaders=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "InvalidInternetMessageHeaderCollection")
    assert graph.send(internetMessageHeaders=headers[:5]).status_code == 202
