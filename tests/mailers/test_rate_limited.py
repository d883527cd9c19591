"""Budget first, then the mail; what is given back, and what stays used."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from rqmail.errors import (
    MailAuthError,
    MailboxBusyError,
    MailboxPausedError,
    MailboxUnavailableError,
    MailOutcomeUnknownError,
    MailRateLimitExceededError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
)
from rqmail.mailers.base import Address, Permit, Receipt
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

RESERVATION = Reservation("r1", "noreply@contoso.example", 4, 0)


class ScriptedLimiter:
    """Answers what the test says, and writes down what it is told."""

    def __init__(self, *answers):
        self.answers = list(answers) or [RESERVATION]
        self.told = []
        self.ids = []

    lease_seconds = 120.0

    def check_and_reserve(self, mailbox_key, recipient_count, limits, reservation_id=None, *, upload_bytes=0, **shared):
        self.told.append(("reserve", mailbox_key, recipient_count, limits))
        self.ids.append(reservation_id)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def release(self, reservation):
        self.told.append(("release", reservation))

    def settle(self, reservation, *, accepted=True):
        self.told.append(("settle" if accepted else "settle as unknown", reservation))


class Inner:
    def __init__(self, problem=None):
        self.problem = problem
        self.sent = []

    def send(self, mail):
        self.sent.append(mail)
        if self.problem is not None:
            raise self.problem
        return Receipt(202, "r")


def build(limiter, inner, sleeps=None, **options):
    return RateLimitedGraphMailer(
        inner,
        limiter,
        " NoReply@Contoso.Example ",
        RateLimits(),
        sleep=(sleeps if sleeps is not None else []).append,
        **options,
    )


def test_a_mail_is_sent_once_its_recipients_are_reserved(mail):
    limiter, inner = ScriptedLimiter(), Inner()

    assert build(limiter, inner).send(mail) == Receipt(202, "r")
    assert limiter.told == [
        ("reserve", "noreply@contoso.example", 4, RateLimits()),
        ("settle", RESERVATION),
    ]
    assert inner.sent == [mail]


def test_a_reservation_has_the_name_of_the_attempt_that_the_table_knows_too(mail):
    limiter = ScriptedLimiter()
    build(limiter, Inner()).send(replace(mail, attempt="message:claim"))
    assert limiter.ids == ["message:claim"]


@pytest.mark.parametrize(
    "problem",
    [
        MailThrottledError("x"),
        MailTransientError("x"),
        MailRejectedError("x"),
        MailboxUnavailableError("x"),
        MailAuthError("x"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_was_certainly_not_sent_gives_its_budget_back(mail, problem):
    limiter = ScriptedLimiter()
    with pytest.raises(type(problem)) as caught:
        build(limiter, Inner(problem)).send(mail)

    assert caught.value is problem
    assert limiter.told[1:] == [("release", RESERVATION)]


class JobTimeoutError(Exception):
    """As RQ raises it: anywhere, an ordinary exception."""


@pytest.mark.parametrize(
    "problem",
    [MailOutcomeUnknownError("x"), JobTimeoutError(), KeyError("x"), KeyboardInterrupt(), SystemExit(1)],
    ids=lambda problem: type(problem).__name__,
)
def test_what_may_have_been_sent_keeps_its_budget_and_frees_its_place_in_flight(mail, problem):
    limiter = ScriptedLimiter()
    with pytest.raises(type(problem)) as caught:
        build(limiter, Inner(problem)).send(mail)

    assert caught.value is problem
    assert limiter.told[1:] == [("settle as unknown", RESERVATION)]


@pytest.mark.parametrize("begun", [True, False])
def test_whatever_goes_wrong_before_the_request_was_begun_gives_the_budget_back(mail, begun):
    limiter, permit = ScriptedLimiter(), Permit(lambda: None, taken=begun)
    with pytest.raises(KeyError):
        build(limiter, Inner(KeyError("x"))).send(replace(mail, permit=permit))

    assert limiter.told[1:] == [("settle as unknown" if begun else "release", RESERVATION)]


@pytest.mark.parametrize("reason", ["minute", "day"])
def test_without_budget_nothing_is_sent_and_the_error_says_when_to_come_back(mail, reason):
    limiter, inner = ScriptedLimiter(Denial(reason, 4321)), Inner()
    with pytest.raises(MailRateLimitExceededError) as caught:
        build(limiter, inner).send(mail)

    error = caught.value
    assert (error.name, error.mailbox_key, error.reason, error.retry_after_ms) == (
        "MailRateLimitExceededError",
        "noreply@contoso.example",
        reason,
        4321,
    )
    assert str(error) == f"Mail rate limit exceeded for noreply@contoso.example ({reason}); retry in 4321ms"
    assert inner.sent == []
    assert len(limiter.told) == 1


def test_a_paused_mailbox_says_why(mail):
    with pytest.raises(MailboxPausedError, match="mailbox full") as caught:
        build(ScriptedLimiter(Denial("paused", 60_000, pause_reason="mailbox full")), Inner()).send(mail)

    assert caught.value.retry_after_ms == 60_000


def test_more_recipients_than_a_whole_day_allows_are_refused_for_good(mail):
    crowd = replace(mail, to=tuple(Address(f"a{n}@example.org") for n in range(9001)))
    with pytest.raises(MailRejectedError, match=r"9,003 recipients.*9,000 in a whole day"):
        build(ScriptedLimiter(Denial("day", 86_400_000, never=True)), Inner()).send(crowd)


def test_two_senders_with_one_address_share_one_budget(mail, redis_client, clock):
    limiter = MailRateLimiter(redis_client, clock=clock)
    first = RateLimitedGraphMailer(Inner(), limiter, "noreply@contoso.example", RateLimits(per_minute=1))
    second = RateLimitedGraphMailer(Inner(), limiter, " NOREPLY@contoso.example", RateLimits(per_minute=1))
    first.send(mail)
    with pytest.raises(MailRateLimitExceededError) as caught:
        second.send(mail)

    assert caught.value.reason == "minute"


def test_a_mail_that_failed_for_certain_leaves_its_place_to_the_next(mail, redis_client, clock):
    limiter = MailRateLimiter(redis_client, clock=clock)
    failing = RateLimitedGraphMailer(Inner(MailTransientError("x")), limiter, "a@b.example", RateLimits(per_minute=1))
    unclear = RateLimitedGraphMailer(
        Inner(MailOutcomeUnknownError("x")), limiter, "a@b.example", RateLimits(per_minute=1, in_flight=1)
    )
    with pytest.raises(MailTransientError):
        failing.send(mail)
    with pytest.raises(MailOutcomeUnknownError):
        unclear.send(mail)
    with pytest.raises(MailRateLimitExceededError):
        unclear.send(mail)


def test_with_all_places_in_flight_taken_it_waits_for_one(mail):
    sleeps = []
    busy = Denial("in_flight", 120_000)
    limiter = ScriptedLimiter(busy, busy, busy, RESERVATION)
    build(limiter, Inner(), sleeps).send(mail)

    assert sleeps == [0.01, 0.01, 0.01]
    assert limiter.told[-1] == ("settle", RESERVATION)


def test_the_wait_for_a_place_in_flight_ends(mail):
    sleeps, inner = [], Inner()
    with pytest.raises(MailboxBusyError) as caught:
        build(ScriptedLimiter(Denial("in_flight", 900)), inner, sleeps, busy_wait_seconds=1.0).send(mail)

    assert sum(sleeps) == pytest.approx(1.0)
    assert max(sleeps) == 0.01
    assert caught.value.retry_after_ms == 900
    assert inner.sent == []


def test_budget_running_out_while_waiting_ends_the_wait(mail):
    limiter = ScriptedLimiter(Denial("in_flight", 900), Denial("minute", 5))
    with pytest.raises(MailRateLimitExceededError):
        build(limiter, Inner()).send(mail)


class Uploads:
    """An upload on a slow line: range after range, each under the mail's hold; killed after so many of them."""

    def __init__(self, clock, ranges, *, killed=False):
        self.clock = clock
        self.ranges = ranges
        self.killed = killed
        self.during = []

    def send(self, mail):
        for _ in range(self.ranges):
            mail.hold(78)
            self.clock.advance(timedelta(seconds=39))
            for look in self.during:
                look()
        if self.killed:
            raise ProcessKilledError
        return Receipt(202, "r")


