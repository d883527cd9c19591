"""Garbage from outside: logged, that one message or job set aside, everything else goes on."""

from __future__ import annotations

import pytest
import structlog

from reliability.running import Running
from rqmail.models.message import Message, MessageStatus, Recipient
from rqmail.queues import SEND_JOB
from support.messages import new_message, reloaded

S = MessageStatus


def goes_on(running: Running) -> bool:
    """Say whether another message on another mailbox still goes out."""
    [message_id] = running.submit(new_message(running.mailbox(f"other{len(running.accepted())}")))
    running.app.dispatcher.tick()
    running.work()
    return reloaded(message_id).status == S.SENT


# --- from Graph ----------------------------------------------------------------------------------------------------

GARBAGE = {
    "HTML with 502": ({"kind": "html", "status": 502}, S.UNKNOWN),
    "HTML with 400": ({"kind": "html", "status": 400}, S.ERROR),
    "truncated JSON with 500": ({"kind": "truncated-json", "status": 500}, S.UNKNOWN),
    "truncated JSON with 400": ({"kind": "truncated-json", "status": 400}, S.ERROR),
    "half an answer": ({"kind": "short-body", "status": 503}, None),
    "wrong types": ({"kind": "status", "status": 400, "body": '{"error": ["code", {"message": 7}]}'}, S.ERROR),
    "an error that is a number": ({"kind": "status", "status": 500, "body": '{"error": 42}'}, S.UNKNOWN),
    "a megabyte": (
        {"kind": "status", "status": 400, "body": '{"error": {"code": "' + "x" * 1_000_000 + '"}}'},
        S.ERROR,
    ),
    "nothing with 429": (
        {"kind": "status", "status": 429, "body": "", "headers": {"Retry-After": "soon"}},
        S.SCHEDULED,
    ),
    "an absurd wait": ({"kind": "status", "status": 429, "headers": {"Retry-After": "99999999999"}}, S.SCHEDULED),
    "a 200": ({"kind": "status", "status": 200, "body": "{}"}, None),
    "a redirect": ({"kind": "status", "status": 302, "headers": {"Location": "https://elsewhere.example/"}}, None),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_from_graph_ends_in_one_state_and_stops_nobody_else(running, name):
    fault, expected = GARBAGE[name]
    fault = dict(fault)
    running.control.faults(fault.pop("kind"), mailbox="news@contoso.example", **fault)
    [message_id] = running.submit(new_message())
    running.app.dispatcher.tick()
    running.work()
    message = reloaded(message_id)
    if expected is not None:
        assert message.status == expected
    assert message.status not in (S.SENDING, S.QUEUED)
    [entry] = message.history
    assert len(message.last_error) < 1000
    assert len(str(entry)) < 2000
    assert goes_on(running)


@pytest.mark.parametrize("kind", ["html", "truncated-json", "short-body"])
def test_garbage_about_what_was_sent_leaves_the_message_unknown_until_it_can_be_read(running, kind):
    running.control.faults("accept-then-504")
    [message_id] = running.submit(new_message())
    running.app.dispatcher.tick()
    running.work()
    running.control.faults(kind, operation="listMessages", status=200)
    running.clock.advance(seconds=30)
    running.app.recovery.run()
    assert reloaded(message_id).status == S.UNKNOWN
    running.settle()
    assert reloaded(message_id).status == S.SENT
    assert running.accepted() == [message_id]


# --- rows edited by hand -------------------------------------------------------------------------------------------

EDITS = {
    "a status that is none": {"status": "MAYBE"},
    "SENDING without claim or lease": {"status": "SENDING", "claim": None, "lease_until": None},
    "QUEUED without job or lease": {"status": "QUEUED", "job_id": None, "lease_until": None},
    "UNKNOWN that was never attempted": {"status": "UNKNOWN", "lease_until": None, "attempted_on": None},
    "a priority that is none": {"priority": 77},
    "recipients below zero": {"recipient_count": -5},
    "attempts below zero": {"attempts": -3},
    "a history that is no JSON": {"attempt_log": "not json\n[1]\n"},
    "a sender without a name": {"sender": ""},
    "a sender of no kind": {"sender": "nobody:nothing"},
}


@pytest.mark.parametrize("name", EDITS)
def test_a_row_edited_to_an_impossible_state_harms_only_itself(running, name):
    [odd] = running.submit(new_message())
    Message.update(EDITS[name]).where(Message.id == odd).execute()
    for _ in range(4):
        running.pass_time(minutes=3)
    assert running.accepted().count(odd) <= 1
    assert reloaded(odd).status not in (S.SENDING, S.QUEUED)
    assert goes_on(running)


def test_a_moment_that_is_none_harms_only_its_own_row(running):
    for column in ("scheduled_on", "created_on", "expires_on", "attempted_on", "lease_until"):
        for status in (S.SCHEDULED, S.SENDING, S.UNKNOWN, S.QUEUED):
            [odd] = running.submit(new_message())
            Message.update(status=status.value, lease_until=running.clock()).where(Message.id == odd).execute()
            Message.raw(f"UPDATE message SET {column} = 'soon' WHERE id = ?", odd).execute()
    for _ in range(3):
        running.pass_time(minutes=3)
    assert max(running.accepted().count(message_id) for message_id in running.accepted()) == 1
    assert goes_on(running)


def test_a_recipient_of_no_kind_fails_its_own_message_and_not_its_job(running):
    odd, plain = running.submit(new_message(), new_message())
    Recipient.update(kind="xx").where(Recipient.message == odd).execute()
    running.app.dispatcher.tick()
    running.work()
    assert [reloaded(odd).status, reloaded(plain).status] == [S.ERROR, S.SENT]


# --- jobs and keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["no-such-id"], None, 7, "text", [None], [{"a": 1}], [["nested"]], [True], ["\x00"], ["é" * 5000]]
)
def test_a_job_for_nothing_or_with_a_wrong_argument_is_set_aside(running, arguments):
    queue = running.app.queues._queues["mail"]
    queue.enqueue_call(SEND_JOB, args=(arguments,), job_id="odd")
    [message_id] = running.submit(new_message())
    running.app.dispatcher.tick()
    running.work()
    assert reloaded(message_id).status == S.SENT
    assert running.accepted() == [message_id]


@pytest.mark.parametrize("kind", ["text", "list"])
def test_a_poisoned_limiter_key_lets_that_mailbox_run_open_and_says_so(running, kind):
    redis = running.app.redis
    key = "mail:rate:state:news@contoso.example"
    if kind == "text":
        redis.set(key, "poison")
    else:
        redis.rpush(key, "poison")
    ids = running.submit(new_message(), new_message())
    with structlog.testing.capture_logs() as logs:
        running.app.dispatcher.tick()
        running.work()
    assert [reloaded(message_id).status for message_id in ids] == [S.SENT, S.SENT]
    assert "mail.rateLimit.redisError" in {entry["event"] for entry in logs}
    assert goes_on(running)


def test_poisoned_tokens_ticks_and_locks_are_overcome(running):
    [first] = running.submit(new_message())
    running.app.dispatcher.tick()
    running.work()
    redis = running.app.redis
    for key in redis.scan_iter():
        if redis.type(key) == b"string" and not key.startswith(b"rq:"):
            redis.set(key, b"\xff\x00 poison", keepttl=True)
    redis.delete("rqmail:dispatching")
    [second] = running.submit(new_message())
    running.pass_time(minutes=2)
    assert [reloaded(message_id).status for message_id in (first, second)] == [S.SENT, S.SENT]
