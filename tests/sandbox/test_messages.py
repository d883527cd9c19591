"""Drafts, searches and uploads."""

from __future__ import annotations

import base64

import pytest

from sandbox.graph_client import message

KEY = "String {66f5a359-4659-4830-9070-00047ec6ac6e} Name x-rqmail-id"
IMMUTABLE = {"Prefer": 'IdType="ImmutableId"'}
SENT = "/mailFolders/SentItems/messages"


def tagged(rqmail_id: str, **properties):
    return message(singleValueExtendedProperties=[{"id": KEY, "value": rqmail_id}], **properties)


def with_property(rqmail_id: str) -> str:
    return f"singleValueExtendedProperties/any(ep: ep/id eq '{KEY}' and ep/value eq '{rqmail_id}')"


def test_a_sent_mail_is_found_in_sent_items_by_our_property(graph):
    for number in range(3):
        graph.send(tagged(f"m-{number}", subject=f"Nr. {number}"))
    query = {
        "$filter": with_property("m-1"),
        "$select": "subject,sentDateTime",
        "$expand": f"singleValueExtendedProperties($filter=id eq '{KEY}')",
    }
    [found] = graph.call("GET", SENT, params=query).json()["value"]
    assert found["subject"] == "Nr. 1"
    assert found["singleValueExtendedProperties"] == [{"id": KEY, "value": "m-1"}]
    assert "body" not in found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("subject eq 'nr. 1'", ["Nr. 1"]),
        ("startswith(subject,'Nr.') and not (subject eq 'Nr. 0' or subject eq 'Nr. 2')", ["Nr. 1"]),
        ("contains(subject, 'O''Neill')", ["O'Neill"]),
        ("sentDateTime ge 2020-01-01T00:00:00Z and subject ne 'Nr. 1'", ["O'Neill", "Nr. 2", "Nr. 0"]),
        ("sentDateTime lt 2020-01-01T00:00:00Z", []),
        ("isDraft eq true", []),
    ],
)
def test_searches_understand_the_common_conditions(graph, condition, found):
    for subject in ("Nr. 0", "Nr. 1", "Nr. 2", "O'Neill"):
        graph.send(message(subject=subject))
    answer = graph.call("GET", SENT, params={"$filter": condition})
    assert [mail["subject"] for mail in answer.json()["value"]] == found


def test_a_mail_is_found_by_its_internet_message_id(graph, control):
    graph.send()
    graph.send()
    wanted = control.accepted()[0]["internetMessageId"]
    found = graph.call("GET", SENT, params={"$filter": f"internetMessageId eq '{wanted}'"}).json()["value"]
    assert [mail["internetMessageId"] for mail in found] == [wanted]


