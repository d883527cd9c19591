"""Whatever part of a mailbox's keys Redis drops (eviction, a hand), the mailbox is refilled or starts over."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratelimit.conftest import MAILBOX
from ratelimit.reference import DAY, MINUTE, SLOT, Call, Model
from ratelimit.test_any_history import LEASE_MS, finish, limits, milliseconds, quietly, reserve, wait
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits
from support.clock import MovableClock

KINDS = ("min", "day", "state", "log")
lose = st.tuples(st.just("lose"), st.sets(st.sampled_from(KINDS), min_size=1))
steps = st.lists(st.one_of(reserve, reserve, reserve, reserve, finish, finish, wait, lose), min_size=40, max_size=80)


def vanish(client, kinds) -> None:
    for key in list(client.scan_iter(count=1000)):
        if key.decode().split(":")[2] in kinds:
            client.delete(key)


def assert_every_key_expires(client) -> None:
    for key in client.scan_iter(count=1000):
        assert client.pttl(key) > 0, key


class Table:
    """The history as our table tells it: what is running counts as late as it can have been, with its reservation."""

    def __init__(self, model: Model, clock: MovableClock) -> None:
        self.model = model
        self.clock = clock

    def __call__(self, mailbox_key, since_ms, now_ms):
        now = milliseconds(self.clock)
        told = []
        for call in self.model.calls:
            if call.in_flight and call.at + LEASE_MS > now:
                call.at = now
                told.append((int(now) + LEASE_MS, call.recipients, call.id))
            else:
                call.in_flight = False
                told.append((int(call.at), call.recipients, None))
        return told


@pytest.mark.parametrize("window", ["rolling", "fixed"])
@quietly
@given(limits=limits, steps=steps)
def test_with_a_history_the_limiter_decides_after_any_loss_as_if_nothing_was_lost(redis_client, window, limits, steps):
    redis_client.flushall()
    clock = MovableClock()
    model = Model(limits.per_minute, limits.recipients_per_day, limits.in_flight, window == "rolling", LEASE_MS)
    limiter = MailRateLimiter(redis_client, window, clock, Table(model, clock), lease_ms=LEASE_MS)
    live: list[tuple[Reservation, Call]] = []
    retry_after = 0

    def now() -> float:
        return milliseconds(clock)

    for verb, what in steps:
        if verb == "wait":
            clock.advance(timedelta(milliseconds=what))
        elif verb == "wait until free":
            clock.advance(timedelta(milliseconds=retry_after))
            retry_after = 0
        elif verb == "lose":
            vanish(redis_client, what)
        elif verb == "reserve":
            answer = limiter.check_and_reserve(MAILBOX, what, limits)
            assert isinstance(answer, Reservation) == model.admits(now(), what), answer
            if isinstance(answer, Reservation):
                assert answer.counted
                call = Call(answer.id, now(), what)
                model.calls.append(call)
                live = [(r, c) for r, c in live if c.at + LEASE_MS > now()] + [(answer, call)]
            else:
                retry_after = answer.retry_after_ms
                assert model.admits(now() + retry_after, what)
                assert not model.admits(now() + retry_after - 2, what)
        elif live:
            # What the limiter no longer knows is asked for again by its next decision, not by a release.
            limiter.usage({MAILBOX: limits})
            reservation, call = live.pop(what % len(live))
            if verb == "settle":
                limiter.settle(reservation)
                call.in_flight = False
            else:
                limiter.release(reservation)
                if call.in_flight:
                    model.calls.remove(call)
        assert_every_key_expires(redis_client)

    usage = limiter.usage({MAILBOX: limits})[MAILBOX]
    assert usage.minute_bucket.used == sum(c.at // MINUTE == now() // MINUTE for c in model.calls)
    assert usage.day_bucket.used == sum(c.recipients for c in model.calls if c.at // DAY == now() // DAY)
    assert usage.in_flight.used == sum(c.in_flight and c.at + LEASE_MS > now() for c in model.calls)
    if window == "rolling":
        held = sum(c.recipients for c in model.calls if (c.at // SLOT + 1) * SLOT + DAY > now())
        assert (usage.minute_rolling.used, usage.day_rolling.used) == (
            sum(c.at > now() - MINUTE for c in model.calls),
            held,
        )


@pytest.mark.parametrize("window", ["rolling", "fixed"])
@quietly
@given(limits=limits, steps=steps)
def test_without_a_history_a_loss_never_denies_for_longer_than_what_is_known_holds(redis_client, window, limits, steps):
    redis_client.flushall()
    clock = MovableClock()
    limiter = MailRateLimiter(redis_client, window, clock, lease_ms=LEASE_MS)
    live: list[Reservation] = []
    granted: list[tuple[float, int]] = []
    for verb, what in steps:
        if verb == "wait":
            clock.advance(timedelta(milliseconds=what))
        elif verb == "lose":
            vanish(redis_client, what)
        elif verb == "reserve":
            answer = limiter.check_and_reserve(MAILBOX, what, limits)
            if isinstance(answer, Reservation):
                assert answer.counted
                live.append(answer)
                granted.append((milliseconds(clock), what))
            else:
                used = sum(n for at, n in granted if at > milliseconds(clock) - DAY - SLOT)
                assert answer.reason != "day" or used + what > limits.recipients_per_day
                assert answer.retry_after_ms <= DAY + SLOT
        elif live and verb in ("settle", "release"):
            getattr(limiter, verb)(live.pop(what % len(live)))
        assert_every_key_expires(redis_client)
    clock.advance(timedelta(milliseconds=DAY + SLOT))
    usage = limiter.usage({MAILBOX: limits})[MAILBOX]
    assert (usage.minute.used, usage.day.used, usage.in_flight.used) == (0, 0, 0)
    assert isinstance(limiter.check_and_reserve(MAILBOX, limits.recipients_per_day, limits), Reservation)


def test_an_evicted_log_does_not_hold_the_day_for_ever(limiter, redis_client, clock):
    limits = RateLimits(50, 20, 50)
    for _ in range(10):
        limiter.check_and_reserve(MAILBOX, 1, limits)
    redis_client.delete(f"mail:rate:log:{MAILBOX}")
    limiter.check_and_reserve(MAILBOX, 1, limits)  # in the same minute and slot
    assert_every_key_expires(redis_client)
    clock.advance(hours=25)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 20, limits), Reservation)


def test_an_evicted_log_is_refilled_before_the_next_decision(redis_client, clock):
    told = []
    limiter = MailRateLimiter(redis_client, clock=clock, history=lambda *_: told)
    limits = RateLimits(5, 20, 50)
    for _ in range(3):
        reservation = limiter.check_and_reserve(MAILBOX, 6, limits)
        limiter.settle(reservation)
        told.append((reservation.granted_ms, 6))
    redis_client.delete(f"mail:rate:log:{MAILBOX}")
    clock.advance(seconds=1)
    denial = limiter.check_and_reserve(MAILBOX, 6, limits)
    assert isinstance(denial, Denial)
    assert denial.reason == "day"
    assert isinstance(limiter.check_and_reserve(MAILBOX, 2, limits), Reservation)


def test_what_version_0_1_counted_is_refilled(redis_client, clock):
    """Its header is shorter, and its log ends elsewhere."""
    told = [(int(milliseconds(clock)) - 1_000, 15)]
    limiter = MailRateLimiter(redis_client, clock=clock, history=lambda *_: told)
    redis_client.hset(f"mail:rate:state:{MAILBOX}", "windows", bytes(49))
    redis_client.set(f"mail:rate:log:{MAILBOX}", bytes(780))
    assert limiter.check_and_reserve(MAILBOX, 6, RateLimits(5, 20, 50)).reason == "day"
    assert_every_key_expires(redis_client)
