"""The order in which a mailbox's mail leaves: nothing overtakes what is more urgent or was there before it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus, Priority
from rqmail.ratelimit.limits import RateLimits
from support.clock import START
from support.messages import new_message, reloaded, submitted
from support.office import Office

S = MessageStatus
DAY = timedelta(days=1)
STEP = timedelta(minutes=20)
A_DAYS_BUDGET = 72


@pytest.fixture
def office(database, redis_client, clock):
    return Office(redis_client, clock)


@pytest.fixture
def sqlite_office(sqlite_database, redis_client, clock):
    return Office(redis_client, clock)


def pass_days(office, trickle, days):
    """Let days pass in steps of twenty minutes; in each a little more comes in than the day's budget lets out."""
    for step in range(round(days * DAY / STEP)):
        submitted(*(trickle() for _ in range(2 if step % 5 == 0 else 1)), now=office.clock())
        office.tick()
        office.work()
        office.clock.advance(STEP)


@pytest.mark.parametrize(
    ("large", "small", "one_sender"),
    [
        (Priority.HIGH, Priority.NORMAL, True),
        (Priority.NORMAL, Priority.LOW, True),
        (Priority.HIGH, Priority.NORMAL, False),
        (Priority.NORMAL, Priority.NORMAL, False),
    ],
)
def test_a_large_mail_waits_for_its_place_in_the_day_and_is_not_overtaken(sqlite_office, large, small, one_sender):
    office = sqlite_office
    sender = office.mailbox("one", "shared@example.org", rate_limit_recipients_per_day=A_DAYS_BUDGET)
    other = office.mailbox("other", "shared@example.org", rate_limit_recipients_per_day=A_DAYS_BUDGET)
    pass_days(office, lambda: new_message(sender, priority=small), 1)
    handed_in = office.clock()
    [large_id] = submitted(new_message(sender if one_sender else other, to=20, priority=large), now=handed_in)
    pass_days(office, lambda: new_message(sender, priority=small), 2)

    assert reloaded(large_id).status == S.SENT
    sent_on = reloaded(large_id).sent_on
    # A place comes free at every step; those in line before it need some of them.
    before = Message.select().where(
        Message.priority == small.value, Message.created_on < handed_in, Message.sent_on > handed_in
    )
    ahead = before.count() if small == large else 0
    assert sent_on - handed_in <= (20 + ahead + 2) * STEP
    overtook = [
        message
        for message in Message.select().where(Message.sent_on > handed_in, Message.sent_on < sent_on)
        if message.priority > large.value or message.created_on > handed_in
    ]
    assert overtook == []
    for day in range(2):
        start = START + (day + 1) * DAY
        assert office.recipients_taken(start, start + DAY) >= 0.9 * A_DAYS_BUDGET


def use_up(office, recipients, per_day, key="news@example.org"):
    """Another program takes recipients of the mailbox's day."""
    office.limiter.settle(office.limiter.check_and_reserve(key, recipients, RateLimits(25, per_day)))


@pytest.mark.parametrize("ending", ["sent", "expired", "cancelled", "brought forward and sent"])
def test_nothing_is_kept_for_a_message_that_is_no_longer_there(office, clock, ending):
    sender = office.mailbox(rate_limit_recipients_per_day=30)
    use_up(office, 20, 30)
    expires = clock() + timedelta(minutes=1) if ending == "expired" else None
    [large] = submitted(new_message(sender, to=20, priority=Priority.HIGH, expires=expires))
    small = submitted(*(new_message(sender) for _ in range(5)))
    assert office.tick().claimed == 0, "the ten places that are left are kept"
    if ending == "expired":
        clock.advance(minutes=2)
    elif ending == "cancelled":
        Message.cancel([large])
    else:
        office.limiter.reset("news@example.org")
        if ending != "sent":
            Message.bring_forward([large], clock())
    office.tick()
    office.work()
    assert {reloaded(message_id).status for message_id in small} == {S.SENT}


