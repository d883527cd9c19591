"""A fresh or flushed Redis learns what was sent before its first decision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from structlog.testing import capture_logs

from ratelimit.conftest import MAILBOX
from rqmail.clock import to_epoch_ms
from rqmail.ratelimit.limiter import MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

LIMITS = RateLimits(per_minute=5, recipients_per_day=100, in_flight=50)


class Sent:
    """A history that remembers every call, and how often it was asked."""

    def __init__(self, clock):
        self.clock = clock
        self.calls = []
        self.asked = 0

    def __call__(self, mailbox_key, since_ms, now_ms):
        self.asked += 1
        return [(at, recipients) for key, at, recipients in self.calls if key == mailbox_key and since_ms <= at]

    def send(self, limiter, recipients, key=MAILBOX):
        answer = limiter.check_and_reserve(key, recipients, LIMITS)
        if isinstance(answer, Reservation):
            self.calls.append((key, to_epoch_ms(self.clock()), recipients))
        return answer


def test_after_a_flush_nothing_more_goes_out_than_without_it(redis_client, clock):
    sent = Sent(clock)
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    sent.send(limiter, 60)
    clock.advance(hours=20)
    for _ in range(4):
        sent.send(limiter, 5)
        clock.advance(seconds=2)
    before = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    redis_client.flushall()
    with capture_logs() as events:
        assert sent.send(limiter, 21).reason == "day"
    after = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert replace(after, in_flight=before.in_flight) == before
    assert events == [
        {"event": "mail.rateLimit.refilled", "log_level": "info", "mailboxKey": MAILBOX, "calls": 5, "recipients": 80}
    ]
    assert isinstance(sent.send(limiter, 20), Reservation)
    assert sent.send(limiter, 1).reason == "day"
    for key in redis_client.scan_iter():
        assert redis_client.ttl(key) > 0


def test_the_bucket_counters_are_refilled_with_fixed_windows_too(redis_client, clock):
    sent = Sent(clock)
    limiter = MailRateLimiter(redis_client, "fixed", clock, history=sent)
    for _ in range(5):
        sent.send(limiter, 10)
    redis_client.flushall()
    assert sent.send(limiter, 1).reason == "minute"
    clock.advance(minutes=1)
    assert sent.send(limiter, 51).reason == "day"


def test_a_known_mailbox_is_never_asked_about_again(redis_client, clock):
    sent = Sent(clock)
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    for _ in range(4):
        sent.send(limiter, 1)
    assert sent.asked == 1


def test_many_refillers_at_once_count_the_history_once(redis_client, clock):
    sent = Sent(clock)
    sent.calls = [(MAILBOX, to_epoch_ms(clock()) - 3_600_000, 40), (MAILBOX, to_epoch_ms(clock()), 1)]
    limiters = [MailRateLimiter(redis_client, clock=clock, history=sent) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        usages = list(threads.map(lambda own: own.usage({MAILBOX: LIMITS})[MAILBOX], limiters))
    assert {usage.day_rolling.used for usage in usages} == {41}
    assert {usage.minute_rolling.used for usage in usages} == {1}


def test_usage_refills_every_forgotten_mailbox_before_it_answers(redis_client, clock):
    sent = Sent(clock)
    keys = [f"m{number}@example.org" for number in range(40)]
    sent.calls = [(key, to_epoch_ms(clock()) - 600_000, number) for number, key in enumerate(keys)]
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    before = redis_client.info("stats")["total_reads_processed"]
    usages = limiter.usage(keys, LIMITS)
    assert redis_client.info("stats")["total_reads_processed"] - before <= 8  # registering the scripts included
    assert [usages[key].day.used for key in keys] == list(range(40))


def test_a_pause_set_before_the_first_decision_does_not_hide_the_history(redis_client, clock):
    sent = Sent(clock)
    sent.calls = [(MAILBOX, to_epoch_ms(clock()) - 3_600_000, 100)]
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    limiter.pause(MAILBOX, 1_000, "429")
    assert sent.send(limiter, 1).reason == "day"
    clock.advance(seconds=2)
    assert sent.send(limiter, 1).reason == "day"


def test_a_reset_is_not_undone_by_the_history(redis_client, clock):
    sent = Sent(clock)
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    sent.send(limiter, 100)
    limiter.reset(MAILBOX)
    assert isinstance(sent.send(limiter, 100), Reservation)


def test_what_another_program_counted_meanwhile_is_kept(redis_client, clock):
    sent = Sent(clock)
    sent.calls = [(MAILBOX, to_epoch_ms(clock()) - 3_600_000, 10)]
    day = f"mail:rate:day:{MAILBOX}:{to_epoch_ms(clock()) // 86_400_000}"
    redis_client.set(day, 30, ex=60)
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].day_bucket.used == 30


def test_a_history_that_fails_does_not_fail_the_send_and_is_asked_again(redis_client, clock, events):
    sent = Sent(clock)
    sent.calls = [(MAILBOX, to_epoch_ms(clock()) - 3_600_000, 10)]
    down = True

    def history(*asked):
        if down:
            raise OSError("database is down")
        return sent(*asked)

    limiter = MailRateLimiter(redis_client, clock=clock, history=history)
    answer = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert isinstance(answer, Reservation)
    assert not answer.counted
    assert [event["event"] for event in events] == ["mail.rateLimit.refillFailed"]
    down = False
    limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].day.used >= 11


def test_more_calls_in_the_last_minute_than_the_limit_now_allows_are_all_waited_for(redis_client, clock):
    sent = Sent(clock)
    now = to_epoch_ms(clock())
    sent.calls = [(MAILBOX, now - 10_000 * number, 1) for number in range(8)]
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    denied = limiter.check_and_reserve(MAILBOX, 1, LIMITS)
    assert (denied.reason, denied.retry_after_ms) == ("minute", 20_000)


def test_a_refill_under_a_lower_limit_forgets_no_call_that_a_higher_one_counts(redis_client, clock):
    """The limit was 5 when Redis was flushed, or another sender on the same address has it."""
    sent = Sent(clock)
    now = to_epoch_ms(clock())
    sent.calls = [(MAILBOX, now - 1_000 * number, 1) for number in range(25)]
    limiter = MailRateLimiter(redis_client, clock=clock, history=sent)
    assert limiter.usage({MAILBOX: RateLimits(per_minute=5)})[MAILBOX].minute_rolling.used == 25
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits(per_minute=5)).reason == "minute"
    clock.advance(seconds=20)
    assert limiter.usage([MAILBOX])[MAILBOX].minute_rolling.used == 25
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits(per_minute=25)).reason == "minute"
