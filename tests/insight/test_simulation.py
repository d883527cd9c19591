"""The simulated windows against the limiter itself, on a clock that jumps to each moment it names."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from rqmail.insight.simulation import Budgets, Lot, Simulation, _Rounds, done_at_ms
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.reservation import Denial
from support.clock import MovableClock


def _sent_at_ms(limiter: MailRateLimiter, clock: MovableClock, limits: RateLimits, lots: list[Lot]) -> int:
    for lot in lots:
        for _ in range(lot.messages):
            wanted = {"upload_bytes": lot.upload_bytes_each}
            while isinstance(
                answer := limiter.check_and_reserve("a@example.org", lot.recipients_each, limits, **wanted), Denial
            ):
                clock.advance(timedelta(milliseconds=answer.retry_after_ms))
            limiter.settle(answer)
    return round(clock().timestamp() * 1000)


@pytest.mark.parametrize("window", ["rolling", "fixed"])
@pytest.mark.parametrize(
    ("limits", "lots"),
    [
        (RateLimits(25, 9000), [Lot(730)]),
        (RateLimits(10, 300), [Lot(1000)]),
        (RateLimits(10, 300), [Lot(40, 7), Lot(20, 90), Lot(100)]),
    ],
)
def test_the_simulated_end_is_that_of_the_limiter(
    redis_client: redis.Redis, clock: MovableClock, window: str, limits: RateLimits, lots: list[Lot]
) -> None:
    limiter = MailRateLimiter(redis_client, window, clock)
    began = round(clock().timestamp() * 1000)
    budgets = Budgets(limits.per_minute, limits.recipients_per_day, rolling=window == "rolling", pacing="burst")
    told = done_at_ms(budgets, lots, began)
    sent = _sent_at_ms(limiter, clock, limits, lots)
    assert told is not None
    assert abs(told - sent) <= 2_000


@pytest.mark.parametrize("window", ["rolling", "fixed"])
def test_the_end_is_simulated_from_what_the_limiter_holds_now(
    redis_client: redis.Redis, clock: MovableClock, window: str
) -> None:
    limiter, limits = MailRateLimiter(redis_client, window, clock), RateLimits(10, 300)
    _sent_at_ms(limiter, clock, limits, [Lot(95, 2)])
    clock.advance(timedelta(hours=5, seconds=7))
    _sent_at_ms(limiter, clock, limits, [Lot(24)])
    clock.advance(timedelta(seconds=11))
    began = round(clock().timestamp() * 1000)
    held = limiter.held({"a@example.org": limits})["a@example.org"]
    budgets = Budgets(
        10, 300, rolling=window == "rolling", pacing="burst", calls=held.calls, recipients=held.recipients
    )
    lots = [Lot(150, 2)]
    told = done_at_ms(budgets, lots, began)
    sent = _sent_at_ms(limiter, clock, limits, lots)
    assert sent - began > 3_600_000
    assert told is not None
    assert abs(told - sent) <= 2_000


@settings(max_examples=150, deadline=None)
@given(
    per_minute=st.integers(1, 40),
    per_day=st.integers(20, 400),
    rolling=st.booleans(),
    calls=st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 9)), max_size=3),
    recipients=st.lists(st.tuples(st.integers(0, 86_400_000), st.integers(1, 40)), max_size=4),
    lots=st.lists(
        st.builds(
            Lot, st.integers(1, 3_000), st.integers(1, 20), st.integers(0, 10**9), st.sampled_from([0, 0, 40_000_000])
        ),
        max_size=3,
    ),
)
def test_what_is_passed_over_at_once_ends_when_it_does_minute_by_minute(
    per_minute, per_day, rolling, calls, recipients, lots
) -> None:
    now = 86_400_000 + 12_345
    begun = tuple((now - ago, number) for ago, number in sorted(calls, reverse=True))
    addressed = tuple((now - ago, number) for ago, number in sorted(recipients, reverse=True))
    budgets = Budgets(per_minute, per_day, rolling=rolling, pacing="burst", calls=begun, recipients=addressed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_Rounds, "over", lambda *_standing: None)
        patched.setattr(Simulation, "_minutes_alike", lambda *_minute: 0)
        slowly = done_at_ms(budgets, lots, now)
    assert done_at_ms(budgets, lots, now) == slowly
    if lots and slowly is not None:
        in_order, last = [replace(lot, not_before_ms=0) for lot in lots[:-1]], replace(lots[-1], not_before_ms=0)
        simulation = Simulation(budgets, now)
        for lot in in_order:
            simulation.send(lot)
        whole = simulation.copy()
        assert whole.send(last) == 0
        assert simulation.copy().send(last, whole.done_ms) == 0
        assert simulation.copy().send(last, whole.done_ms - 1) > 0


def test_a_million_messages_one_a_minute_leave_one_a_minute() -> None:
    for pacing in ("even", "burst"):
        assert done_at_ms(Budgets(1, 9000, pacing=pacing), [Lot(1_000_000)], 0) == 999_999 * 60_000


def test_a_message_larger_than_a_whole_day_is_never_through() -> None:
    assert done_at_ms(Budgets(25, 100), [Lot(1, 101)], 0) is None


def test_what_is_used_now_and_a_pause_that_ends_are_waited_for() -> None:
    full = Budgets(25, 9000, pacing="burst", calls=((30_000, 25),))
    assert done_at_ms(full, [Lot(1)], 40_000) == 90_000
    assert done_at_ms(Budgets(25, 9000, paused_until_ms=300_000), [Lot(1)], 40_000) == 300_000


@pytest.mark.parametrize(
    ("window", "lots"),
    [
        ("rolling", [Lot(40, upload_bytes_each=20_000_000)]),
        ("rolling", [Lot(3, upload_bytes_each=400_000_000)]),
        ("fixed", [Lot(40, upload_bytes_each=9_000_000)]),
    ],
)
def test_the_simulated_end_of_mail_that_uploads_is_that_of_the_limiter(
    redis_client: redis.Redis, clock: MovableClock, window: str, lots: list[Lot]
) -> None:
    limiter, limits = MailRateLimiter(redis_client, window, clock), RateLimits()
    limiter.settle(limiter.check_and_reserve("a@example.org", 1, limits, upload_bytes=100_000_000))
    clock.advance(timedelta(minutes=3))
    began = round(clock().timestamp() * 1000)
    held = limiter.held({"a@example.org": limits})["a@example.org"]
    budgets = Budgets(25, 9000, rolling=window == "rolling", pacing="burst", uploads=held.uploads)
    told = done_at_ms(budgets, lots, began)
    sent = _sent_at_ms(limiter, clock, limits, lots)
    assert told is not None
    assert abs(told - sent) <= 2_000


def test_mail_without_files_goes_past_uploads_that_wait() -> None:
    budgets = Budgets(25, 9000, pacing="burst")
    uploads, others = Lot(20, upload_bytes_each=50_000_000), Lot(100)
    done = done_at_ms(budgets, [uploads, others], 0)
    assert done == done_at_ms(budgets, [uploads], 0) == 6 * 300_000
