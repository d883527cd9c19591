"""That what is forecast is what the dispatcher and the limiter then do, and what is answered to what-if."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.insight.planning import Plan, Planning
from rqmail.models.message import Message, Priority
from rqmail.ratelimit.limits import RateLimits
from support.clock import START
from support.messages import new_message, submitted
from support.office import Office


def planning(office: Office, pacing: str = "burst") -> Planning:
    return Planning(office.limiter, office.clock, RateLimits(), pacing=pacing)


def about(**units: float):
    return pytest.approx(timedelta(**units), abs=timedelta(milliseconds=2))


def last_taken(office: Office, messages: int, every: timedelta):
    """Let the dispatcher and the limiter work until all has been taken; answer when the last was."""
    taken, last = 0, None
    while taken < messages:
        office.tick()
        now = len(office.work())
        taken, last = taken + now, office.clock() if now else last
        office.clock.advance(seconds=every.total_seconds())
    return last


@pytest.mark.parametrize("pacing", ["burst", "even"])
@pytest.mark.parametrize("used", [0, 7])
def test_the_end_of_a_backlog_of_minutes_is_within_two_seconds_or_two_percent(
    database, redis_client, clock, pacing, used
):
    office = Office(redis_client, clock, pacing=pacing)
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(used)))
    last_taken(office, used, timedelta(seconds=1))
    submitted(*(new_message(sender) for _ in range(120)), now=office.clock())
    began = office.clock()
    told = planning(office, pacing).forecast(Plan()).done_on
    took = last_taken(office, 120, timedelta(seconds=1)) - began
    assert abs((told - began) - took) <= max(timedelta(seconds=2), took * 0.02)


def test_the_end_of_a_backlog_of_days_is_within_two_percent(database, redis_client, clock):
    office = Office(redis_client, clock)
    sender = office.mailbox(rate_limit_recipients_per_day=200)
    messages = 45
    submitted(*(new_message(sender, to=10) for _ in range(messages)))
    told = planning(office).forecast(Plan()).done_on
    took = last_taken(office, messages, timedelta(minutes=10)) - START
    assert took > timedelta(days=2)
    assert abs((told - START) - took) <= took * 0.02


def test_urgent_mail_and_mail_for_later_are_waited_for_in_their_order(database, redis_client, clock):
    office = Office(redis_client, clock)
    sender = office.mailbox(rate_limit_per_minute=10)
    later = START + timedelta(minutes=30)
    submitted(*(new_message(sender, priority=p) for p in (Priority.LOW, Priority.HIGH) for _ in range(10)))
    assert planning(office).forecast(Plan()).done_on - START == about(minutes=1)
    submitted(new_message(sender, at=later))
    assert planning(office).forecast(Plan()).done_on - START == about(minutes=30)


def test_mail_for_a_moment_after_the_further_messages_are_through_is_not_waited_for(database, redis_client, clock):
    office = Office(redis_client, clock)
    sender = office.mailbox(rate_limit_per_minute=10)
    submitted(new_message(sender, at=START + timedelta(hours=6)))
    asked = Plan(messages=21, only_these=True)
    assert planning(office).forecast(asked).done_on - START == about(minutes=2)
    # What comes due meanwhile goes first, and puts them off.
    submitted(*(new_message(sender, at=START + timedelta(seconds=90)) for _ in range(10)))
    assert planning(office).forecast(asked).done_on - START == about(minutes=3)
    assert planning(office).forecast(Plan(messages=21)).done_on - START == about(hours=6)


def test_further_messages_are_shared_so_that_all_are_done_at_about_the_same_time(database, redis_client, clock):
    office = Office(redis_client, clock)
    busy = office.mailbox()
    office.mailbox("events")
    submitted(*(new_message(busy) for _ in range(250)))
    told = planning(office).forecast(Plan(messages=750))
    assert told.messages == 1_000
    assert sum(one.further for one in told.mailboxes.values()) == 750
    assert told.mailboxes["events"].further > told.mailboxes["news"].further
    ends = [one.done_on for one in told.mailboxes.values()]
    assert max(ends) - min(ends) <= timedelta(minutes=1)
    assert told.done_on - START == pytest.approx(timedelta(minutes=19), abs=timedelta(minutes=1))


def test_members_of_a_pool_with_other_limits_are_done_at_about_the_same_time_over_days(
    sqlite_database, redis_client, clock
):
    office = Office(redis_client, clock)
    busy = office.mailbox("busy")
    office.mailbox("slow", rate_limit_per_minute=5)
    office.mailbox("small", rate_limit_recipients_per_day=500)
    submitted(*(new_message(busy) for _ in range(300)))
    told = planning(office).forecast(Plan(messages=20_000))
    ends = {key: one.done_on - START for key, one in told.mailboxes.items()}
    assert sum(one.further for one in told.mailboxes.values()) == 20_000
    assert ends["busy"] > timedelta(days=1)
    assert abs(ends["busy"] - ends["slow"]) < 0.01 * ends["busy"]
    assert told.mailboxes["small"].further == 1_000  # all it may send on both days


def test_what_if_takes_other_limits_and_changes_nothing(database, redis_client, clock):
    office = Office(redis_client, clock)
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(100)))
    before = {key: redis_client.dump(key) for key in redis_client.keys("mail:rate:*")}
    asked = planning(office)
    assert asked.forecast(Plan()).done_on - START == about(minutes=3)
    assert asked.forecast(Plan(per_minute=50)).done_on - START == about(minutes=1)
    assert asked.forecast(Plan(messages=100)).done_on - START == about(minutes=7)
    at = START + timedelta(hours=2)
    assert asked.forecast(Plan(messages=25, at=at)).done_on - START == about(hours=2)
    assert Message.select().count() == 100
    assert {key: redis_client.dump(key) for key in redis_client.keys("mail:rate:*")} == before


def test_a_million_messages_are_shared_so_that_a_hundred_mailboxes_are_done_at_about_the_same_time(
    sqlite_database, redis_client, clock
):
    office = Office(redis_client, clock)
    for number in range(100):
        office.mailbox(f"m{number}", rate_limit_per_minute=5 + number % 25, rate_limit_recipients_per_day=9000 - number)
    asked = planning(office)
    told = asked.forecast(Plan(messages=1_000_000))
    assert sum(one.further for one in told.mailboxes.values()) == 1_000_000
    ends = [one.done_on - START for one in told.mailboxes.values()]
    assert min(ends) > 0.97 * max(ends)


def test_a_pause_that_ends_is_waited_for_and_one_without_end_cannot_be_told(database, redis_client, clock):
    office = Office(redis_client, clock)
    sender = office.mailbox()
    submitted(new_message(sender))
    office.limiter.pause("news@example.org", 600_000, "a walk")
    assert planning(office).forecast(Plan()).done_on - START == about(minutes=10)
    office.limiter.pause("news@example.org", 10 * 366 * 86_400_000, "for good")
    told = planning(office).forecast(Plan())
    assert told.done_on is None
    assert told.mailboxes["news"].done_on is None


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (Plan(messages=-1), "messages"),
        (Plan(recipients_each=0), "recipientsEach"),
        (Plan(per_minute=0), "perMinute"),
        (Plan(recipients_per_day=0), "recipientsPerDay"),
        (Plan(mailboxes=("news", "news")), "mailbox"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(sqlite_database, redis_client, clock, plan, field):
    office = Office(redis_client, clock)
    office.mailbox()
    with pytest.raises(InvalidInputError) as refused:
        planning(office).forecast(plan)
    assert refused.value.field == field
    with pytest.raises(NotFoundError):
        planning(office).forecast(Plan(mailboxes=("nobody",)))
