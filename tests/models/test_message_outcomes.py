"""What is written when a send has ended, and whose word counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.models.message import Attempt, Message, MessageStatus
from support.clock import START
from support.messages import ATTEMPT, message_in, reloaded, row

S = MessageStatus
LATER = START + timedelta(minutes=2)

OUTCOMES = {
    "mark_sent": lambda m: m.mark_sent(LATER, ATTEMPT),
    "mark_unknown": lambda m: m.mark_unknown(ATTEMPT, look_at=LATER, error="timed out"),
    "mark_error": lambda m: m.mark_error("no such address", ATTEMPT),
    "retry_at": lambda m: m.retry_at(LATER, error="refused", attempt=ATTEMPT),
    "defer": lambda m: m.defer(LATER, waiting_for="day", attempt=ATTEMPT),
    "lose_lease": lambda m: m.lose_lease(LATER, look_at=LATER),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_under_anothers_claim_changes_nothing(database, name):
    mine = message_in(S.SENDING, claim="mine")
    Message.update(claim="newer").where(Message.id == mine.id).execute()
    before = row(mine)
    assert not OUTCOMES[name](mine)
    assert row(mine) == before


@pytest.mark.parametrize("believed", [S.UNKNOWN, S.SCHEDULED, S.QUEUED])
def test_a_late_acceptance_wins_over_what_was_believed_meanwhile(database, believed):
    mine = message_in(S.SENDING)
    Message.update(status=believed.value, job_id="job-2").where(Message.id == mine.id).execute()
    assert mine.mark_sent(LATER, ATTEMPT)
    after = reloaded(mine)
    assert (after.status, after.sent_on, after.job_id) == (S.SENT, LATER, None)


def test_a_late_acceptance_wins_even_after_it_was_decided_to_send_again(database):
    mine = message_in(S.SENDING)
    assert reloaded(mine).lose_lease(LATER, look_at=LATER)
    assert reloaded(mine).send_again(LATER, "not found in the mailbox")
    assert mine.mark_sent(LATER, ATTEMPT)
    assert reloaded(mine).status == S.SENT


@pytest.mark.parametrize("later_state", [S.SENDING, S.UNKNOWN, S.SCHEDULED])
def test_a_late_acceptance_does_not_speak_for_a_newer_claim(database, later_state):
    mine = message_in(S.SENDING, claim="mine")
    Message.update(status=later_state.value, claim="newer").where(Message.id == mine.id).execute()
    assert not mine.mark_sent(LATER, ATTEMPT)
    assert reloaded(mine).status == later_state


@pytest.mark.parametrize("status", [S.SCHEDULED, S.QUEUED, S.SENDING, S.UNKNOWN])
def test_a_message_nobody_has_begun_to_send_is_not_sent_whoever_says_so(database, status):
    message = message_in(status, claim=None)
    assert not message.mark_sent(LATER, ATTEMPT)
    assert reloaded(message).status == status


def test_a_deferral_counts_apart_from_attempts_and_moves_only_the_moment(database):
    message = message_in(S.SENDING, attempts=2, deferrals=5)
    assert message.defer(LATER, waiting_for="minute")
    after = reloaded(message)
    assert (after.status, after.attempts, after.deferrals) == (S.SCHEDULED, 2, 6)
    assert (after.scheduled_on, after.requested_on, after.waiting_for) == (LATER, START, "minute")
    assert after.history == []
    assert after.lease_until is None


def test_a_retry_counts_as_an_attempt_and_says_why(database):
    message = message_in(S.SENDING, attempts=2, deferrals=5)
    assert message.retry_at(LATER, error="connection refused", attempt=ATTEMPT)
    after = reloaded(message)
    assert (after.status, after.attempts, after.deferrals) == (S.SCHEDULED, 3, 5)
    assert (after.scheduled_on, after.requested_on) == (LATER, START)
    assert (after.last_error, after.waiting_for) == ("connection refused", "retry")


def test_an_acceptance_clears_what_once_held_the_message_up(database):
    message = message_in(S.SENDING, last_error="busy", waiting_for="retry", attempts=1)
    assert message.mark_sent(LATER, ATTEMPT)
    after = reloaded(message)
    assert (after.sent_on, after.attempts, after.last_error, after.waiting_for) == (LATER, 2, None, None)
    assert after.lease_until is None


def test_an_error_says_why_in_the_row_and_in_the_history(database):
    message = message_in(S.SENDING)
    assert message.mark_error("The address nobody@ is not valid.", ATTEMPT)
    after = reloaded(message)
    assert after.last_error == "The address nobody@ is not valid."
    assert [entry["outcome"] for entry in after.history] == ["tested"]


def test_an_unknown_outcome_is_looked_at_again_when_its_moment_comes(database):
    message = message_in(S.SENDING)
    assert message.mark_unknown(ATTEMPT, look_at=LATER, error="no answer in time")
    unknown = reloaded(message)
    assert (unknown.lease_until, unknown.last_error, unknown.attempts) == (LATER, "no answer in time", 1)
    assert unknown.look_again_at(LATER + timedelta(minutes=5))
    assert reloaded(message).last_error == "no answer in time"
    assert unknown.look_again_at(LATER + timedelta(minutes=9), "may not read the mailbox")
    after = reloaded(message)
    assert (after.lease_until, after.last_error) == (LATER + timedelta(minutes=9), "may not read the mailbox")


def test_a_confirmed_message_was_sent_when_it_was_attempted(database):
    message = message_in(S.UNKNOWN)
    assert message.confirm_sent(LATER, "found in Sent Items")
    after = reloaded(message)
    assert (after.status, after.sent_on, after.last_error) == (S.SENT, START, None)
    assert after.history[-1] == {
        "at": LATER.isoformat(),
        "outcome": "confirmed-sent",
        "duration_ms": 0,
        "detail": "found in Sent Items",
    }


def test_a_message_sent_again_by_a_person_begins_at_its_first_attempt_and_keeps_its_history(database):
    message = message_in(S.SENDING, attempts=7)
    message.mark_error("gave up", ATTEMPT)
    assert Message.requeue([message.id], LATER) == [message.id]
    after = reloaded(message)
    assert (after.status, after.attempts, after.scheduled_on, after.requested_on) == (S.SCHEDULED, 0, LATER, START)
    assert len(after.history) == 1


def test_only_messages_of_the_named_job_are_put_back(database):
    mine, theirs = message_in(S.QUEUED, job_id="gone"), message_in(S.QUEUED, job_id="alive")
    assert Message.put_back([mine.id, theirs.id], "gone") == [mine.id]
    assert (reloaded(mine).job_id, reloaded(mine).lease_until, reloaded(mine).deferrals) == (None, None, 0)
    assert reloaded(theirs).status == S.QUEUED


def test_bringing_forward_moves_only_what_waits(database):
    waiting, sending = message_in(S.SCHEDULED, scheduled_on=LATER), message_in(S.SENDING, scheduled_on=LATER)
    assert Message.bring_forward([waiting.id, sending.id], START) == [waiting.id]
    assert reloaded(waiting).scheduled_on == START
    assert reloaded(sending).scheduled_on == LATER


def test_messages_expire_once_their_moment_has_come_and_not_before(database):
    due, not_yet, never = (message_in(S.SCHEDULED, expires_on=at) for at in (LATER, LATER + timedelta.resolution, None))
    assert Message.give_up_expired(LATER) == [due.id]
    assert [reloaded(m).status for m in (due, not_yet, never)] == [S.EXPIRED, S.SCHEDULED, S.SCHEDULED]


def test_the_history_is_told_in_order_and_leaves_out_what_was_not_there(database):
    message = message_in(S.SENDING)
    first = Attempt(at=START.isoformat(), outcome="throttled", duration_ms=3, status=429, code="ErrorServerBusy")
    second = Attempt(at=LATER.isoformat(), outcome="sent", duration_ms=5, status=202, detail='ligne "deux"\nsuite é')
    assert message.retry_at(LATER, error="busy", attempt=first)
    Message.update(status=S.SENDING.value).where(Message.id == message.id).execute()
    assert message.mark_sent(LATER, second)
    assert reloaded(message).history == [
        {
            "at": START.isoformat(),
            "outcome": "throttled",
            "duration_ms": 3,
            "status": 429,
            "code": "ErrorServerBusy",
        },
        {
            "at": LATER.isoformat(),
            "outcome": "sent",
            "duration_ms": 5,
            "status": 202,
            "detail": 'ligne "deux"\nsuite é',
        },
    ]


def test_broken_lines_of_a_history_are_left_out_and_the_rest_is_told(database):
    message = message_in(S.SENDING, attempt_log='{"outcome": "busy"}\nnot json\n[1]\n{"outcome": \n\n')
    assert message.mark_sent(LATER, ATTEMPT)
    assert [entry["outcome"] for entry in reloaded(message).history] == ["busy", "tested"]
