"""Finding messages over the API, and acting on one or on all that match."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from rqmail.models.message import Message, MessageStatus, Priority
from support.clock import START
from support.messages import ATTEMPT, message_in, new_message, reloaded, submitted

S = MessageStatus


def found(client: FlaskClient, query: str) -> list[str]:
    return [message["id"] for message in client.get(f"/messages?{query}").json["messages"]]


def test_pages_follow_each_other_without_gap_or_repetition(client: FlaskClient) -> None:
    expected = submitted(*(new_message(subject=f"No. {n}") for n in range(7)))[::-1]
    seen: list[str] = []
    cursor, pages = "", 0
    while cursor is not None:
        page = client.get(f"/messages?limit=3{cursor and '&cursor=' + cursor}").json
        seen += [message["id"] for message in page["messages"]]
        submitted(new_message())  # what comes in meanwhile does not move the pages
        cursor, pages = page["nextCursor"], pages + 1
    assert seen == expected
    assert pages == 3


def test_each_filter_finds_what_it_names(client: FlaskClient) -> None:
    old = submitted(new_message("mailbox:a", subject="100% off_", to=("x@example.org",)), now=START)[0]
    new = submitted(
        new_message("tenant:b", subject="Über uns", to=("Y@example.org", "z@example.org"), priority=Priority.HIGH),
        now=START + timedelta(hours=1),
    )[0]
    failed = message_in(S.ERROR, START + timedelta(hours=2)).id
    came_in_a_file = Message.submit([new_message("mailbox:c")], START - timedelta(days=1), import_id="list-7")
    assert found(client, "mailbox=a") == [old]
    assert found(client, "tenant=b") == [new]
    assert found(client, "status=ERROR") == [failed]
    assert found(client, "recipient=z@example.org") == [new]
    assert found(client, "priority=high") == [new]
    assert found(client, "subject=100%25") == [old]
    assert found(client, "subject=0_o") == []
    assert found(client, "import=list-7") == came_in_a_file
    assert found(client, "import=list-8") == []
    assert found(client, "subject=OFF_") == [old]
    assert found(client, "from=2026-03-10T10:00:00Z") == [failed, new]
    assert found(client, "from=2026-03-10T00:00:00Z&to=2026-03-10T10:00:00Z") == [old]
    assert found(client, "mailbox=a&status=ERROR") == []


def test_one_criterion_takes_whatever_a_person_knows_of_a_message(client: FlaskClient) -> None:
    submitted(new_message())
    [wanted] = submitted(new_message(to=("Zoe@Example.net", "b@x.nl"), subject="Over ons"))
    for typed in ("zoe@example.net", "example.net", "over o", wanted, wanted[:13]):
        assert wanted in found(client, f"q={typed}")
    [line] = client.get("/messages?q=zoe@example.net").json["messages"]
    assert (line["firstRecipient"], line["recipientCount"]) == ("Zoe@Example.net", 2)
    bulk = {"action": "cancel", "filter": {"q": "zoe@"}, "dryRun": True}
    assert client.post("/messages/bulk", json=bulk).json["matched"] == 1


@pytest.mark.parametrize(
    "query",
    [
        "status=GONE",
        "limit=0",
        "limit=201",
        "limit=x",
        "from=yesterday",
        "nope=1",
        "mailbox=a&tenant=b",
        "limit=1&limit=2",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client: FlaskClient, query: str) -> None:
    assert client.get(f"/messages?{query}").status_code == 400


def test_one_message_tells_its_attempts_with_what_support_asks_for(client: FlaskClient) -> None:
    message = message_in(S.SENDING)
    message.mark_unknown(ATTEMPT, look_at=START, error="No answer came.")
    shown = client.get(f"/messages/{message.id}").json
    assert shown["status"] == "UNKNOWN"
    assert (shown["waitsFor"], shown["expectedOn"], shown["before"], shown["waitsBecause"]) == (None,) * 4
    assert shown["lastError"] == "No answer came."
    [attempt] = shown["history"]
    assert (attempt["requestId"], attempt["status"], attempt["durationMs"]) == ("req-1", 202, 12)


@pytest.mark.parametrize(
    ("action", "allowed", "after"),
    [
        ("cancel", {S.SCHEDULED, S.QUEUED, S.UNKNOWN}, S.CANCELLED),
        ("requeue", {S.ERROR, S.CANCELLED, S.EXPIRED}, S.SCHEDULED),
        ("send-now", {S.SCHEDULED}, S.SCHEDULED),
    ],
)
def test_an_action_moves_a_message_from_where_it_may_and_is_a_conflict_elsewhere(
    client: FlaskClient, action: str, allowed: set[MessageStatus], after: MessageStatus
) -> None:
    for status in MessageStatus:
        message = message_in(status)
        answer = client.post(f"/messages/{message.id}/{action}")
        if status in allowed:
            assert (answer.status_code, answer.json["status"]) == (200, after.value), status
        else:
            assert answer.status_code == 409, status
            assert status.value in answer.json["error"]
            assert reloaded(message).status == status.value


@pytest.mark.parametrize(("decision", "after"), [("sent", S.SENT), ("resend", S.SCHEDULED), ("discard", S.CANCELLED)])
def test_a_person_decides_about_an_unknown_message_once(
    client: FlaskClient, decision: str, after: MessageStatus
) -> None:
    message = message_in(S.UNKNOWN)
    path = f"/messages/{message.id}/resolve"
    assert client.post(path, json={"decision": decision}).json["status"] == after.value
    assert client.post(path, json={"decision": decision}).status_code == 409
    assert client.post(path, json={"decision": "maybe"}).status_code == 400


@pytest.mark.parametrize("action", ["cancel", "requeue", "send-now"])
def test_a_message_that_does_not_exist_is_not_found(client: FlaskClient, action: str) -> None:
    assert client.post(f"/messages/nothing/{action}").status_code == 404
    assert client.get("/messages/nothing").status_code == 404
    assert client.post("/messages/nothing/resolve", json={"decision": "sent"}).status_code == 404


BULK = [
    ("cancel", [S.SCHEDULED, S.QUEUED], S.CANCELLED),
    ("requeue", [S.ERROR], S.SCHEDULED),
    ("send-now", [S.SCHEDULED], S.SCHEDULED),
    ("confirm-sent", [S.UNKNOWN], S.SENT),
    ("resend", [S.UNKNOWN], S.SCHEDULED),
    ("discard", [S.UNKNOWN], S.CANCELLED),
]


@pytest.mark.parametrize(("action", "moves", "after"), BULK)
def test_an_action_on_a_filter_is_counted_first_and_then_moves_just_what_was_counted(
    client: FlaskClient, action: str, moves: list[MessageStatus], after: MessageStatus
) -> None:
    messages = {status: message_in(status) for status in MessageStatus}
    other = submitted(new_message("mailbox:other"))[0]
    body: dict[str, Any] = {"action": action, "filter": {"mailbox": "news"}}

    counted = client.post("/messages/bulk", json=body | {"dryRun": True}).json
    assert counted == {"matched": len(messages), "affected": len(moves), "dryRun": True}
    assert {status for status, message in messages.items() if reloaded(message).status == status.value} == set(S)

    done = client.post("/messages/bulk", json=body).json
    assert done == {"matched": len(messages), "affected": len(moves), "dryRun": False}
    for status, message in messages.items():
        assert reloaded(message).status == (after if status in moves else status).value
    assert reloaded(other).status == S.SCHEDULED.value


def test_an_action_on_many_messages_goes_on_until_the_last(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqmail.administration.messages._AT_ONCE", 2)
    submitted(*(new_message() for _ in range(5)))
    assert client.post("/messages/bulk", json={"action": "send-now", "filter": {"mailbox": "news"}}).json == {
        "matched": 5, "affected": 5, "dryRun": False,
    }  # fmt: skip


def test_an_action_on_chosen_ids_leaves_the_others_alone(client: FlaskClient) -> None:
    one, two, three = submitted(new_message(), new_message(), new_message())
    body = {"action": "cancel", "filter": {"ids": [one, three]}}
    assert client.post("/messages/bulk", json=body).json["affected"] == 2
    assert reloaded(two).status == S.SCHEDULED.value


@pytest.mark.parametrize("wanted", [{}, {"status": None}, {"everything": True}, {"ids": []}, None, "all"])
def test_an_action_on_no_filter_at_all_is_refused(client: FlaskClient, wanted: Any) -> None:
    message = message_in(S.SCHEDULED)
    assert client.post("/messages/bulk", json={"action": "cancel", "filter": wanted}).status_code == 400
    assert reloaded(message).status == S.SCHEDULED.value
