"""The volume of uploads: for mails that upload alone, counted until five minutes after their end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ratelimit.conftest import MAILBOX
from rqmail.errors import InvalidInputError
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

MB = 1_000_000
LIMITS = RateLimits(in_flight=50)
WINDOW = timedelta(minutes=5)


def ask(limiter, size=0):
    return limiter.check_and_reserve(MAILBOX, 1, LIMITS, upload_bytes=size)


def test_exchanges_150_mb_in_five_minutes_are_kept_and_no_other_mail_waits_for_them(limiter, clock):
    for _ in range(15):
        limiter.settle(ask(limiter, 10 * MB))
    clock.advance(timedelta(minutes=1))  # the minute has room again

    denial = ask(limiter, 1)
    assert (denial.reason, denial.retry_after_ms) == ("upload", 4 * 60_000)
    assert isinstance(ask(limiter), Reservation)
    clock.advance(timedelta(milliseconds=denial.retry_after_ms))
    assert isinstance(ask(limiter, 150 * MB), Reservation)


def test_a_mail_larger_than_the_window_takes_all_of_it_and_waits_until_it_is_empty(limiter, clock):
    limiter.settle(ask(limiter, 1))
    denial = ask(limiter, 200 * MB)
    assert (denial.reason, denial.never) == ("upload", False)
    clock.advance(timedelta(milliseconds=denial.retry_after_ms))
    assert isinstance(ask(limiter, 200 * MB), Reservation)


def test_what_was_certainly_not_sent_gives_its_volume_back(limiter):
    limiter.release(ask(limiter, 150 * MB))
    assert isinstance(ask(limiter, 150 * MB), Reservation)


def test_an_upload_counts_from_its_end_on_however_long_it_took(limiter, clock):
    upload = ask(limiter, 150 * MB)
    for _ in range(20):
        clock.advance(timedelta(minutes=1))
        limiter.extend(upload)
    limiter.settle(upload)
    clock.advance(WINDOW - timedelta(milliseconds=1))
    assert ask(limiter, 1).reason == "upload"
    clock.advance(timedelta(milliseconds=1))
    assert isinstance(ask(limiter, 1), Reservation)


def test_usage_tells_what_was_uploaded_and_when_some_of_it_counts_no_more(limiter, clock):
    limiter.settle(ask(limiter, 10 * MB))
    clock.advance(timedelta(minutes=2))
    limiter.settle(ask(limiter, 20 * MB))

    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.uploads.used, usage.uploads.limit) == (30 * MB, 150 * MB)
    assert usage.uploads_free_ms - usage.now_ms == pytest.approx(3 * 60_000, abs=1)
    assert usage.waits_for is None
    assert [size for _, size in limiter.held({MAILBOX: LIMITS})[MAILBOX].uploads] == [10 * MB, 20 * MB]


def test_the_volume_is_refilled_from_the_history_after_a_flush(redis_client, clock):
    now = clock().timestamp() * 1000
    told = [(now - 200_000, 1, None, 60 * MB), (now + 60_000, 1, "runs", 50 * MB), (now - 400_000, 1, None, 99 * MB)]
    limiter = MailRateLimiter(redis_client, clock=clock, history=lambda *_: told)

    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].uploads.used == 110 * MB
    assert ask(limiter, 41 * MB).retry_after_ms == 100_000
    limiter.release(Reservation("runs", MAILBOX, 1, int(now)))
    assert isinstance(ask(limiter, 41 * MB), Reservation)


def test_a_reset_forgets_the_volume_too(limiter):
    running = ask(limiter, 150 * MB)
    limiter.reset(MAILBOX)
    assert isinstance(ask(limiter, 150 * MB), Reservation)
    limiter.release(running)
    assert isinstance(ask(limiter, 1), Denial)


@pytest.mark.parametrize("size", [-1, -MB])
def test_less_than_nothing_is_not_uploaded(limiter, size):
    with pytest.raises(InvalidInputError, match="upload_bytes"):
        ask(limiter, size)