class ProcessKilledError(BaseException):
    pass


@pytest.fixture
def slow(redis_client, clock):
    """Answers a mailer with one place in flight whose uploads take long, its limiter, and what the upload is."""

    def build(ranges, **options):
        uploads = Uploads(clock, ranges, **options)
        limiter = MailRateLimiter(redis_client, clock=clock)
        limits = RateLimits(in_flight=1, upload_bytes=100)
        mailer = RateLimitedGraphMailer(
            uploads, limiter, "a@b.example", limits, clock=lambda: clock().timestamp(), busy_wait_seconds=0
        )
        return mailer, uploads, lambda: limiter.check_and_reserve("a@b.example", 1, limits)

    return build


def test_an_upload_of_twenty_five_minutes_keeps_its_place_in_flight_until_it_is_done(mail, slow):
    mailer, uploads, another = slow(ranges=40)
    uploads.during.append(lambda: denied.append(another()))
    denied = []

    mailer.send(replace(mail, permit=Permit(lambda: None)))
    assert [(one.reason) for one in denied] == ["in_flight"] * 40
    assert isinstance(another(), Reservation)


def test_a_worker_killed_in_the_middle_of_a_long_upload_frees_its_place_within_a_lease_and_one_range(
    mail, slow, clock, monkeypatch
):
    mailer, _, another = slow(ranges=10, killed=True)
    monkeypatch.setattr(MailRateLimiter, "settle", lambda *_, **__: None)  # nobody is left to tell it
    monkeypatch.setattr(MailRateLimiter, "release", lambda *_: None)
    with pytest.raises(ProcessKilledError):
        mailer.send(replace(mail, permit=Permit(lambda: None)))

    denial = another()
    assert denial.reason == "in_flight"
    assert denial.retry_after_ms <= (120 + 2 * 78) * 1000
    clock.advance(timedelta(milliseconds=denial.retry_after_ms))
    assert isinstance(another(), Reservation)
