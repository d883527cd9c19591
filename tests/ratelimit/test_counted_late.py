"""What went out while Redis could not be asked is counted once it answers again."""

from __future__ import annotations

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeout

from rqmail.ratelimit.limiter import MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

KEY = "news@contoso.example"
LIMITS = RateLimits(per_minute=5, recipients_per_day=100, in_flight=3)


class Flaky:
    """A limiter whose questions fail while ``away``; with ``heard`` the server has heard them all the same."""

    def __init__(self, limiter: MailRateLimiter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away = self.heard = False
        ask = limiter._ask

        def flaky(*args, **kwargs):
            if self.away and self.heard:
                ask(*args, **kwargs)
            if self.away:
                raise RedisTimeout("too slow")
            return ask(*args, **kwargs)

        monkeypatch.setattr(limiter, "_ask", flaky)


@pytest.fixture(params=["rolling", "fixed"])
def limiter(request, redis_client: Redis, clock):
    ticks = iter(range(0, 10_000, 10))  # the breaker closes between any two questions
    return MailRateLimiter(redis_client, window=request.param, clock=clock, monotonic_clock=lambda: next(ticks))


@pytest.fixture
def flaky(limiter, monkeypatch):
    return Flaky(limiter, monkeypatch)


def send(limiter: MailRateLimiter, recipients: int = 1) -> Reservation:
    reservation = limiter.check_and_reserve(KEY, recipients, LIMITS)
    assert isinstance(reservation, Reservation)
    limiter.settle(reservation)
    return reservation


def used(limiter: MailRateLimiter) -> tuple[int, int, int]:
    usage = limiter.usage({KEY: LIMITS})[KEY]
    return usage.minute.used, usage.day.used, usage.in_flight.used


def test_what_went_out_uncounted_is_counted_with_the_next_decision(limiter, flaky):
    send(limiter, 10)
    flaky.away = True
    assert not send(limiter, 20).counted
    assert not send(limiter, 30).counted
    assert used(limiter) == (1, 10, 0)
    flaky.away = False
    send(limiter, 1)
    assert used(limiter) == (4, 61, 0)


def test_what_is_counted_late_may_fill_a_window_beyond_its_limit_and_nothing_more_passes(limiter, flaky):
    send(limiter)
    flaky.away = True
    for _ in range(8):
        send(limiter)
    flaky.away = False
    send(limiter)  # it asked before the others were counted
    assert used(limiter)[0] == 10
    assert limiter.check_and_reserve(KEY, 1, LIMITS).reason == "minute"


def test_a_question_that_was_heard_though_its_answer_was_lost_is_counted_once_and_holds_no_place(limiter, flaky):
    send(limiter)
    flaky.away = flaky.heard = True
    assert not send(limiter, 7).counted
    assert used(limiter) == (2, 8, 1)
    flaky.away = False
    send(limiter)
    assert used(limiter) == (3, 9, 0)


def test_what_was_certainly_not_sent_meanwhile_is_not_counted(limiter, flaky):
    send(limiter)
    flaky.away = True
    limiter.release(limiter.check_and_reserve(KEY, 50, LIMITS))
    flaky.away = False
    send(limiter)
    assert used(limiter) == (2, 2, 0)


def test_a_mailbox_that_redis_has_forgotten_is_left_to_its_history(limiter, flaky, redis_client):
    send(limiter)
    flaky.away = True
    send(limiter, 5)
    redis_client.flushall()
    flaky.away = False
    other = limiter.check_and_reserve("other@contoso.example", 1, LIMITS)
    assert isinstance(other, Reservation)
    assert redis_client.keys(f"*{KEY}*") == []


def test_a_lost_answer_of_a_send_that_certainly_failed_gives_back_what_it_took(limiter, flaky):
    send(limiter, 1)
    flaky.away = flaky.heard = True
    reservation = limiter.check_and_reserve(KEY, 50, LIMITS)
    assert not reservation.counted
    assert used(limiter) == (2, 51, 1)
    limiter.release(reservation)
    flaky.away = False
    send(limiter, 1)
    assert used(limiter) == (2, 2, 0)


def test_what_runs_while_redis_comes_back_is_counted_when_its_end_is_known(limiter, flaky):
    send(limiter)
    flaky.away = True
    running, failing = (limiter.check_and_reserve(KEY, recipients, LIMITS) for recipients in (20, 30))
    flaky.away = False
    send(limiter)
    assert used(limiter) == (2, 2, 0)
    limiter.release(failing)
    limiter.settle(running)
    send(limiter)
    assert used(limiter) == (4, 23, 0)


def test_what_is_never_settled_counts_once_its_lease_is_over(limiter, flaky, clock):
    flaky.away = True
    limiter.check_and_reserve(KEY, 20, LIMITS)
    flaky.away = False
    clock.advance(seconds=121)
    send(limiter)
    assert used(limiter) == (2, 21, 0)
