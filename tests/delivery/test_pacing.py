"""How a minute is given out: evenly once more waits than it admits, urgent mail excepted, and nothing of it is lost."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from rqmail.models.message import Message, MessageStatus, Priority
from support.clock import START
from support.messages import new_message, submitted
from support.office import Office

S = MessageStatus


@pytest.fixture
def office(database, redis_client, clock):
    return Office(redis_client, clock, pacing="even")


@pytest.fixture
def sqlite_office(sqlite_database, redis_client, clock):
    return Office(redis_client, clock, pacing="even")


def run(office, seconds, tick_every=1):
    """Let seconds pass, and answer how many the provider took in each of them."""
    taken: Counter[int] = Counter()
    for second in range(seconds):
        if second % tick_every == 0:
            office.tick()
            taken[second] += len(office.work())
        office.clock.advance(seconds=1)
    return [taken[second] for second in range(seconds)]


def test_a_minutes_places_are_given_out_over_the_minute_when_more_waits_than_it_admits(office):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(60)))
    taken = run(office, 60)
    assert sum(taken) == 25
    assert max(taken) == 1, "one every few seconds"
    assert max(sum(taken[start : start + 10]) for start in range(50)) <= 6
    assert sum(taken[40:]) >= 3


def test_what_the_minute_admits_goes_at_once_when_nothing_more_waits(office):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(25)))
    assert run(office, 2) == [25, 0]


def test_urgent_mail_does_not_wait_for_its_turn_in_the_minute(office):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(60)))
    run(office, 10)
    urgent = submitted(*(new_message(sender, priority=Priority.HIGH) for _ in range(8)), now=office.clock())
    office.tick()
    assert office.work()[:8] == urgent


def test_burst_sends_what_the_minute_admits_at_once(sqlite_database, redis_client, clock):
    office = Office(redis_client, clock)
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(60)))
    assert run(office, 2) == [25, 0]


@pytest.mark.parametrize("own", ["even", "burst"])
def test_a_mailbox_may_have_a_pacing_of_its_own(sqlite_database, redis_client, clock, own):
    office = Office(redis_client, clock, pacing="burst" if own == "even" else "even")
    sender = office.mailbox(pacing=own)
    submitted(*(new_message(sender) for _ in range(60)))
    assert run(office, 1) == [1 if own == "even" else 25]


@pytest.mark.parametrize(("per_minute", "tick_every", "minutes"), [(25, 1, 10), (25, 5, 20), (7, 1, 20), (120, 1, 4)])
def test_over_many_minutes_nothing_of_the_budget_is_lost_by_giving_it_out_evenly(
    sqlite_office, per_minute, tick_every, minutes
):
    office = sqlite_office
    sender = office.mailbox(rate_limit_per_minute=per_minute)
    submitted(*(new_message(sender) for _ in range((minutes + 2) * per_minute)))
    taken = run(office, 60 * minutes, tick_every)
    assert sum(taken) >= 0.99 * per_minute * minutes
    assert max(sum(taken[start : start + 60]) for start in range(0, len(taken) - 60, 7)) <= per_minute


def test_ticks_that_come_late_make_up_for_what_was_not_given_out(sqlite_office):
    office = sqlite_office
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(200)))
    run(office, 20)
    office.clock.advance(seconds=20)
    assert sum(run(office, 20)) + 11 >= 25


def test_urgent_mail_that_used_the_minute_up_does_not_make_the_next_one_a_burst(sqlite_office):
    office = sqlite_office
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(200)))
    submitted(*(new_message(sender, priority=Priority.HIGH) for _ in range(25)))
    assert run(office, 60)[0] == 25
    later = run(office, 60)
    assert max(later) <= 3
    assert sum(later) == 25


def test_two_senders_on_one_mailbox_have_one_pace_together(sqlite_office):
    office = sqlite_office
    one, other = office.mailbox("one", "shared@example.org"), office.mailbox("other", "shared@example.org")
    submitted(*(new_message(sender) for _ in range(20) for sender in (one, other)))
    assert max(run(office, 20)) == 1


def test_without_the_paces_kept_in_redis_mail_still_goes_out(office, redis_client):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(60)))
    run(office, 5)
    assert 0 < redis_client.pttl("mail:rate:pace:news@example.org") <= 63_000
    redis_client.set("mail:rate:pace:news@example.org", "no number")
    assert office.tick().claimed == 1
    office.work()
    redis_client.delete("mail:rate:pace:news@example.org")
    assert office.tick().claimed == 1


def test_mail_of_low_priority_counts_as_backlog_too(sqlite_office):
    office = sqlite_office
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(5)))
    submitted(*(new_message(sender, priority=Priority.LOW) for _ in range(40)))
    assert run(office, 1) == [1]
    assert Message.select().where(Message.status == S.SENT.value).get().priority == Priority.NORMAL


def test_a_pace_is_of_no_use_to_mail_that_is_not_due(sqlite_office):
    office = sqlite_office
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(10)))
    submitted(*(new_message(sender, at=START + timedelta(hours=1)) for _ in range(40)))
    assert run(office, 1) == [10]
