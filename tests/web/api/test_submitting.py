"""Handing mail in over the API: all or nothing, and at most once per Idempotency-Key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.models.message import Message
from support.clock import MovableClock
from web.asking import ADMIN_TOKEN

MAIL = {"mailbox": "news", "to": "Jörg <jorg@example.org>", "subject": "Hallo", "text": "Dag."}


@pytest.fixture(autouse=True)
def news(application: Application) -> None:
    application.mailboxes.add("news", "news@example.org")


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def stored() -> int:
    return Message.select().count()


def test_one_message_is_taken_in_as_it_was_given(client: FlaskClient) -> None:
    mail = MAIL | {"cc": ["a@example.org", "B <b@example.org>"], "priority": "high", "at": "2026-03-11T09:00:00+01:00"}
    answer = client.post("/messages", json=mail)
    assert answer.status_code == 201
    [message_id] = answer.json["ids"]
    shown = client.get(f"/messages/{message_id}").json
    assert shown["sender"] == "mailbox:news"
    assert shown["recipients"] == [
        {"kind": "to", "address": "jorg@example.org", "name": "Jörg", "delivery": None},
        {"kind": "cc", "address": "a@example.org", "name": "", "delivery": None},
        {"kind": "cc", "address": "b@example.org", "name": "B", "delivery": None},
    ]
    assert (shown["priority"], shown["requestedOn"]) == ("high", "2026-03-11T08:00:00Z")
    assert shown["history"] == []


def test_a_batch_is_answered_in_its_order(client: FlaskClient) -> None:
    answer = client.post("/messages", json={"messages": [MAIL | {"subject": f"No. {n}"} for n in range(5)]})
    subjects = [client.get(f"/messages/{one}").json["subject"] for one in answer.json["ids"]]
    assert subjects == [f"No. {n}" for n in range(5)]


def test_one_wrong_message_keeps_the_whole_batch_out_and_every_wrong_one_is_named(client: FlaskClient) -> None:
    batch = [MAIL, MAIL | {"to": "nobody"}, MAIL | {"mailbox": "no-such"}, MAIL | {"text": None}]
    answer = client.post("/messages", json={"messages": batch})
    assert answer.status_code == 400
    assert list(answer.json["fieldErrors"]) == ["messages[1].to", "messages[2].mailbox", "messages[3].text"]
    assert stored() == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": ""}, "to"),
        ({"to": 5}, "to"),
        ({"subject": ""}, "subject"),
        ({"subject": "two\nlines"}, "subject"),
        ({"at": "2026-03-11T09:00:00"}, "at"),
        ({"at": 1773219600}, "at"),
        ({"priority": "urgent"}, "priority"),
        ({"tenant": "acme"}, "body"),
        ({"attachment": "x"}, "attachment"),
    ],
    ids=repr,
)
def test_a_wrong_field_is_named(client: FlaskClient, change: dict[str, Any], field: str) -> None:
    answer = client.post("/messages", json=MAIL | change)
    assert answer.status_code == 400
    assert next(iter(answer.json["fieldErrors"])).split(".")[0] == field
    assert stored() == 0


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"to": 5}, {"to": "Input should be a valid string, or: Input should be a valid list"}),
        ({"to": ["a@x.nl", 5]}, {"to[1]": "Input should be a valid string"}),
        ({"headers": {"X-A": 5}}, {"headers.X-A": "Input should be a valid string"}),
        ({"headers": [{"name": "X-A"}]}, {"headers[0].value": "is needed"}),
    ],
)
def test_a_field_that_may_be_of_several_kinds_is_named_as_it_was_sent(
    client: FlaskClient, change: dict[str, Any], fields: dict[str, str]
) -> None:
    assert client.post("/messages", json=MAIL | change).json["fieldErrors"] == fields
    several = {f"messages[0].{name}": text for name, text in fields.items()}
    assert client.post("/messages", json={"messages": [MAIL | change]}).json["fieldErrors"] == several


def test_the_same_key_with_the_same_body_is_answered_the_same_and_adds_nothing(client: FlaskClient) -> None:
    first = client.post("/messages", json=MAIL, headers=keyed("k1"))
    again = client.post("/messages", json=dict(reversed(MAIL.items())), headers=keyed("k1"))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json["ids"] == again.json["ids"]
    assert (first.json["replayed"], again.json["replayed"]) == (False, True)
    assert stored() == 1


def test_the_same_key_with_another_body_is_a_conflict(client: FlaskClient) -> None:
    client.post("/messages", json=MAIL, headers=keyed("k1"))
    answer = client.post("/messages", json=MAIL | {"subject": "Other"}, headers=keyed("k1"))
    assert answer.status_code == 409
    assert stored() == 1


def test_a_key_whose_request_was_refused_is_still_free(client: FlaskClient) -> None:
    assert client.post("/messages", json=MAIL | {"to": ""}, headers=keyed("k1")).status_code == 400
    assert client.post("/messages", json=MAIL, headers=keyed("k1")).status_code == 201


def test_a_key_belongs_to_the_one_who_uses_it(client: FlaskClient, application: Application) -> None:
    _, token = application.access.create("shop", ["send"], by="admin")
    client.post("/messages", json=MAIL, headers=keyed("k1"))
    answer = client.post(
        "/messages", json=MAIL | {"subject": "Other"}, headers=keyed("k1") | {"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 201
    assert stored() == 2


def test_a_key_is_forgotten_after_a_day(client: FlaskClient, clock: MovableClock) -> None:
    client.post("/messages", json=MAIL, headers=keyed("k1"))
    clock.advance(hours=24, seconds=1)
    assert client.post("/messages", json=MAIL, headers=keyed("k1")).json["replayed"] is False
    assert stored() == 2


@pytest.mark.parametrize("key", ["", "two words", "x" * 256, "é"])
def test_a_key_that_is_none_is_refused(client: FlaskClient, key: str) -> None:
    assert client.post("/messages", json=MAIL, headers=keyed(key)).status_code == 400
    assert stored() == 0


def test_of_many_requests_at_once_with_one_key_one_adds_messages_and_all_are_answered_the_same(web: Flask) -> None:
    batch = {"messages": [MAIL] * 3}

    def ask(_: int) -> tuple[int, tuple[str, ...]]:
        headers = keyed("k1") | {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        answer = web.test_client().post("/messages", json=batch, headers=headers)
        return answer.status_code, tuple(answer.json["ids"])

    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(ask, range(16)))
    assert len(answers) == 1
    assert next(iter(answers))[0] == 201
    assert stored() == 3
