"""Why one message waits, and when it is expected: derived from its place in line and the budget."""

from datetime import timedelta

import pytest

from rqmail.administration import messages
from rqmail.administration.mailboxes import Mailboxes
from rqmail.insight.overview import Overview
from rqmail.insight.planning import Plan, Planning
from rqmail.insight.waiting import Wait, Waiting
from rqmail.intake.draft import Draft, Intake
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, Priority
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits

NEWS = RateLimits(per_minute=2, recipients_per_day=20)


@pytest.fixture
def overview(database, limiter, queues, clock):
    boxes = Mailboxes(clock, limiter)
    boxes.add("news", "news@x.nl", rate_limit_per_minute=2, rate_limit_recipients_per_day=20)
    boxes.add("twin", "news@x.nl", rate_limit_per_minute=2, rate_limit_recipients_per_day=20)
    return Overview(limiter, queues, clock, RateLimits(), pacing="burst")


@pytest.fixture
def submit(overview, clock):
    intake = Intake(clock, lambda: None)

    def submit(sender="mailbox:news", to="a@x.nl", **fields):
        return intake.submit_all([Draft(sender, "Hallo", to, text="dag", **fields)])[0]

    return submit


@pytest.fixture
def wait(overview, clock):
    def wait(message_id):
        return messages.wait_of(messages.show(message_id), Waiting(overview, clock))

    return wait


def test_what_is_next_is_taken_by_the_next_dispatch(submit, wait, clock):
    found = wait(submit())
    assert (found.waits_for, found.expected_on, found.before) == ("dispatch", clock(), 0)


@pytest.mark.parametrize(("cause", "is_told"), [("throttled", True), ("sign-in", False), ("not-found", False)])
def test_no_end_is_promised_while_a_person_has_to_mend_something(
    submit, wait, overview, limiter, clock, cause, is_told
):
    message_id = submit()
    limiter.pause("news@x.nl", 60_000, "why", cause=cause)
    found, status = wait(message_id), overview.mailbox("news")
    assert (found.expected_on is not None, status.done_on is not None) == (is_told, is_told)
    planned = Planning(limiter, clock, RateLimits(), pacing="burst").forecast(Plan(mailboxes=("news",)))
    assert (planned.done_on is not None) == is_told


def test_what_is_for_later_waits_for_its_time(submit, wait, clock):
    later = clock() + timedelta(hours=3)
    found = wait(submit(at=later))
    assert (found.waits_for, found.expected_on) == ("time", later)


def test_the_line_before_it_counts_the_more_urgent_the_earlier_and_the_other_sender_of_its_mailbox(submit, wait, clock):
    submit()
    submit("mailbox:twin")
    submit(priority=Priority.LOW)
    mine = submit()
    submit(priority=Priority.HIGH)
    submit()
    found = wait(mine)
    assert (found.waits_for, found.before) == ("line", 3)
    assert found.expected_on == clock() + timedelta(minutes=1)
    assert found.waits_because == "3 messages go before it."


def test_a_full_minute_and_a_full_day_are_named_with_the_moment_they_free(submit, wait, limiter, clock):
    mine = submit()
    for _ in range(2):
        limiter.settle(limiter.check_and_reserve("news@x.nl", 1, NEWS))
    found = wait(mine)
    assert found.waits_for == "minute"
    assert clock() < found.expected_on <= clock() + timedelta(minutes=2)
    clock.advance(minutes=2)
    limiter.settle(limiter.check_and_reserve("news@x.nl", 18, NEWS))
    # The ticks of this test stand still meanwhile, so that no end can be told.
    assert wait(mine).waits_for == "nobody"


def test_a_full_day_is_named(submit, wait, limiter, clock):
    mine = submit()
    limiter.settle(limiter.check_and_reserve("news@x.nl", 20, NEWS))
    found = wait(mine)
    assert found.waits_for == "day"
    assert found.expected_on >= clock() + timedelta(hours=20)


def test_more_recipients_than_a_day_has_are_told(submit, wait):
    found = wait(submit(to=",".join(f"r{n}@x.nl" for n in range(21))))
    assert (found.waits_for, found.expected_on) == ("too-large", None)


def test_a_pause_without_an_end_has_no_moment(submit, wait, clock):
    mine = submit()
    SystemMailbox.update(paused_until=clock() + timedelta(days=3650), pause_reason="rest").execute()
    found = wait(mine)
    assert (found.waits_for, found.expected_on) == ("paused", None)
    assert found.waits_because == "Its sender is paused until it is resumed (rest)."


def test_without_a_worker_nobody_moves_it(submit, wait, queues):
    mine = submit()
    queues.crew = []
    found = wait(mine)
    assert (found.waits_for, found.expected_on) == ("nobody", None)


def test_without_redis_or_its_mailbox_it_is_told_which(submit, queues, clock):
    view = messages.show(submit())
    dead = MailRateLimiter.from_url("redis://127.0.0.1:1/0")
    away = Waiting(Overview(dead, queues, clock, RateLimits()), clock)
    assert messages.wait_of(view, away).waits_for == "redis"
    SystemMailbox.delete().execute()
    assert messages.wait_of(view, away).waits_for == "mailbox"


def test_what_expires_before_its_turn_is_not_promised(submit, wait, limiter, clock):
    mine = submit(expires=clock() + timedelta(hours=1))
    limiter.settle(limiter.check_and_reserve("news@x.nl", 20, NEWS))
    found = wait(mine)
    assert (found.waits_for, found.expected_on) == ("day", None)
    assert "expires before its turn" in found.waits_because


def test_of_what_does_not_wait_nothing_is_told_and_no_row_is_touched(submit, wait):
    mine = submit()
    before = Message.get_by_id(mine).__data__
    wait(mine)
    assert Message.get_by_id(mine).__data__ == before
    Message.cancel([mine])
    assert wait(mine) == Wait()


def test_a_message_whose_files_are_more_than_may_be_uploaded_now_says_so(submit, wait, limiter):
    message_id = submit()
    limiter.settle(limiter.check_and_reserve("news@x.nl", 1, NEWS, upload_bytes=145_000_000))
    Message.update(upload_bytes=9_000_000).execute()
    found = wait(message_id)
    assert found.waits_for == "upload"
    assert "Its files have 9 MB; 145 of the 150 MB" in found.waits_because