def test_a_message_that_can_never_fit_fails_at_once_although_the_day_is_used_up(office):
    sender = office.mailbox(rate_limit_recipients_per_day=10)
    use_up(office, 10, 10)
    [hopeless] = submitted(new_message(sender, to=11))
    [waits] = submitted(new_message(sender, to=1))
    office.tick()
    office.work()
    assert (reloaded(hopeless).status, reloaded(waits).status) == (S.ERROR, S.SCHEDULED)
    assert "can never be sent as one mail" in reloaded(hopeless).last_error


def test_what_the_limiter_refused_keeps_its_place_until_its_moment_comes_and_then_goes_first(office, clock):
    """Another program on the same Redis takes the room between the claim and the send."""
    sender = office.mailbox(rate_limit_recipients_per_day=30)
    [large] = submitted(new_message(sender, to=20))
    assert office.tick().claimed == 1
    use_up(office, 20, 30)
    assert office.work() == []
    refused = reloaded(large)
    assert (refused.status, refused.waiting_for, refused.deferrals) == (S.SCHEDULED, "day", 1)
    small = submitted(*(new_message(sender) for _ in range(5)))
    assert office.tick().claimed == 0, "the ten that are left are kept, although its moment has not come"
    office.limiter.reset("news@example.org")
    assert office.tick().claimed == 5, "there is room for all of them"
    assert office.work() == small
    clock.set(refused.scheduled_on)
    [earlier] = submitted(new_message(sender, to=20, at=clock() - timedelta(hours=1)))
    use_up(office, 9, 30)
    assert office.tick().claimed == 1
    assert office.work() == [large], "it comes before what would take its place"
    assert reloaded(earlier).status == S.SCHEDULED


def test_of_two_senders_on_one_mailbox_the_earlier_mail_goes_first(office):
    one, other = office.mailbox("one", "shared@example.org"), office.mailbox("other", "shared@example.org")
    ids = submitted(
        *(new_message((one, other)[n % 2], at=START - timedelta(seconds=90 - n)) for n in range(40)),
    )
    assert office.tick().claimed == 25
    assert {m.id for m in Message.select().where(Message.status == S.QUEUED.value)} == set(ids[:25])


@settings(
    max_examples=15,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    moments=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.sampled_from(["one", "other"]), st.sampled_from(list(Priority)), st.integers(1, 12)),
                max_size=6,
            ),
            st.integers(0, 30),  # another program takes so many recipients between the claim and the send
            st.integers(0, 400),  # then so many minutes pass
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_whatever_comes_in_nothing_is_sent_past_what_stands_before_it_in_the_line(sqlite_office, clock, moments):
    office = sqlite_office
    office.redis.flushall()
    clock.set(START)
    Message.delete().execute()
    SystemMailbox.delete().execute()
    for key in ("one", "other"):
        office.mailbox(key, "shared@example.org", rate_limit_recipients_per_day=60)
    for batch, taken_elsewhere, minutes in [*moments, *[([], 0, 240)] * 60]:
        clock.advance(seconds=1)
        Message.submit([new_message(f"mailbox:{key}", to=to, priority=p) for key, p, to in batch], clock())
        office.tick()
        claimed = list(Message.select().where(Message.status == S.QUEUED.value))
        waiting = list(Message.select().where(Message.status == S.SCHEDULED.value))
        if not claimed and not waiting:
            break
        usage = office.limiter.usage({"shared@example.org": RateLimits(25, 60)})["shared@example.org"]
        left = usage.day.remaining - sum(one.recipient_count for one in claimed)
        for one in claimed:
            before = [m for m in waiting if (m.priority, m.created_on, m.id) < (one.priority, one.created_on, one.id)]
            assert all(m.scheduled_on > clock() for m in before), "what is due before it has gone before it"
            assert sum(m.recipient_count for m in before) <= left, "what was refused before it has its place kept"
        if taken_elsewhere:
            office.limiter.settle(
                office.limiter.check_and_reserve("shared@example.org", taken_elsewhere, RateLimits(25, 1000))
            )
        office.work()
        clock.advance(minutes=minutes)
    left_over = Message.select().where(Message.status != S.SENT.value)
    assert [(m.status, m.recipient_count, m.waiting_for, m.last_error) for m in left_over] == []
