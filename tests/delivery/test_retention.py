"""What came to its end long ago is forgotten, and nothing that a window still needs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.content_store import ContentStore
from rqmail.delivery.retention import KEPT_FOR_THE_WINDOWS, Retention
from rqmail.models.ledger import sends_since
from rqmail.models.message import Message, MessageStatus
from support.clock import START
from support.messages import ATTEMPT, MAILBOX, message_in, submitted

S = MessageStatus
DAY = timedelta(days=1)


def days(number: float) -> timedelta:
    return DAY * number


@pytest.fixture
def retention(clock) -> Retention:
    return Retention(clock, ContentStore(clock))


ENDS = {
    S.SENT: lambda message, now: message.mark_sent(now, ATTEMPT),
    S.ERROR: lambda message, now: message.mark_error("no", ATTEMPT, now=now),
    S.CANCELLED: lambda message, now: Message.cancel([message.id], now, "sanne"),
    S.EXPIRED: lambda message, now: Message.expire(message.id, now),
}


@pytest.mark.parametrize("status", ENDS)
def test_age_counts_from_the_end_however_long_ago_a_message_was_handed_in(database, retention, clock, status):
    begun = S.SENDING if status in {S.SENT, S.ERROR} else S.SCHEDULED
    message = message_in(begun, now=START - days(30))
    assert ENDS[status](message, START)
    assert Message.get_by_id(message.id).ended_on == START
    clock.advance(days(3) - timedelta(minutes=1))
    assert (retention.count(days(3)), retention.purge(days(3))) == (0, 0)
    clock.advance(minutes=2)
    assert (retention.count(days(3)), retention.purge(days(3))) == (1, 1)


def test_a_message_sent_again_is_forgotten_from_its_second_end(database, retention, clock):
    message = message_in(S.SENDING)
    message.mark_error("no", ATTEMPT, now=START)
    Message.requeue([message.id], clock.advance(days(3)), "sanne")
    assert Message.get_by_id(message.id).ended_on is None
    Message.cancel([message.id], clock.advance(days(1)), "sanne")
    clock.advance(days(1))
    assert retention.count(days(2)) == 0


def test_a_message_cancelled_long_before_it_was_due_is_forgotten_from_then(database, retention, clock):
    [message_id] = submitted()
    Message.update(scheduled_on=START + days(90)).where(Message.id == message_id).execute()
    Message.cancel([message_id], START, "sanne")
    clock.advance(days(4))
    assert retention.purge(days(3)) == 1


@pytest.mark.parametrize("asked", [timedelta(0), timedelta(hours=1), days(1)])
def test_what_a_window_of_a_day_still_counts_is_kept_whatever_is_asked_for(database, retention, clock, asked):
    message = message_in(S.SENDING)
    message.mark_sent(START, ATTEMPT)
    clock.advance(days(1) + timedelta(minutes=5))
    assert retention.purge(asked) == 0
    assert len(sends_since(MAILBOX, clock() - days(1) - timedelta(hours=1))) == 1
    clock.advance(KEPT_FOR_THE_WINDOWS - days(1))
    assert retention.purge(asked) == 1


def test_ends_that_nobody_dated_count_from_the_last_thing_known(database, retention, clock):
    message_in(S.SENT, now=START - days(30), sent_on=START, attempted_on=START - days(30))
    message_in(S.ERROR, now=START - days(30), attempted_on=START)
    clock.advance(days(2))
    assert retention.purge(days(3)) == 0
    clock.advance(days(2))
    assert retention.purge(days(3)) == 2
