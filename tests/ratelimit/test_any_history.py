"""For any history of reserving, releasing, settling and waiting: never over, never early, never late, exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratelimit.reference import DAY, MINUTE, SLOT, Call, Model
from rqmail.clock import from_epoch_ms
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits
from support.clock import MovableClock

MAILBOX = "info@example.org"
LEASE_MS = 120_000

waits = st.one_of(
    st.integers(0, 30_000),
    st.integers(5_000, 40_000),
    st.integers(5_000, 40_000),
    st.sampled_from([59_999, 60_000, 60_001, LEASE_MS, SLOT, SLOT - 1, DAY, DAY + SLOT, DAY - 1]),
    st.integers(0, DAY // 3),
)
reserve = st.tuples(st.just("reserve"), st.one_of(st.just(1), st.integers(1, 12)))
upload = st.tuples(st.just("upload"), st.integers(1, 90))
extend = st.tuples(st.just("extend"), st.integers(0, 5))
finish = st.tuples(st.sampled_from(["settle", "release"]), st.integers(0, 5))
wait = st.one_of(st.tuples(st.just("wait"), waits), st.just(("wait until free", 0)))
steps = st.lists(
    st.one_of(reserve, reserve, reserve, upload, extend, finish, finish, wait, wait), min_size=40, max_size=80
)
limits = st.builds(
    RateLimits,
    per_minute=st.integers(1, 5),
    recipients_per_day=st.integers(12, 30),
    in_flight=st.sampled_from([2, 3, 50]),
    upload_bytes=st.integers(50, 100),
)

quietly = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=False
)


def milliseconds(clock: MovableClock) -> float:
    return (clock() - from_epoch_ms(0)) // timedelta(microseconds=1) / 1000


def dump(client: redis.Redis) -> dict[bytes, object]:
    """Everything that is kept; a large hash is dumped in an order that changes while nothing is written."""
    return {
        key: client.hgetall(key) if client.type(key) == b"hash" else client.dump(key)
        for key in client.scan_iter(count=1000)
    }


@pytest.mark.parametrize("window", ["rolling", "fixed"])
@quietly
@given(limits=limits, steps=steps)
def test_the_limiter_decides_as_the_plain_model_does(redis_client, window, limits, steps):
    redis_client.flushall()
    clock = MovableClock()
    limiter = MailRateLimiter(redis_client, window, clock, lease_ms=LEASE_MS)
    rolling = window == "rolling"
    model = Model(
        limits.per_minute, limits.recipients_per_day, limits.in_flight, rolling, LEASE_MS, limits.upload_bytes
    )
    live: list[tuple[Reservation, Call]] = []
    retry_after = 0

    def now() -> float:
        return milliseconds(clock)

    for verb, number in steps:
        if verb == "wait":
            clock.advance(timedelta(milliseconds=number))
        elif verb == "wait until free":
            clock.advance(timedelta(milliseconds=retry_after))
            retry_after = 0
        elif verb in ("reserve", "upload"):
            number, size = (number, 0) if verb == "reserve" else (1, number)
            before = dump(redis_client)
            answer = limiter.check_and_reserve(MAILBOX, number, limits, upload_bytes=size)
            assert isinstance(answer, Reservation) == model.admits(now(), number, size), answer
            if isinstance(answer, Reservation):
                call = Call(answer.id, now(), number, upload=min(size, limits.upload_bytes))
                model.calls.append(call)
                # a lease that is over may be forgotten when its place is needed; such a one is not released here
                live = [(r, c) for r, c in live if c.lease_ends(LEASE_MS) > now()] + [(answer, call)]
            else:
                assert dump(redis_client) == before
                retry_after = answer.retry_after_ms
                assert retry_after > 0
                assert model.admits(now() + retry_after, number, size)
                assert not model.admits(now() + retry_after - 2, number, size)
                moment = clock()
                clock.advance(timedelta(milliseconds=retry_after - 2))
                assert isinstance(limiter.check_and_reserve(MAILBOX, number, limits, upload_bytes=size), Denial)
                clock.set(moment)
        elif verb == "extend":
            live = [(r, c) for r, c in live if c.lease_ends(LEASE_MS) > now()]
            if live:
                reservation, call = live[number % len(live)]
                limiter.extend(reservation, seconds=20 * number)
                call.extended, call.more = now(), 20_000 * number
        elif live:
            reservation, call = live.pop(number % len(live))
            if verb == "settle":
                limiter.settle(reservation)
                model.settle(call, now())
                limiter.release(reservation)  # too late: it was used
            else:
                limiter.release(reservation)
                limiter.release(reservation)  # a second time gives nothing
                model.calls.remove(call)

    if rolling:
        assert model.most_in_any(MINUTE)[0] <= limits.per_minute
        assert model.most_in_any(DAY)[1] <= limits.recipients_per_day
    assert max(Counter(c.at // MINUTE for c in model.calls).values(), default=0) <= limits.per_minute
    per_day = Counter()
    for call in model.calls:
        per_day[call.at // DAY] += call.recipients
    assert max(per_day.values(), default=0) <= limits.recipients_per_day

    usage = limiter.usage({MAILBOX: limits})[MAILBOX]
    today = sum(c.recipients for c in model.calls if c.at // DAY == now() // DAY)
    assert usage.minute_bucket.used == sum(c.at // MINUTE == now() // MINUTE for c in model.calls)
    assert usage.day_bucket.used == today
    assert usage.in_flight.used == model.running(now())
    assert usage.uploads.used == model.uploaded(now())
    held = limiter.held({MAILBOX: limits})[MAILBOX].uploads
    assert sum(size for _, size in held) == model.uploaded(now())
    if rolling:
        assert usage.minute_rolling.used == sum(c.at > now() - MINUTE for c in model.calls)
        held = sum(c.recipients for c in model.calls if (c.at // SLOT + 1) * SLOT + DAY > now())
        assert usage.day_rolling.used == held
    for key in redis_client.scan_iter("mail:rate:*"):
        assert redis_client.pttl(key) > 0, key
    if usage.waits_for is not None:  # the whole millisecond it names is not early
        clock.set(from_epoch_ms(usage.next_free_ms))
        assert isinstance(limiter.check_and_reserve(MAILBOX, 1, replace(limits, in_flight=1000)), Reservation)


@quietly
@given(
    steps=st.lists(
        st.tuples(st.integers(-200_000, 200_000), st.integers(1, 5), st.booleans()), min_size=15, max_size=40
    ),
)
def test_a_clock_that_steps_back_never_lets_more_through(redis_client, steps):
    redis_client.flushall()
    clock = MovableClock()
    limiter = MailRateLimiter(redis_client, clock=clock)
    limits = RateLimits(3, 20, 50)
    furthest = 0.0
    granted: list[tuple[float, int]] = []
    for step, recipients, released in steps:
        clock.advance(timedelta(milliseconds=step))
        answer = limiter.check_and_reserve(MAILBOX, recipients, limits)
        furthest = max(furthest, milliseconds(clock) if isinstance(answer, Reservation) else 0)
        if isinstance(answer, Reservation):
            if released:
                limiter.release(answer)
            else:
                granted.append((furthest, recipients))
    for first, _ in granted:
        assert sum(first <= at < first + MINUTE for at, _ in granted) <= limits.per_minute
        assert sum(r for at, r in granted if first <= at < first + DAY) <= limits.recipients_per_day


def test_a_message_with_more_recipients_than_a_whole_day_allows_never_passes(limiter):
    answer = limiter.check_and_reserve(MAILBOX, 11, RateLimits(recipients_per_day=10))
    assert isinstance(answer, Denial)
    assert (answer.reason, answer.never) == ("day", True)
    assert limiter.check_and_reserve(MAILBOX, 10, RateLimits(recipients_per_day=10))
