"""Looking ahead over the API."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from support.clock import START
from support.messages import new_message, submitted


@pytest.fixture(autouse=True)
def two_mailboxes(application: Application) -> None:
    for key in ("news", "events"):
        application.mailboxes.add(key, f"{key}@example.org", pacing="burst")


def test_when_what_waits_and_what_might_come_will_have_left_is_told_by_mailbox(client: FlaskClient) -> None:
    submitted(*(new_message("mailbox:news") for _ in range(100)))
    told = client.get("/forecast").json
    assert {key: (one["waiting"], one["further"]) for key, one in told["mailboxes"].items()} == {
        "news": (100, 0),
        "events": (0, 0),
    }
    assert datetime.fromisoformat(told["doneOn"]) - START == timedelta(minutes=3)
    assert told["mailboxes"]["events"]["doneOn"] == told["at"]

    more = client.get("/forecast?messages=900").json
    assert more["messages"] == 1_000
    assert more["mailboxes"]["events"]["further"] > more["mailboxes"]["news"]["further"] > 0
    one = client.get("/forecast?mailbox=news&messages=900&perMinute=100&recipientsEach=5").json
    assert list(one["mailboxes"]) == ["news"]
    assert datetime.fromisoformat(one["doneOn"]) - START == timedelta(minutes=9)
    both = client.get("/forecast?mailbox=news&mailbox=events&at=2026-03-11T00:00:00%2B01:00&messages=2").json
    assert sorted(both["mailboxes"]) == ["events", "news"]
    assert both["doneOn"] == "2026-03-10T23:00:00Z"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("messages=-1", "messages"),
        ("recipientsEach=0", "recipientsEach"),
        ("perMinute=many", "perMinute"),
        ("recipientsPerDay=0", "recipientsPerDay"),
        ("at=tomorrow", "at"),
        ("mailbox=news&mailbox=news", "mailbox"),
        ("mailboxes=news", "mailboxes"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_field(client: FlaskClient, query: str, field: str) -> None:
    refused = client.get(f"/forecast?{query}")
    assert (refused.status_code, list(refused.json["fieldErrors"])) == (400, [field])


def test_a_mailbox_that_does_not_exist_is_named(client: FlaskClient) -> None:
    refused = client.get("/forecast?mailbox=nobody")
    assert (refused.status_code, "nobody" in refused.json["error"]) == (404, True)
