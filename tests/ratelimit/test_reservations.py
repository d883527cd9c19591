"""One mailbox, step by step: what is kept where, what comes back, and what many workers may not do."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from ratelimit.conftest import MAILBOX
from rqmail.clock import to_epoch_ms
from rqmail.errors import InvalidInputError
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

LIMITS = RateLimits(per_minute=3, recipients_per_day=20, in_flight=50)


def bucket_keys(clock) -> tuple[str, str]:
    seconds = to_epoch_ms(clock()) // 1000
    return f"mail:rate:min:{MAILBOX}:{seconds // 60}", f"mail:rate:day:{MAILBOX}:{seconds // 86400}"


@pytest.mark.parametrize("window", ["rolling", "fixed"])
def test_a_grant_counts_in_the_keys_that_others_read(redis_client, clock, window):
    limiter = MailRateLimiter(redis_client, window, clock)
    limiter.check_and_reserve(MAILBOX, 4, LIMITS)
    limiter.check_and_reserve(MAILBOX, 3, LIMITS)
    minute, day = bucket_keys(clock)
    assert (redis_client.get(minute), redis_client.get(day)) == (b"2", b"7")
    assert 118 <= redis_client.ttl(minute) <= 120
    assert 26 * 3600 - 2 <= redis_client.ttl(day) <= 26 * 3600


@pytest.mark.parametrize("window", ["rolling", "fixed"])
def test_every_key_has_the_prefix_and_expires(redis_client, clock, window):
    limiter = MailRateLimiter(redis_client, window, clock)
    limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    limiter.pause(MAILBOX, 3 * 86_400_000, "blocked")
    keys = list(redis_client.scan_iter())
    assert len(keys) <= 4
    for key in keys:
        assert key.startswith(b"mail:rate:")
        assert redis_client.ttl(key) > 0
    assert redis_client.ttl(f"mail:rate:state:{MAILBOX}") > 3 * 86_400


def test_what_another_program_counts_in_the_buckets_counts_here(limiter, redis_client, clock):
    minute, day = bucket_keys(clock)
    redis_client.incrby(minute, 3)
    answer = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert isinstance(answer, Denial)
    assert answer.reason == "minute"
    redis_client.delete(minute)
    redis_client.incrby(day, 18)
    assert limiter.check_and_reserve(MAILBOX, 3, LIMITS).reason == "day"
    assert isinstance(limiter.check_and_reserve(MAILBOX, 2, LIMITS), Reservation)
    assert redis_client.ttl(day) > 0


def test_a_key_that_another_program_made_does_not_hide_that_a_new_slot_has_begun(limiter, redis_client, clock):
    limiter.check_and_reserve(MAILBOX, 10, LIMITS)
    clock.advance(minutes=12)
    redis_client.incr(bucket_keys(clock)[0])
    limiter.check_and_reserve(MAILBOX, 10, LIMITS)
    clock.advance(hours=24)
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].day_rolling.used == 10


def test_with_fixed_windows_a_new_minute_starts_full_and_with_rolling_ones_it_does_not(limiter, redis_client, clock):
    fixed = MailRateLimiter(redis_client, "fixed", clock)
    for _ in range(3):
        assert isinstance(fixed.check_and_reserve("fixed@example.org", 1, LIMITS), Reservation)
        assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)
    clock.advance(seconds=40)
    assert isinstance(fixed.check_and_reserve("fixed@example.org", 1, LIMITS), Reservation)
    denied = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert (denied.reason, denied.retry_after_ms) == ("minute", 20_000)


def test_a_campaign_across_midnight_does_not_send_two_days_worth(limiter, redis_client, clock):
    fixed = MailRateLimiter(redis_client, "fixed", clock)
    for own, key in ((limiter, MAILBOX), (fixed, "fixed@example.org")):
        assert isinstance(own.check_and_reserve(key, 20, LIMITS), Reservation)
    clock.advance(hours=15)
    assert limiter.check_and_reserve(MAILBOX, 1, LIMITS).reason == "day"
    assert isinstance(fixed.check_and_reserve("fixed@example.org", 20, LIMITS), Reservation)


def test_the_wait_is_for_the_last_of_all_windows_that_have_no_room(limiter, clock):
    limiter.check_and_reserve(MAILBOX, 20, LIMITS)
    clock.advance(hours=23, minutes=59, seconds=40)
    for _ in range(3):
        limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    answer = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert answer.reason == "day"
    clock.advance(milliseconds=answer.retry_after_ms)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)


def test_the_same_reservation_asked_twice_counts_once(limiter):
    first = limiter.check_and_reserve(MAILBOX, 2, LIMITS, reservation_id="once")
    second = limiter.check_and_reserve(MAILBOX, 2, LIMITS, reservation_id="once")
    assert first == second
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.minute.used, usage.day.used, usage.in_flight.used) == (1, 2, 1)


def test_a_release_never_revives_an_expired_key(limiter, redis_client, clock):
    reservation = limiter.check_and_reserve(MAILBOX, 2, LIMITS)
    redis_client.delete(*bucket_keys(clock))
    limiter.release(reservation)
    assert not redis_client.exists(*bucket_keys(clock))
    redis_client.flushall()
    limiter.release(reservation)
    assert list(redis_client.scan_iter()) == []


def test_a_release_never_goes_below_zero(limiter, redis_client, clock):
    reservation = limiter.check_and_reserve(MAILBOX, 5, LIMITS)
    minute, day = bucket_keys(clock)
    redis_client.set(minute, 0, ex=60)
    redis_client.set(day, 2, ex=60)
    limiter.release(reservation)
    assert (redis_client.get(minute), redis_client.get(day)) == (b"0", b"0")


def test_a_release_takes_back_from_the_buckets_the_reservation_was_taken_from(limiter, redis_client, clock):
    reservation = limiter.check_and_reserve(MAILBOX, 5, LIMITS)
    minute, day = bucket_keys(clock)
    clock.advance(hours=15, seconds=-100)
    limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    later_minute, later_day = bucket_keys(clock)
    assert later_day != day
    limiter.release(reservation)
    assert [redis_client.get(key) for key in (minute, day)] == [b"0", b"0"]
    assert [redis_client.get(key) for key in (later_minute, later_day)] == [b"1", b"1"]
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].day_rolling.used == 1


def test_a_release_of_what_redis_never_counted_gives_nothing(limiter):
    counted = limiter.check_and_reserve(MAILBOX, 5, LIMITS)
    limiter.release(Reservation(counted.id, MAILBOX, 5, counted.granted_ms, counted=False))
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].day.used == 5


def test_what_was_settled_can_not_be_released(limiter):
    reservation = limiter.check_and_reserve(MAILBOX, 5, LIMITS)
    limiter.settle(reservation)
    limiter.release(reservation)
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.day.used, usage.minute.used, usage.in_flight.used) == (5, 1, 0)


def test_requests_in_flight_are_few_and_a_lost_one_frees_its_place_by_itself(redis_client, clock):
    limiter = MailRateLimiter(redis_client, clock=clock, lease_ms=30_000)
    limits = RateLimits(in_flight=2)
    limiter.check_and_reserve(MAILBOX, 1, limits)
    clock.advance(seconds=10)
    limiter.check_and_reserve(MAILBOX, 1, limits)
    answer = limiter.check_and_reserve(MAILBOX, 1, limits)
    assert (answer.reason, answer.retry_after_ms) == ("in_flight", 20_000)
    clock.advance(seconds=20)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, limits), Reservation)
    assert limiter.check_and_reserve(MAILBOX, 1, limits).retry_after_ms == 10_000


def test_a_limit_that_is_raised_or_lowered_counts_from_the_next_decision(limiter):
    few, many = RateLimits(2, 100, 50), RateLimits(5, 100, 50)
    for _ in range(2):
        assert isinstance(limiter.check_and_reserve(MAILBOX, 1, few), Reservation)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, few), Denial)
    for _ in range(3):
        assert isinstance(limiter.check_and_reserve(MAILBOX, 1, many), Reservation)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, many), Denial)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, few), Denial)


def test_a_raised_limit_keeps_the_order_of_the_calls_before(limiter, clock):
    small, large = RateLimits(2, 100, 50), RateLimits(4, 100, 50)
    clock.advance(seconds=40)
    for _ in range(2):
        limiter.check_and_reserve(MAILBOX, 1, small)
        clock.advance(seconds=20)
    clock.advance(seconds=21)
    limiter.check_and_reserve(MAILBOX, 1, small)
    clock.advance(seconds=1)
    limiter.check_and_reserve(MAILBOX, 1, large)
    clock.advance(seconds=1)
    limiter.check_and_reserve(MAILBOX, 1, large)
    assert limiter.usage({MAILBOX: large})[MAILBOX].minute_rolling.used == 4
    clock.advance(seconds=17)
    assert limiter.usage({MAILBOX: large})[MAILBOX].minute_rolling.used == 3


def test_a_mailbox_is_one_mailbox_however_its_address_is_written(limiter):
    limiter.check_and_reserve(" Info@Example.ORG ", 1, LIMITS)
    assert limiter.usage([MAILBOX])[MAILBOX].day.used == 1


def test_the_server_s_own_time_is_used_when_no_clock_is_handed_in(redis_client):
    limiter = MailRateLimiter(redis_client)
    seconds, _ = redis_client.time()
    reservation = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert 0 <= reservation.granted_ms - seconds * 1000 < 5_000


def test_a_client_that_decodes_answers_works_as_well(redis_client, valkey_url, clock):
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        limiter = MailRateLimiter(client, clock=clock, history=lambda *_: [])
        assert isinstance(limiter.check_and_reserve(MAILBOX, 1, RateLimits(1)), Reservation)
        assert limiter.check_and_reserve(MAILBOX, 1, RateLimits(1)).reason == "minute"
        assert limiter.usage([MAILBOX])[MAILBOX].day.used == 1


@pytest.mark.parametrize("recipients", [-1, -9000])
def test_a_negative_count_is_refused_instead_of_given_back(limiter, recipients):
    with pytest.raises(InvalidInputError, match="recipient_count"):
        limiter.check_and_reserve(MAILBOX, recipients, LIMITS)


def test_a_reset_forgets_the_counts_and_leaves_requests_in_flight(limiter):
    limits = RateLimits(3, 20, 3)
    old = [limiter.check_and_reserve(MAILBOX, 5, limits) for _ in range(3)]
    assert limiter.reset(MAILBOX)
    usage = limiter.usage({MAILBOX: limits})[MAILBOX]
    assert (usage.minute.used, usage.day.used, usage.in_flight.used) == (0, 0, 3)
    limiter.settle(old[0])
    new = limiter.check_and_reserve(MAILBOX, 4, limits)
    assert isinstance(new, Reservation)
    limiter.release(old[1])  # it has nothing left to give back
    usage = limiter.usage({MAILBOX: limits})[MAILBOX]
    assert (usage.minute.used, usage.day.used, usage.in_flight.used) == (1, 4, 2)


def test_the_windows_start_over_when_the_kind_of_window_changes(limiter, fixed):
    for _ in range(3):
        assert isinstance(fixed.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)
    assert limiter.check_and_reserve(MAILBOX, 1, LIMITS).reason == "minute"
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].minute_rolling.used == 0


def test_a_release_after_the_kind_of_window_changed_gives_back_what_the_buckets_hold(limiter, fixed):
    under_rolling = limiter.check_and_reserve(MAILBOX, 9, LIMITS)
    under_fixed = fixed.check_and_reserve(MAILBOX, 7, LIMITS)
    fixed.release(under_rolling)
    usage = fixed.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.minute.used, usage.day.used, usage.in_flight.used) == (1, 7, 1)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 2, LIMITS), Reservation)
    limiter.release(under_fixed)
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.minute_bucket.used, usage.day_bucket.used) == (1, 2)
    assert (usage.minute_rolling.used, usage.day_rolling.used, usage.in_flight.used) == (1, 2, 1)


def test_with_several_budgets_used_up_the_reason_is_the_one_that_is_waited_for(limiter, clock):
    for _ in range(2):
        limiter.check_and_reserve(MAILBOX, 10, LIMITS)
    limiter.check_and_reserve(MAILBOX, 0, LIMITS)
    denial = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert denial.reason == usage.waits_for == "day"
    assert 0 <= denial.retry_after_ms - (usage.next_free_ms - usage.now_ms) <= 1
    assert denial.retry_after_ms > 3_600_000
    clock.advance(milliseconds=denial.retry_after_ms)
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].waits_for is None


def test_a_place_in_flight_or_a_pause_is_the_reason_only_when_it_ends_last(limiter, clock):
    limits = RateLimits(per_minute=1, recipients_per_day=5, in_flight=1)
    limiter.check_and_reserve(MAILBOX, 5, limits)
    assert limiter.check_and_reserve(MAILBOX, 1, limits).reason == "day"
    limiter.pause(MAILBOX, 3_600_000, "429")
    assert limiter.check_and_reserve(MAILBOX, 1, limits).reason == "day"
    assert limiter.usage({MAILBOX: limits})[MAILBOX].waits_for == "day"
    limiter.pause(MAILBOX, 3 * 86_400_000, "blocked")
    assert limiter.check_and_reserve(MAILBOX, 1, limits).reason == "paused"
    assert limiter.usage({MAILBOX: limits})[MAILBOX].waits_for == "paused"


def test_an_evicted_log_is_started_again(limiter, redis_client, clock):
    for _ in range(3):
        limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    redis_client.delete(f"mail:rate:log:{MAILBOX}")
    clock.advance(seconds=45)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)
    assert redis_client.ttl(f"mail:rate:log:{MAILBOX}") > 0


@pytest.mark.parametrize(("window", "commands"), [("rolling", 6), ("fixed", 5)])
def test_a_decision_in_the_same_minute_as_the_one_before_takes_few_steps(redis_client, clock, window, commands):
    limiter = MailRateLimiter(redis_client, window, clock)
    limits = RateLimits(100, 1000, 100)
    limiter.check_and_reserve(MAILBOX, 1, limits)
    redis_client.config_resetstat()
    for _ in range(20):
        assert limiter.check_and_reserve(MAILBOX, 1, limits).counted
    ran = {name: of["calls"] for name, of in redis_client.info("commandstats").items()}
    inside = sum(calls for name, calls in ran.items() if name.split("_")[1] not in ("evalsha", "config|resetstat"))
    assert inside == 20 * commands, ran


# --- many at once --------------------------------------------------------------------------------------------------


def hammer(url: str, start, passed) -> None:
    limiter = MailRateLimiter.from_url(url)
    start.wait()
    limits = RateLimits(in_flight=1000)
    answers = [limiter.check_and_reserve(MAILBOX, 1, limits) for _ in range(20)]
    passed.put(sum(isinstance(answer, Reservation) and answer.counted for answer in answers))
    limiter.close()


def test_eight_processes_hammering_one_mailbox_share_exactly_its_minute(valkey_url, redis_client):
    context = multiprocessing.get_context("forkserver")
    start, passed = context.Barrier(8), context.Queue()
    workers = [context.Process(target=hammer, args=(valkey_url, start, passed)) for _ in range(8)]
    for worker in workers:
        worker.start()
    total = sum(passed.get(timeout=30) for _ in workers)
    for worker in workers:
        worker.join(timeout=10)
    passed.close()
    passed.join_thread()
    assert total == 25


def test_forty_eight_lanes_of_one_process_share_one_limiter(redis_client, valkey_url):
    limiter = MailRateLimiter.from_url(valkey_url)
    limits = RateLimits(in_flight=1000)
    with ThreadPoolExecutor(48) as lanes:
        answers = list(lanes.map(lambda _: limiter.check_and_reserve(MAILBOX, 1, limits), range(200)))
    limiter.close()
    assert sum(isinstance(answer, Reservation) for answer in answers) == 25


def test_a_clock_may_answer_in_milliseconds_too(redis_client):
    moments = iter([1_700_000_000_000.0, 1_700_000_059_999, 1_700_000_060_000])
    limiter = MailRateLimiter(redis_client, clock=lambda: next(moments))
    limits = RateLimits(per_minute=1)
    assert limiter.check_and_reserve(MAILBOX, 1, limits).granted_ms == 1_700_000_000_000
    assert limiter.check_and_reserve(MAILBOX, 1, limits).retry_after_ms == 1
    assert limiter.check_and_reserve(MAILBOX, 1, limits).granted_ms == 1_700_000_060_000
