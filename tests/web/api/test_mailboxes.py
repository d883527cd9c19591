"""System mailboxes over the API: limits, pauses, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from redis import Redis

from rqmail.bootstrap import Application
from support.clock import MovableClock
from support.messages import new_message, submitted

NEWS = "/admin/system-mailboxes/news"

LIMITS = ["rateLimitPerMinute", "rateLimitRecipientsPerDay"]
NO_LIMITS = [-1, 0, 1.5, "25", True, False, [], {}, "", 2**31]


@pytest.fixture(autouse=True)
def news(application: Application) -> None:
    application.mailboxes.add("news", "news@example.org", rate_limit_per_minute=12, rate_limit_recipients_per_day=400)


def limits(client: FlaskClient) -> tuple[int | None, int | None]:
    shown = client.get(NEWS).json
    return shown["rateLimitPerMinute"], shown["rateLimitRecipientsPerDay"]


@pytest.mark.parametrize("wrong", NO_LIMITS, ids=repr)
@pytest.mark.parametrize("field", LIMITS)
def test_what_is_not_a_positive_whole_number_is_refused_in_the_agreed_words(
    client: FlaskClient, field: str, wrong: Any
) -> None:
    answer = client.put(NEWS, json={field: wrong})
    text = f"{field} moet een positief geheel getal zijn" + (", hoogstens 2.147.483.647" if wrong == 2**31 else "")
    assert answer.status_code == 400
    assert answer.json == {"error": text, "fieldErrors": {field: text}}
    assert limits(client) == (12, 400)


def test_both_limits_are_reported_when_both_are_wrong(client: FlaskClient) -> None:
    answer = client.put(NEWS, json={"rateLimitPerMinute": 0, "rateLimitRecipientsPerDay": "x"})
    assert answer.json["error"] == "rateLimitPerMinute moet een positief geheel getal zijn"
    assert set(answer.json["fieldErrors"]) == set(LIMITS)


def test_a_wrong_limit_in_a_new_mailbox_is_refused_in_the_same_words(client: FlaskClient) -> None:
    answer = client.post(
        "/admin/system-mailboxes", json={"key": "a", "address": "a@example.org", "rateLimitPerMinute": -1}
    )
    assert answer.status_code == 400
    assert answer.json["error"] == "rateLimitPerMinute moet een positief geheel getal zijn"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ({}, (12, 400)),
        ({"rateLimitPerMinute": 7}, (7, 400)),
        ({"rateLimitPerMinute": 7.0}, (7, 400)),
        ({"rateLimitRecipientsPerDay": 9}, (12, 9)),
        ({"rateLimitPerMinute": None}, (None, 400)),
        ({"rateLimitPerMinute": None, "rateLimitRecipientsPerDay": None}, (None, None)),
        ({"address": "other@example.org"}, (12, 400)),
    ],
    ids=repr,
)
def test_a_field_left_out_keeps_its_value_and_null_clears_it(
    client: FlaskClient, body: dict[str, Any], after: tuple[int | None, int | None]
) -> None:
    answer = client.put(NEWS, json=body)
    assert answer.status_code == 200
    assert (answer.json["rateLimitPerMinute"], answer.json["rateLimitRecipientsPerDay"]) == after
    assert limits(client) == after


def test_an_unknown_field_is_refused_by_name_and_nothing_is_changed(client: FlaskClient) -> None:
    answer = client.put(NEWS, json={"rateLimitPerMinute": 7, "rateLimitPerHour": 100})
    assert answer.status_code == 400
    assert list(answer.json["fieldErrors"]) == ["rateLimitPerHour"]
    assert limits(client) == (12, 400)


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_an_unknown_mailbox_is_not_found(client: FlaskClient, method: str) -> None:
    answer = getattr(client, method)("/admin/system-mailboxes/nobody", **({"json": {}} if method == "put" else {}))
    assert answer.status_code == 404
    assert "nobody" in answer.json["error"]


def test_a_mailbox_is_added_once(client: FlaskClient) -> None:
    body = {"key": "alerts", "address": "alerts@example.org", "rateLimitPerMinute": 3}
    added = client.post("/admin/system-mailboxes", json=body)
    assert added.status_code == 201
    assert added.json["rateLimitPerMinute"] == 3
    assert client.post("/admin/system-mailboxes", json=body).status_code == 409
    listed = client.get("/admin/system-mailboxes").json["mailboxes"]
    assert [mailbox["key"] for mailbox in listed] == ["alerts", "news"]


def test_a_mailbox_is_not_removed_while_mail_of_it_waits(client: FlaskClient) -> None:
    [waiting] = submitted(new_message("mailbox:news"))
    assert client.delete(NEWS).status_code == 409
    assert client.post(f"/messages/{waiting}/cancel").status_code == 200
    assert client.delete(NEWS).json == {"done": True}
    assert client.get(NEWS).status_code == 404


def test_the_budget_says_what_is_used_and_where_each_limit_comes_from(
    client: FlaskClient, application: Application
) -> None:
    client.put(NEWS, json={"rateLimitRecipientsPerDay": None})
    sender = application.senders.find("mailbox:news")
    assert sender.limits is not None
    application.limiter.check_and_reserve("news@example.org", 5, sender.limits)
    submitted(new_message("mailbox:news"), new_message("mailbox:news"))

    shown = client.get(f"{NEWS}/budget").json
    assert shown["waiting"] == 2
    assert shown["budget"]["perMinute"] == {
        "limit": 12, "source": "override", "used": 1, "remaining": 11, "bucket": 1, "rolling": 1,
    }  # fmt: skip
    day = shown["budget"]["recipientsPerDay"]
    assert (day["limit"], day["source"], day["used"], day["remaining"]) == (9000, "default", 5, 8995)
    assert shown["budget"]["inFlight"] == 1
    assert shown["doneOn"] is None, "nobody dispatches or sends here"


def test_how_often_the_limiter_denied_in_the_last_hour_is_told_by_reason_and_mailbox(
    client: FlaskClient, application: Application, clock: MovableClock
) -> None:
    application.mailboxes.add("other", "other@example.org")
    for reason in ("minute", "minute", "day"):
        application.metrics.denied("news@example.org", reason)
    application.metrics.flush()
    mailboxes = client.get("/admin/status").json["mailboxes"]
    assert {key: one["deniedLastHour"] for key, one in mailboxes.items()} == {
        "news": {"minute": 2, "day": 1},
        "other": {},
    }
    assert client.get(f"{NEWS}/budget").json["deniedLastHour"] == {"minute": 2, "day": 1}
    clock.advance(hours=1, minutes=1)
    assert client.get(f"{NEWS}/budget").json["deniedLastHour"] == {}


def test_a_changed_limit_is_what_the_next_decision_is_made_with(client: FlaskClient, application: Application) -> None:
    assert application.senders.find("mailbox:news").limits.per_minute == 12  # type: ignore[union-attr]
    client.put(NEWS, json={"rateLimitPerMinute": 2})
    assert application.senders.find("mailbox:news").limits.per_minute == 2  # type: ignore[union-attr]


def test_a_pause_has_a_reason_and_an_end_and_can_be_ended(client: FlaskClient, clock: MovableClock) -> None:
    paused = client.post(f"{NEWS}/pause", json={"reason": "Blocked by Exchange", "durationSeconds": 600})
    assert paused.status_code == 200
    budget = client.get(f"{NEWS}/budget").json
    assert budget["state"] == "paused"
    assert budget["budget"]["pauseReason"] == "Blocked by Exchange"

    assert client.post(f"{NEWS}/resume").json["pausedUntil"] is None
    assert client.get(f"{NEWS}/budget").json["state"] == "ok"

    client.post(f"{NEWS}/pause", json={"reason": "once more", "durationSeconds": 600})
    clock.advance(seconds=601)
    assert client.get(f"{NEWS}/budget").json["state"] == "ok"


@pytest.mark.parametrize(
    "body", [{}, {"reason": ""}, {"reason": "x", "durationSeconds": 0}, {"reason": "x", "durationSeconds": "5"}]
)
def test_a_pause_without_a_reason_or_with_a_strange_duration_is_refused(
    client: FlaskClient, body: dict[str, Any]
) -> None:
    assert client.post(f"{NEWS}/pause", json=body).status_code == 400
    assert client.get(NEWS).json["pausedUntil"] is None


def test_a_reset_empties_the_windows(client: FlaskClient, application: Application) -> None:
    sender = application.senders.find("mailbox:news")
    assert sender.limits is not None
    application.limiter.check_and_reserve("news@example.org", 5, sender.limits)
    assert client.post(f"{NEWS}/reset").status_code == 200
    assert client.get(f"{NEWS}/budget").json["budget"]["recipientsPerDay"]["used"] == 0


def test_a_reset_that_redis_did_not_take_is_not_called_done(client: FlaskClient, redis_client: Redis) -> None:
    redis_client.config_set("maxmemory", 1)
    try:
        assert client.post(f"{NEWS}/reset").status_code == 409
    finally:
        redis_client.config_set("maxmemory", 0)
    assert client.get("/admin/audit?subject=mailbox:news").json["entries"] == []


def test_what_becomes_of_copies_in_sent_items_is_set_and_kept_and_pruning_needs_its_days(client: FlaskClient) -> None:
    assert client.get(NEWS).json["sentItems"] == "keep"
    answer = client.put(NEWS, json={"sentItems": "prune"})
    assert (answer.status_code, list(answer.json["fieldErrors"])) == (400, ["pruneAfterDays"])
    assert client.put(NEWS, json={"sentItems": "prune", "pruneAfterDays": 30}).json["pruneAfterDays"] == 30
    assert client.put(NEWS, json={"rateLimitPerMinute": 5}).json["sentItems"] == "prune"
    answer = client.put(NEWS, json={"sentItems": "burn"})
    assert (answer.status_code, list(answer.json["fieldErrors"])) == (400, ["sentItems"])


def test_a_mailboxs_pacing_is_set_kept_and_cleared(client: FlaskClient) -> None:
    assert client.get(NEWS).json["pacing"] is None
    assert client.put(NEWS, json={"pacing": "burst"}).json["pacing"] == "burst"
    assert client.put(NEWS, json={"rateLimitPerMinute": 5}).json["pacing"] == "burst"
    assert client.put(NEWS, json={"pacing": None}).json["pacing"] is None
    answer = client.put(NEWS, json={"pacing": "slowly"})
    assert (answer.status_code, list(answer.json["fieldErrors"])) == (400, ["pacing"])


def test_a_limit_above_what_exchange_allows_is_taken_with_a_warning(client: FlaskClient) -> None:
    changed = client.put(NEWS, json={"rateLimitPerMinute": 31}).json
    assert changed["rateLimitPerMinute"] == 31
    assert changed["warnings"] == [
        "Exchange Online allows a mailbox 30 messages a minute, and refuses more than that: 31."
    ]
    assert client.put(NEWS, json={"rateLimitPerMinute": 30, "rateLimitRecipientsPerDay": 10_000}).json["warnings"] == []
    new = {"key": "more", "address": "more@example.org", "rateLimitRecipientsPerDay": 10_001}
    assert "10,000 recipients a day" in client.post("/admin/system-mailboxes", json=new).json["warnings"][0]


def test_a_mailbox_is_checked_when_asked_and_its_last_check_is_shown(client: FlaskClient) -> None:
    assert client.get(NEWS).json["check"] is None
    checked = client.post(f"{NEWS}/check").json
    assert (checked["outcome"], checked["maySend"]) == ("unconfigured", False)
    assert "RQMAIL_GRAPH_TENANT_ID" in checked["problem"]
    assert client.get(NEWS).json["check"] == checked
    assert client.get("/admin/system-mailboxes").json["mailboxes"][0]["check"] == checked
    assert client.post("/admin/system-mailboxes/none/check").status_code == 404
    assert client.put(NEWS, json={"address": "other@example.org"}).json["check"] is None
