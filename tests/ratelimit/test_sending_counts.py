"""What the table says is being sent is in flight after Redis forgot it."""

from __future__ import annotations

from datetime import timedelta

from rqmail.clock import from_epoch_ms
from rqmail.models.ledger import attempt_name, sends_since
from rqmail.models.message import MessageStatus
from rqmail.ratelimit.limiter import MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits
from support.messages import MAILBOX, message_in

LIMITS = RateLimits(per_minute=25, recipients_per_day=100, in_flight=3)


def test_after_a_flush_no_more_requests_of_a_mailbox_run_at_once_than_before_it(database, redis_client, clock):
    limiter = MailRateLimiter(
        redis_client, clock=clock, history=lambda key, since, _now: sends_since(key, from_epoch_ms(since))
    )
    running = []
    for number in range(3):
        lease = {"lease_until": clock() + timedelta(minutes=2), "attempted_on": clock(), "claim": f"claim {number}"}
        message = message_in(MessageStatus.SENDING, **lease)
        running.append(limiter.check_and_reserve(MAILBOX, 1, LIMITS, attempt_name(message.id, message.claim)))
    assert all(isinstance(one, Reservation) for one in running)
    redis_client.flushall()
    assert limiter.check_and_reserve(MAILBOX, 1, LIMITS).reason == "in_flight"
    limiter.settle(running[0])
    limiter.release(running[1])
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.in_flight.used, usage.minute.used, usage.day.used) == (1, 2, 2)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS), Reservation)
    assert limiter.check_and_reserve(MAILBOX, 1, LIMITS).reason == "in_flight"


def test_after_a_flush_what_a_mailbox_uploaded_counts_as_the_table_tells_it(database, redis_client, clock):
    limiter = MailRateLimiter(
        redis_client, clock=clock, history=lambda key, since, _now: sends_since(key, from_epoch_ms(since))
    )
    before = clock() - timedelta(minutes=4)
    uploaded = {"attempted_on": before - timedelta(minutes=9), "sent_on": before, "upload_bytes": 100_000_000}
    message_in(MessageStatus.SENT, **uploaded)
    denial = limiter.check_and_reserve(MAILBOX, 1, LIMITS, upload_bytes=60_000_000)
    assert (denial.reason, denial.retry_after_ms) == ("upload", 60_000)
    assert isinstance(limiter.check_and_reserve(MAILBOX, 1, LIMITS, upload_bytes=40_000_000), Reservation)