def test_a_list_is_ordered_and_handed_out_in_pages(graph, sandbox_clock):
    for number in range(5):
        graph.send(message(subject=f"Nr. {number}"))
        sandbox_clock.advance(seconds=2)
    seen, query = [], {"$top": "2", "$orderby": "sentDateTime desc", "$select": "subject", "$count": "true"}
    page = graph.call("GET", SENT, params=query).json()
    assert page["@odata.count"] == 5
    while True:
        seen += [mail["subject"] for mail in page["value"]]
        if "@odata.nextLink" not in page:
            break
        page = graph.call("GET", page["@odata.nextLink"]).json()
    assert seen == ["Nr. 4", "Nr. 3", "Nr. 2", "Nr. 1", "Nr. 0"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"$filter": "subject eq"}, "BadRequest"),
        ({"$filter": "subject like 'x'"}, "BadRequest"),
        ({"$filter": "colour eq 'x'"}, "RequestBroker--ParseUri"),
        ({"$filter": "subject eq 'x'", "$orderby": "sentDateTime"}, "InefficientFilter"),
        ({"$expand": "singleValueExtendedProperties"}, "ErrorInvalidRequest"),
        ({"$expand": "friends"}, "RequestBroker--ParseUri"),
        ({"$top": "0"}, "BadRequest"),
        ({"$orderby": "subject sideways"}, "BadRequest"),
        ({"$magic": "1"}, "BadRequest"),
    ],
)
def test_a_query_graph_would_refuse_is_refused(graph, query, code):
    answer = graph.call("GET", SENT, params=query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_copies_show_in_sent_items_only_after_the_delay(control, graph, sandbox_clock):
    control.configure(sent_items_delay_seconds=90)
    graph.send(tagged("m-1"))
    query = {"$filter": with_property("m-1")}
    assert graph.call("GET", SENT, params=query).json()["value"] == []
    sandbox_clock.advance(seconds=90)
    assert len(graph.call("GET", SENT, params=query).json()["value"]) == 1


def test_without_the_permission_nothing_is_read_but_mail_still_goes(control, graph):
    control.configure(directory={"may_read_mail": False})
    answer = graph.call("GET", SENT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ErrorAccessDenied")
    assert graph.send().status_code == 202


def test_without_the_permission_to_write_mail_is_read_and_sent_and_no_draft_is_made(control, graph):
    control.configure(directory={"may_write_mail": False})
    assert graph.call("GET", SENT).status_code == 200
    assert graph.send().status_code == 202
    answer = graph.call("POST", "/messages", json=message())
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ErrorAccessDenied")


def test_a_draft_is_written_changed_and_sent_and_keeps_its_immutable_id(control, graph):
    created = graph.call("POST", "/messages", json=tagged("m-1"), headers=IMMUTABLE)
    assert (created.status_code, created.json()["isDraft"]) == (201, True)
    assert created.headers["Preference-Applied"] == 'IdType="ImmutableId"'
    draft = f"/messages/{created.json()['id']}"
    assert graph.call("PATCH", draft, json={"subject": "Nieuw"}, headers=IMMUTABLE).json()["subject"] == "Nieuw"
    assert graph.call("POST", f"{draft}/send", headers=IMMUTABLE).status_code == 202
    [mail] = control.accepted()
    assert (mail["subject"], mail["via"], mail["rqmailId"]) == ("Nieuw", "draft", "m-1")
    sent = graph.call("GET", draft, headers=IMMUTABLE).json()
    folder = graph.call("GET", "/mailFolders/sentitems").json()
    assert (sent["isDraft"], sent["parentFolderId"]) == (False, folder["id"])
    assert graph.call("POST", f"{draft}/send", headers=IMMUTABLE).status_code == 403
    assert control.stats()["accepted"] == 1


def test_an_ordinary_id_dies_when_its_message_moves(graph):
    draft = graph.call("POST", "/messages", json=message()).json()["id"]
    graph.call("POST", f"/messages/{draft}/send")
    answer = graph.call("GET", f"/messages/{draft}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "ErrorItemNotFound")


def test_a_draft_without_recipients_is_kept_and_not_sent(control, graph):
    draft = graph.call("POST", "/messages", json={"subject": "Later"}).json()["id"]
    answer = graph.call("POST", f"/messages/{draft}/send")
    assert answer.json()["error"]["code"] == "ErrorInvalidRecipients"
    assert [found["id"] for found in graph.call("GET", "/mailFolders/Drafts/messages").json()["value"]] == [draft]


def test_a_deleted_draft_lies_in_deleted_items(graph):
    draft = graph.call("POST", "/messages", json=message()).json()["id"]
    assert graph.call("DELETE", f"/messages/{draft}").status_code == 204
    counts = {
        folder["displayName"]: folder["totalItemCount"] for folder in graph.call("GET", "/mailFolders").json()["value"]
    }
    assert (counts["Drafts"], counts["Deleted Items"]) == (0, 1)


def test_a_large_file_arrives_in_ranges_and_leaves_with_the_draft(control, graph):
    content = bytes(range(256)) * 4096
    draft = graph.call("POST", "/messages", json=message()).json()["id"]
    item = {"AttachmentItem": {"attachmentType": "file", "name": "groot.bin", "size": len(content)}}
    session = graph.call("POST", f"/messages/{draft}/attachments/createUploadSession", json=item)
    assert session.status_code == 201
    url = session.json()["uploadUrl"]
    half = len(content) // 2

    def put(first: int, chunk: bytes, **headers: str):
        shown = {"Content-Range": f"bytes {first}-{first + len(chunk) - 1}/{len(content)}", **headers}
        return graph.http.put(url, data=chunk, headers=shown, timeout=5)

    assert put(0, content[:half], Authorization="Bearer x").status_code == 401
    first = put(0, content[:half])
    assert (first.status_code, first.json()["nextExpectedRanges"]) == (200, [str(half)])
    assert put(0, content[:half]).status_code == 416
    assert graph.http.put(url, data=b"x", timeout=5).status_code == 400
    assert graph.http.get(url, timeout=5).json()["nextExpectedRanges"] == [str(half)]
    last = put(half, content[half:])
    assert (last.status_code, last.content) == (201, b"")
    assert put(half, content[half:]).status_code == 404
    [attached] = graph.call("GET", f"/messages/{draft}/attachments").json()["value"]
    assert base64.b64decode(attached["contentBytes"]) == content
    graph.call("POST", f"/messages/{draft}/send")
    [file] = control.accepted()[0]["attachments"]
    assert (file["name"], file["size"]) == ("groot.bin", len(content))


def test_a_small_file_is_attached_to_a_draft(graph):
    draft = graph.call("POST", "/messages", json=message()).json()["id"]
    file = {"@odata.type": "#microsoft.graph.fileAttachment", "name": "a.txt", "contentBytes": "YQ=="}
    assert graph.call("POST", f"/messages/{draft}/attachments", json=file).status_code == 201
    assert graph.call("GET", f"/messages/{draft}").json()["hasAttachments"] is True
