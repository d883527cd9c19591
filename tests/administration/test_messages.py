"""What happened to a message, in one dated history, and what people do to many at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.administration import messages
from rqmail.administration.messages import Filter
from rqmail.errors import ConflictError
from rqmail.models.message import Attempt, Event, Message, MessageStatus
from support.clock import START
from support.messages import message_in, new_message, reloaded

S = MessageStatus


def told(message_id: str) -> list[tuple[str, str | None]]:
    return [(one.what, one.by) for one in messages.show(message_id).events]


def sending(message_id: str) -> Message:
    Message.update(status=S.SENDING.value, claim="c").where(Message.id == message_id).execute()
    return reloaded(message_id)


def test_a_message_has_one_dated_history_from_who_handed_it_in_to_who_decided(database, clock):
    [message_id] = Message.submit([new_message()], clock(), by="token erp")
    for _ in range(3):  # put off three times for the same reason: one wait
        sending(message_id).defer(clock() + timedelta(minutes=1), waiting_for="minute", now=clock.advance(minutes=1))
    sending(message_id).defer(clock() + timedelta(hours=1), waiting_for="day", now=clock.advance(minutes=2))
    clock.advance(hours=1)
    attempt = Attempt(at=clock().isoformat(), outcome="unknown", duration_ms=30_000, status=504, mailbox_key="n@x.nl")
    sending(message_id).mark_unknown(attempt, look_at=clock(), error="no answer")
    for _ in range(3):
        looked = Event(clock.advance(minutes=1), "looked-for", detail="Not found yet.")
        reloaded(message_id).look_again_at(clock(), looked=looked)
    messages.resolve(message_id, messages.Decision.RESEND, clock.advance(minutes=1), "sanne")
    messages.send_now(message_id, clock.advance(minutes=1), "jan")
    messages.act_on_all("cancel", Filter(sender="mailbox:news"), clock.advance(minutes=1), "page of sanne")
    messages.requeue(message_id, clock.advance(minutes=1), "jan")

    shown = messages.show(message_id)
    assert told(message_id) == [
        ("handed-in", "token erp"),
        ("waited", None),
        ("waited", None),
        ("attempt", None),
        ("looked-for", None),
        ("sent-again", "sanne"),
        ("brought-forward", "jan"),
        ("cancelled", "page of sanne"),
        ("requeued", "jan"),
    ]
    moments = [one.at for one in shown.events]
    assert moments == sorted(moments)
    minute, day, attempted = shown.events[1:4]
    assert (minute.waiting_for, minute.seconds) == ("minute", 4 * 60)
    assert (day.waiting_for, day.seconds) == ("day", 3600)
    assert (attempted.attempt["status"], attempted.attempt["mailboxKey"]) == (504, "n@x.nl")
    assert [entry["outcome"] for entry in shown.history] == ["unknown", "sent-again"]


def test_a_wait_that_is_not_over_has_no_length_yet(database, clock):
    [message_id] = Message.submit([new_message()], clock())
    sending(message_id).defer(START + timedelta(days=1), waiting_for="day", now=clock())
    [handed_in, wait] = messages.show(message_id).events
    assert (handed_in.what, handed_in.at, handed_in.by) == ("handed-in", START, None)
    assert (wait.waiting_for, wait.seconds) == ("day", None)


def test_no_history_grows_without_end(database, clock):
    message = message_in(S.SENDING)
    for number in range(600):
        sending(message.id).defer(clock(), waiting_for=("minute", "day")[number % 2], now=clock.advance(minutes=1))
    assert len(reloaded(message).attempt_log) < 33_000
    assert reloaded(message).deferrals == 600


@pytest.mark.parametrize(
    ("action", "status", "what"),
    [
        ("cancel", S.SCHEDULED, "cancelled"),
        ("requeue", S.ERROR, "requeued"),
        ("send-now", S.SCHEDULED, "brought-forward"),
        ("confirm-sent", S.UNKNOWN, "confirmed-sent"),
        ("resend", S.UNKNOWN, "sent-again"),
        ("discard", S.UNKNOWN, "discarded"),
    ],
)
def test_an_action_on_many_leaves_its_trace_on_each(database, clock, action, status, what):
    ids = [message_in(status).id for _ in range(3)]
    assert messages.act_on_all(action, Filter(sender="mailbox:news"), clock(), "sanne") == 3
    assert [told(message_id)[-1] for message_id in ids] == [(what, "sanne")] * 3


def test_requeueing_many_means_what_failed_unless_others_are_named(database, clock):
    failed, cancelled, expired = (message_in(status).id for status in (S.ERROR, S.CANCELLED, S.EXPIRED))
    everything = Filter(sender="mailbox:news")
    assert messages.count_of("requeue", everything, clock()) == 1
    assert messages.act_on_all("requeue", everything, clock(), "sanne") == 1
    assert messages.act_on_all("requeue", Filter(status=S.CANCELLED), clock(), "sanne") == 1
    assert messages.act_on_all("requeue", Filter(ids=(expired,)), clock(), "sanne") == 1
    assert {reloaded(one).status for one in (failed, cancelled, expired)} == {S.SCHEDULED}


def test_requeued_mail_still_expires_when_it_was_to_and_what_is_too_late_is_passed_over(database, clock):
    in_time = message_in(S.ERROR, expires_on=START + timedelta(hours=1)).id
    too_late = message_in(S.EXPIRED, expires_on=START).id
    named = Filter(ids=(in_time, too_late))
    assert messages.count_of("requeue", named, clock()) == 1
    assert messages.act_on_all("requeue", named, clock(), "sanne") == 1
    assert reloaded(in_time).expires_on == START + timedelta(hours=1)
    assert reloaded(too_late).status == S.EXPIRED
    messages.requeue(too_late, clock(), "sanne")
    assert (reloaded(too_late).status, reloaded(too_late).expires_on) == (S.SCHEDULED, None)


def test_what_cannot_be_requeued_is_a_conflict(database, clock):
    with pytest.raises(ConflictError):
        messages.requeue(message_in(S.SENT).id, clock(), "sanne")
