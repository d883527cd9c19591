"""A server whose clock steps back refuses nothing for as long as it stepped, and forgets nothing that a table knows."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from ratelimit.conftest import MAILBOX
from rqmail.clock import to_epoch_ms, utc_now
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

LIMITS = RateLimits(per_minute=3, recipients_per_day=20, in_flight=2)


class Table:
    """A history that the tests fill."""

    def __init__(self):
        self.calls = []

    def __call__(self, mailbox_key, since_ms, now_ms):
        return [(at, recipients) for at, recipients in self.calls if since_ms <= at]


@pytest.mark.parametrize("window", ["rolling", "fixed"])
@pytest.mark.parametrize("step", [timedelta(days=1), timedelta(days=40)])
def test_a_step_back_refuses_no_mail_for_as_long_as_it_was(redis_client, clock, window, step):
    limiter = MailRateLimiter(redis_client, window, clock)
    for _ in range(2):
        assert isinstance(limiter.check_and_reserve(MAILBOX, 10, LIMITS), Reservation)
    limiter.pause(MAILBOX, 60_000, "429")
    clock.advance(-step)
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert usage.next_free_ms - usage.now_ms <= 60_000
    answer = limiter.check_and_reserve(MAILBOX, 10, LIMITS)
    if isinstance(answer, Denial):
        assert answer.retry_after_ms <= 60_000
        clock.advance(milliseconds=answer.retry_after_ms)
        answer = limiter.check_and_reserve(MAILBOX, 10, LIMITS)
    assert isinstance(answer, Reservation)


@pytest.mark.parametrize("window", ["rolling", "fixed"])
def test_the_day_that_was_counted_too_early_is_not_used_up_when_it_comes(redis_client, clock, window):
    limiter = MailRateLimiter(redis_client, window, clock)
    limiter.settle(limiter.check_and_reserve(MAILBOX, 20, LIMITS))
    clock.advance(days=-1)
    limiter.settle(limiter.check_and_reserve(MAILBOX, 1, LIMITS))
    clock.advance(days=1, minutes=30)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 19, LIMITS), Reservation)


@pytest.mark.parametrize("window", ["rolling", "fixed"])
def test_after_a_step_back_the_table_tells_what_was_sent(redis_client, clock, window):
    table = Table()
    limiter = MailRateLimiter(redis_client, window, clock, history=table)
    clock.advance(days=1)
    limiter.settle(limiter.check_and_reserve(MAILBOX, 20, LIMITS))
    clock.advance(days=-1)
    table.calls = [(to_epoch_ms(clock()) - 3_600_000, 15)]
    assert limiter.check_and_reserve(MAILBOX, 6, LIMITS).reason == "day"
    assert isinstance(limiter.check_and_reserve(MAILBOX, 5, LIMITS), Reservation)
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].day.used == 20


@pytest.mark.parametrize("behind", [timedelta(days=1), timedelta(days=-1), timedelta(minutes=20)])
def test_what_is_refilled_is_as_old_for_the_server_as_it_is_here_however_wrong_its_clock(
    redis_client, monkeypatch, behind
):
    """The table is kept by our clock, the windows by the server's."""
    monkeypatch.setattr("rqmail.ratelimit.encoding.utc_now", lambda: utc_now() + behind)
    here = to_epoch_ms(utc_now() + behind)
    table = Table()
    table.calls = [(here - 30 * 3_600_000, 19), (here - 20 * 3_600_000, 12), (here - 30_000, 1), (here - 20_000, 1)]
    limiter = MailRateLimiter(redis_client, history=table)
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.day_rolling.used, usage.minute_rolling.used) == (14, 2)
    assert limiter.check_and_reserve(MAILBOX, 7, LIMITS).retry_after_ms < 4.5 * 3_600_000 + 86_400_000 / 2
    assert isinstance(limiter.check_and_reserve(MAILBOX, 6, LIMITS), Reservation)


def test_a_step_back_leaves_no_lease_that_holds_a_place_until_then(redis_client: redis.Redis, clock):
    limiter = MailRateLimiter(redis_client, clock=clock, history=Table())
    for _ in range(2):
        limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    clock.advance(days=-1)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)
