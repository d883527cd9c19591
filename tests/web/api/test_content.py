"""Everything a message may carry, handed in over the API: as JSON, as a form with files, in MIME form."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from urllib3 import encode_multipart_formdata

from rqmail.bootstrap import Application
from rqmail.models.contents import Contents, load_contents
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message

MAIL: dict[str, Any] = {"mailbox": "news", "to": "a@example.org", "subject": "Hallo", "text": "Dag."}
PICTURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def news(application: Application) -> None:
    application.mailboxes.add("news", "news@example.org")


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def form(*files: tuple[str, bytes, str], name: str = "file", **change: Any) -> dict[str, Any]:
    return {
        "message": json.dumps(MAIL | change),
        name: [(io.BytesIO(content), filename, kind) for filename, content, kind in files],
    }


def kept(answer: Any) -> Contents:
    assert answer.status_code == 201, answer.json
    [message_id] = answer.json["ids"]
    return load_contents([message_id])[message_id]


def files(found: Contents) -> list[tuple[str, str, int, str | None]]:
    return [(one.name, one.content_type, one.size, one.content_id) for one in found.attachments]


def test_json_says_all_that_a_message_may_carry(client: FlaskClient, application: Application) -> None:
    answer = client.post(
        "/messages",
        json=MAIL
        | {
            "html": '<img src="cid:logo">',
            "attachments": [
                {"name": "Überweisung 请.pdf", "contentType": "application/pdf", "contentBytes": in_base64(b"%PDF")},
                {"name": "leeg.txt", "contentBytes": ""},
                {"name": "l.png", "contentBytes": in_base64(PICTURE), "isInline": True, "contentId": "logo"},
            ],
            "replyTo": ["Ann <ann@example.org>", "b@example.org"],
            "importance": "high",
            "readReceipt": True,
            "deliveryReceipt": True,
            "headers": {"X-Order": "4711", "Auto-Submitted": "auto-generated"},
            "unsubscribeUrl": "https://example.org/u/1",
            "from": "Raad <raad@example.org>",
        },
    )
    found = kept(answer)
    assert files(found) == [
        ("Überweisung 请.pdf", "application/pdf", 4, None),
        ("leeg.txt", "text/plain", 0, None),
        ("l.png", "image/png", 8, "logo"),
    ]
    assert application.contents.open(found.attachments[0].sha256).read() == b"%PDF"
    extras = found.extras
    assert extras is not None
    assert extras.from_ is not None
    assert [one.address for one in extras.reply_to] == ["ann@example.org", "b@example.org"]
    assert (extras.importance, extras.read_receipt, extras.delivery_receipt) == ("high", True, True)
    assert (extras.from_.name, extras.from_.address) == ("Raad", "raad@example.org")
    assert extras.headers == (
        ("X-Order", "4711"),
        ("Auto-Submitted", "auto-generated"),
        ("List-Unsubscribe", "<https://example.org/u/1>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )
    shown = client.get(f"/messages/{answer.json['ids'][0]}").json
    assert {name: shown[name] for name in ("importance", "readReceipt", "deliveryReceipt", "unsubscribeUrl")} == {
        "importance": "high",
        "readReceipt": True,
        "deliveryReceipt": True,
        "unsubscribeUrl": "https://example.org/u/1",
    }
    assert shown["replyTo"][0] == {"address": "ann@example.org", "name": "Ann"}
    assert shown["from"] == {"address": "raad@example.org", "name": "Raad"}
    assert shown["headers"][0] == {"name": "X-Order", "value": "4711"}


def test_headers_may_be_listed_as_graph_lists_them(client: FlaskClient) -> None:
    found = kept(client.post("/messages", json=MAIL | {"headers": [{"name": "X-A", "value": "b"}]}))
    assert found.extras is not None
    assert found.extras.headers == (("X-A", "b"),)


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"attachments": [{"name": "a"}]}, "attachments", "'a': contentBytes, or in a form a part of this name"),
        ({"attachments": [{"name": "a", "contentBytes": "no base64!"}]}, "attachments[0].contentBytes", "base64"),
        ({"attachments": [{"name": "../a", "contentBytes": ""}]}, "attachments", "'../a': names without a path"),
        ({"attachments": [{"contentBytes": ""}]}, "attachments[0].name", "is needed"),
        ({"headers": {"Subject": "x"}}, "headers", "'Subject': no Subject here"),
        ({"replyTo": "ann"}, "replyTo", "@"),
        ({"importance": "urgent"}, "importance", "'low', 'normal' or 'high'"),
        ({"readReceipt": "yes"}, "readReceipt", "boolean"),
        ({"unsubscribeUrl": "http://example.org"}, "unsubscribeUrl", "https"),
        ({"from": "a@example.org, b@example.org"}, "from", "one address"),
    ],
    ids=repr,
)
def test_what_cannot_be_used_is_named(client: FlaskClient, change: dict[str, Any], field: str, said: str) -> None:
    for answer in (
        client.post("/messages", json=MAIL | change),
        client.post("/messages", data={"message": json.dumps(MAIL | change)}, content_type="multipart/form-data"),
    ):
        assert answer.status_code == 400
        assert said in {name.removeprefix("message."): text for name, text in answer.json["fieldErrors"].items()}[field]
    assert Message.select().count() == 0


def test_a_form_attaches_every_part_with_a_filename_in_their_order(
    client: FlaskClient, application: Application
) -> None:
    data = form(
        ("Überweisung 请.pdf", b"%PDF", "application/octet-stream"), ("b.bin", b"\0" * 300_000, "application/x-own")
    )
    found = kept(client.post("/messages", data=data | {"other": (io.BytesIO(b""), "leeg.txt")}))
    assert files(found) == [
        ("Überweisung 请.pdf", "application/pdf", 4, None),
        ("b.bin", "application/x-own", 300_000, None),
        ("leeg.txt", "text/plain", 0, None),
    ]
    assert application.contents.open(found.attachments[1].sha256).read() == b"\0" * 300_000


def test_the_message_of_a_form_says_which_part_is_inline(client: FlaskClient) -> None:
    described = [{"name": "l.png", "isInline": True, "contentId": "logo"}]
    data = form(("a.txt", b"a", ""), ("l.png", PICTURE, ""), html='<img src="cid:logo">', attachments=described)
    data["message"] = (io.BytesIO(data["message"].encode()), "message.json", "application/json")
    found = kept(client.post("/messages", data=data))
    assert files(found) == [("l.png", "image/png", 8, "logo"), ("a.txt", "text/plain", 1, None)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"text": "t"}, "message"),
        ({"message": "{"}, "The part message is not JSON"),
        ({"message": "[]"}, "The part message must be a JSON object"),
        ({"message": json.dumps(MAIL), "colour": "red"}, "colour: is not a field that is known here"),
        ({"message": json.dumps(MAIL), "attachments": "text"}, "files, each sent as a part with its filename"),
        ({"message": json.dumps({"messages": [MAIL]})}, "message.subject"),
    ],
)
def test_a_form_that_is_none_of_a_message_is_refused(client: FlaskClient, data: dict[str, Any], said: str) -> None:
    answer = client.post("/messages", data=data, content_type="multipart/form-data")
    assert answer.status_code == 400
    assert said in str(answer.json)


def test_a_form_sent_again_is_taken_once_and_one_with_another_file_is_another(client: FlaskClient) -> None:
    def sent(content: bytes) -> Any:
        return client.post("/messages", data=form(("a.txt", content, "")), headers={"Idempotency-Key": "k"})

    first, again = sent(b"a"), sent(b"a")
    assert (again.json["ids"], again.json["replayed"]) == (first.json["ids"], True)
    assert sent(b"b").status_code == 409
    assert Message.select().count() == 1


EML = b"""From: Shop <shop@example.org>\r
To: Ann <a@example.org>\r
Subject: =?utf-8?q?Caf=C3=A9?=\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=b\r
\r
--b\r
Content-Type: text/plain\r
\r
Dag.\r
--b\r
Content-Type: application/pdf; name=a.pdf\r
Content-Transfer-Encoding: base64\r
\r
JVBERg==\r
--b--\r
"""


def test_a_mail_in_mime_form_is_taken_with_its_envelope_beside_it(client: FlaskClient) -> None:
    def sent(query: str) -> Any:
        headers = {"Idempotency-Key": "k"} if "k=" in query else {}
        return client.post(f"/messages?{query}", data=EML, content_type="message/rfc822", headers=headers)

    answer = sent("mailbox=news&to=a@example.org&to=c@example.org&at=2026-03-11T09:00:00%2B01:00&priority=low")
    found = kept(answer)
    assert [(one.kind, one.address) for one in found.recipients] == [("to", "a@example.org"), ("bcc", "c@example.org")]
    assert files(found) == [("a.pdf", "application/pdf", 4, None)]
    shown = client.get(f"/messages/{answer.json['ids'][0]}").json
    assert (shown["subject"], shown["priority"], shown["requestedOn"]) == ("Café", "low", "2026-03-11T08:00:00Z")
    assert [one.address for one in kept(sent("mailbox=news")).recipients] == ["a@example.org"]


def test_a_mail_in_mime_form_that_is_wrong_is_refused_with_words(client: FlaskClient) -> None:
    for query, data, said in (
        ("mailbox=news&tenant=x", EML, "exclude each other"),
        ("mailbox=nobody", EML, "a mailbox that exists"),
        ("mailbox=news&colour=red", EML, "is not a field that is known here"),
        ("mailbox=news&to=x", EML, "to:"),
        ("mailbox=news", b"\r\nno mail", "a mail: headers"),
        ("mailbox=news", b"", "a mail: headers"),
    ):
        answer = client.post(f"/messages?{query}", data=data, content_type="message/rfc822")
        assert (answer.status_code, said in str(answer.json)) == (400, True), (query, answer.json)
    answer = client.post("/messages?mailbox=news", json=MAIL)
    assert answer.json["fieldErrors"] == {"mailbox": "only for a mail in MIME form: elsewhere the body says it"}


def test_a_bound_token_hands_in_no_form_and_no_mime_of_another_mailbox(
    client: FlaskClient, application: Application
) -> None:
    application.mailboxes.add("other", "other@example.org")
    _, token = application.access.create("erp", ["send"], by="admin", mailboxes=["other"])
    asking = {"Authorization": f"Bearer {token}"}
    assert client.post("/messages", data=form(("a", b"", "")), headers=asking).status_code == 403
    answer = client.post("/messages?mailbox=news", data=EML, content_type="message/rfc822", headers=asking)
    assert answer.status_code == 403


def test_a_body_may_be_as_large_as_a_message_of_the_largest_mailbox(
    client: FlaskClient, application: Application
) -> None:
    large = {"message": json.dumps(MAIL), "file": ("a.bin", b"x" * 39_000_000)}
    body, kind = encode_multipart_formdata(large)
    assert client.post("/messages", data=body, content_type=kind).status_code == 413
    application.mailboxes.add("other", "other@example.org")
    SystemMailbox.update(max_message_bytes=50_000_000).where(SystemMailbox.key == "other").execute()
    answer = client.post("/messages", data=body, content_type=kind)
    assert (answer.status_code, "the whole message may have 36,700,160 bytes" in answer.json["error"]) == (400, True)


def test_a_type_that_exchange_blocks_is_told_under_notices(client: FlaskClient) -> None:
    attached = MAIL | {"attachments": [{"name": "setup.exe", "contentBytes": ""}]}
    answer = client.post("/messages", json={"messages": [MAIL, attached]})
    assert answer.json["notices"] == [
        {
            "message": 1,
            "field": "attachments",
            "text": "Exchange or Outlook may keep setup.exe from who receives it: its type is blocked",
        }
    ]


def test_what_is_attached_is_told_and_downloaded_and_never_shown(client: FlaskClient, application: Application) -> None:
    content = b"<script>" + b"x" * 300_000
    answer = client.post("/messages", data=form(("Überweisung 请.html", content, "text/html")))
    [message_id] = answer.json["ids"]
    digest = hashlib.sha256(content).hexdigest()
    assert client.get(f"/messages/{message_id}").json["attachments"] == [
        {
            "number": 1,
            "name": "Überweisung 请.html",
            "contentType": "text/html",
            "size": len(content),
            "sha256": digest,
            "isInline": False,
            "contentId": None,
        }
    ]
    saved = client.get(f"/messages/{message_id}/attachments/1")
    assert saved.data == content
    assert saved.headers["Content-Length"] == str(len(content))
    assert saved.headers["Content-Disposition"].startswith("attachment; ")
    assert "filename*=UTF-8''%C3%9Cberweisung%20%E8%AF%B7.html" in saved.headers["Content-Disposition"]
    assert saved.headers["X-Content-Type-Options"] == "nosniff"
    assert saved.headers["Content-Security-Policy"] == "sandbox"
    assert client.get(f"/messages/{message_id}/attachments/2").status_code == 404
    _, token = application.access.create("shop", ["send"], by="admin")
    asking = {"Authorization": f"Bearer {token}"}
    assert client.get(f"/messages/{message_id}/attachments/1", headers=asking).status_code == 403
