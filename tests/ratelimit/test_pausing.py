"""A paused mailbox: for how long, and how carefully it starts again."""

from __future__ import annotations

from ratelimit.conftest import MAILBOX
from rqmail.ratelimit.limiter import Denial, Reservation
from rqmail.ratelimit.limits import RateLimits


def test_a_paused_mailbox_is_denied_with_the_reason_until_the_pause_ends(limiter, clock):
    limiter.pause(MAILBOX, 5_000, "429 from Graph")
    answer = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    assert answer == Denial("paused", 5_000, pause_reason="429 from Graph")
    clock.advance(seconds=5)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, RateLimits()), Reservation)


def test_a_shorter_pause_never_shortens_a_longer_one(limiter):
    limiter.pause(MAILBOX, 60_000, "blocked")
    limiter.pause(MAILBOX, 1_000, "429")
    answer = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    assert (answer.retry_after_ms, answer.pause_reason) == (60_000, "blocked")
    limiter.pause(MAILBOX, 90_000, "mailbox full")
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).pause_reason == "mailbox full"


def test_a_person_can_resume_at_once(limiter):
    limiter.pause(MAILBOX, 60_000, "blocked")
    assert limiter.resume(MAILBOX)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, RateLimits()), Reservation)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, RateLimits()), Reservation)


def test_after_a_pause_one_at_a_time_passes_until_one_has_succeeded(limiter, clock):
    limiter.pause(MAILBOX, 5_000, "429")
    clock.advance(seconds=5)
    first = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).reason == "in_flight"
    limiter.release(first)
    second = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).reason == "in_flight"
    limiter.settle(second)
    for _ in range(3):
        assert isinstance(limiter.check_and_reserve(MAILBOX, 1, RateLimits()), Reservation)


def test_a_success_of_before_the_pause_proves_nothing_about_after_it(limiter, clock):
    before = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    limiter.pause(MAILBOX, 5_000, "429")
    limiter.settle(before)
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).reason == "paused"
    clock.advance(seconds=5)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, RateLimits()), Reservation)
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).reason == "in_flight"


def test_backing_off_doubles_with_every_failure_in_a_row_up_to_the_longest(limiter, clock):
    chosen = []
    for _ in range(5):
        chosen.append(limiter.back_off(MAILBOX, 1_000, 6_000, "429"))
        clock.advance(milliseconds=chosen[-1])
    assert chosen == [1_000, 2_000, 4_000, 6_000, 6_000]


def test_a_success_ends_the_row_of_failures(limiter, clock):
    limiter.back_off(MAILBOX, 1_000, 60_000, "429")
    limiter.back_off(MAILBOX, 1_000, 60_000, "429")
    clock.advance(seconds=2)
    limiter.settle(limiter.check_and_reserve(MAILBOX, 1, RateLimits()))
    assert limiter.back_off(MAILBOX, 1_000, 60_000, "429") == 1_000


def test_three_requests_refused_together_are_one_failure(limiter, clock):
    together = [limiter.check_and_reserve(MAILBOX, 1, RateLimits()) for _ in range(3)]
    clock.advance(milliseconds=300)
    for reservation in together:
        limiter.release(reservation)
        assert limiter.back_off(MAILBOX, 1_000, 60_000, "429", granted_ms=reservation.granted_ms) == 1_000
    clock.advance(seconds=1)
    probe = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    limiter.release(probe)
    assert limiter.back_off(MAILBOX, 1_000, 60_000, "429", granted_ms=probe.granted_ms) == 2_000


def test_usage_tells_until_when_and_why_a_mailbox_is_paused(limiter, clock):
    limiter.pause(MAILBOX, 5_000, "the mailbox is full")
    usage = limiter.usage([MAILBOX])[MAILBOX]
    assert usage.paused_until_ms == usage.next_free_ms
    assert 4_999 <= usage.paused_until_ms - usage.now_ms <= 5_001
    assert usage.pause_reason == "the mailbox is full"
    assert usage.in_flight.limit == 1
    clock.advance(seconds=6)
    usage = limiter.usage([MAILBOX])[MAILBOX]
    assert (usage.paused_until_ms, usage.pause_reason, usage.next_free_ms) == (None, None, usage.now_ms)


def test_a_reason_may_be_empty_long_or_in_any_script(limiter):
    for number, reason in enumerate(["", "geblokkeerd: één reden 🙂", "ü" * 500]):
        limiter.pause(f"{number}@example.org", 5_000, reason)
        told = limiter.check_and_reserve(f"{number}@example.org", 1, RateLimits()).pause_reason
        assert told == reason[:100] if number == 2 else told == reason
        assert limiter.usage([f"{number}@example.org"])[f"{number}@example.org"].pause_reason == told


def test_rejections_in_a_row_are_counted_until_one_message_is_accepted(limiter, redis_client):
    assert [limiter.count_rejection(MAILBOX) for _ in range(3)] == [1, 2, 3]
    limiter.settle(limiter.check_and_reserve(MAILBOX, 1, RateLimits()))
    assert limiter.count_rejection(MAILBOX) == 1
    assert all(redis_client.ttl(key) > 0 for key in redis_client.keys("mail:rate:*"))


def test_an_outcome_nobody_knows_frees_its_place_and_ends_no_caution(limiter, clock):
    limiter.back_off(MAILBOX, 1_000, 60_000, "429")
    clock.advance(seconds=2)
    probe = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    limiter.settle(probe, accepted=False)
    usage = limiter.usage([MAILBOX])[MAILBOX]
    assert (usage.in_flight.used, usage.in_flight.limit) == (0, 1)
    assert limiter.back_off(MAILBOX, 1_000, 60_000, "429") == 2_000
