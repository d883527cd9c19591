"""Every ending of a send: what happens to the message, its budget and its mailbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import peewee
import pytest
import structlog

from rqmail.delivery.outcomes import FIRST_LOOK, REJECTED_IN_A_ROW, Ending, MailProviderService
from rqmail.delivery.senders import Sender
from rqmail.errors import (
    MailAuthError,
    MailboxBusyError,
    MailboxNotWritableError,
    MailboxPausedError,
    MailboxUnavailableError,
    MailError,
    MailOutcomeUnknownError,
    MailRateLimitExceededError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
    NoNamedPropertyError,
    NotFoundError,
    SettingsError,
)
from rqmail.mailers.base import Mail, Receipt
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.models import events
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageContent, MessageStatus, Recipient
from rqmail.models.suppression import INSTALLATION, Entry, Reason, keep
from rqmail.models.webhooks import Webhook, WebhookDelivery
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.spread import compute_spread_ms
from support.clock import START
from support.messages import message_in, reloaded, row
from support.office import Office
from support.statements import recorded

S = MessageStatus
KEY = "news@contoso.example"
LIMITS = RateLimits(per_minute=5, recipients_per_day=50, in_flight=3)
IDS = {"request_id": "req-1", "client_request_id": "client-1"}


@dataclass
class Outside:
    """Stands for the provider and the senders' table: raises what it is told to, or accepts."""

    limiter: MailRateLimiter
    raises: Exception | None = None
    known: bool = True
    begun: bool = True
    sent: list[Mail] = field(default_factory=list)
    marked: bool = True
    unmarked: list[str] = field(default_factory=list)

    def find(self, name: str) -> Sender:
        if not self.known:
            raise NotFoundError("mailbox", "news")
        return Sender(name, KEY, LIMITS, None, marked=self.marked)

    def go_unmarked(self, sender: Sender) -> None:
        self.unmarked.append(sender.budget_key)

    def mailer(self, sender: Sender) -> RateLimitedGraphMailer:
        return RateLimitedGraphMailer(self, self.limiter, KEY, LIMITS, busy_wait_seconds=0)

    def send(self, mail: Mail) -> Receipt:
        if self.raises is not None and (isinstance(self.raises, MailError) or not self.begun):
            raise self.raises
        mail.permit.take()
        if self.raises is not None:
            raise self.raises
        self.sent.append(mail)
        return Receipt(202, **IDS)


class Counts:
    def __init__(self) -> None:
        self.counted: list[tuple[str, str]] = []

    def count(self, event: str, label: str, seconds: float | None = None) -> None:
        self.counted.append((event, label))

    def denied(self, mailbox_key: str, reason: str) -> None:
        self.counted.append(("denied", reason))


@pytest.fixture
def limiter(redis_client, clock) -> MailRateLimiter:
    return MailRateLimiter(redis_client, clock=clock)


@pytest.fixture
def outside(limiter) -> Outside:
    return Outside(limiter)


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def service(outside, limiter, clock, counts) -> MailProviderService:
    return MailProviderService(outside, limiter, clock, counts, max_attempts=3)


def used(limiter: MailRateLimiter) -> int:
    return limiter.usage({KEY: LIMITS})[KEY].minute.used


def paused(limiter: MailRateLimiter) -> tuple[float, str] | None:
    """For how many seconds the mailbox rests, and why."""
    usage = limiter.usage({KEY: LIMITS})[KEY]
    if usage.paused_until_ms is None:
        return None
    return round((usage.paused_until_ms - usage.now_ms) / 1000, 1), usage.pause_reason


def spread(message: Message) -> timedelta:
    return timedelta(milliseconds=compute_spread_ms(message.id))


# --- the table of endings ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """What the mailer raises, and everything that must follow from it."""

    error: Exception
    status: MessageStatus
    attempts: int = 0
    deferrals: int = 0
    waiting_for: str | None = None
    outcome: str | None = None
    budget_kept: bool = False
    rests: bool = False
    pause: tuple[float, str] | None = None


CASES = {
    "throttled, two seconds asked": Case(
        MailThrottledError("slow down", retry_after=2, status=429, code="ApplicationThrottled", **IDS),
        S.SCHEDULED,
        deferrals=1,
        waiting_for="throttled",
        outcome="throttled",
        rests=True,
        pause=(2, "throttled by the provider (ApplicationThrottled)"),
    ),
    "throttled, nothing asked": Case(
        MailThrottledError("slow down", status=503, **IDS),
        S.SCHEDULED,
        deferrals=1,
        waiting_for="throttled",
        outcome="throttled",
        rests=True,
        pause=(1, "throttled by the provider (503)"),
    ),
    "certainly not sent": Case(
        MailTransientError("no connection", **IDS), S.SCHEDULED, attempts=1, waiting_for="retry", outcome="not-sent"
    ),
    "rejected": Case(
        MailRejectedError("bad address", status=400, code="ErrorInvalidRecipients", **IDS),
        S.ERROR,
        attempts=1,
        outcome="rejected",
    ),
    "mailbox unavailable": Case(
        MailboxUnavailableError("the mailbox is full", status=507, code="ErrorQuotaExceeded", **IDS),
        S.SCHEDULED,
        deferrals=1,
        waiting_for="mailbox-unavailable",
        outcome="mailbox-unavailable",
        rests=True,
        pause=(300, "the mailbox is full"),
    ),
    "not let in": Case(
        MailAuthError("AADSTS7000215: wrong secret", **IDS),
        S.SCHEDULED,
        deferrals=1,
        waiting_for="auth",
        outcome="auth",
        rests=True,
        pause=(30, "AADSTS7000215: wrong secret"),
    ),
    "nobody knows": Case(
        MailOutcomeUnknownError("no answer", status=504, **IDS),
        S.UNKNOWN,
        attempts=1,
        outcome="unknown",
        budget_kept=True,
    ),
    "an error nobody foresaw": Case(
        ZeroDivisionError("oops"), S.UNKNOWN, attempts=1, outcome="unknown", budget_kept=True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_ending_tells_the_message_the_budget_and_the_mailbox(database, service, outside, limiter, name):
    case = CASES[name]
    message = message_in(S.SENDING)
    outside.raises = case.error
    ending = service.send(message)
    after = reloaded(message)
    assert ending is (Ending.MAILBOX_PAUSED if case.rests else Ending.DONE)
    assert (after.status, after.attempts, after.deferrals) == (case.status, case.attempts, case.deferrals)
    assert after.waiting_for == case.waiting_for
    expected_error = str(case.error) if isinstance(case.error, MailError) else "Unexpected ZeroDivisionError"
    assert expected_error in after.last_error
    assert used(limiter) == int(case.budget_kept)
    assert limiter.usage({KEY: LIMITS})[KEY].in_flight.used == 0
    assert paused(limiter) == case.pause
    [entry] = after.history
    assert entry["outcome"] == case.outcome
    assert entry["at"] == START.isoformat()
    if isinstance(case.error, MailError):
        seen = (entry.get("status"), entry.get("code"), entry["request_id"], entry["client_request_id"])
        assert seen == (case.error.status, case.error.code, "req-1", "client-1")


def test_an_accepted_mail_is_sent_and_its_budget_used(database, service, outside, limiter, clock):
    message = message_in(S.SENDING, last_error="an earlier failure", waiting_for="minute")
    assert service.send(message) is Ending.DONE
    after = reloaded(message)
    assert (after.status, after.sent_on, after.attempts) == (S.SENT, START, 1)
    assert (after.last_error, after.waiting_for, after.lease_until) == (None, None, None)
    assert used(limiter) == 1
    assert [mail.id for mail in outside.sent] == [message.id]
    [entry] = after.history
    assert (entry["outcome"], entry["status"], entry["request_id"]) == ("accepted", 202, "req-1")


# --- our own budget: the flow of the design ------------------------------------------------------------------------


@pytest.mark.parametrize(("taken", "reason"), [((5, 1), "minute"), ((1, 50), "day")])
def test_without_budget_a_message_is_rescheduled_after_the_window_plus_its_spread(
    database, service, outside, limiter, taken, reason
):
    calls, recipients = taken
    for _ in range(calls):
        limiter.settle(limiter.check_and_reserve(KEY, recipients, LIMITS))
    denial = limiter.check_and_reserve(KEY, 1, LIMITS)
    message = message_in(S.SENDING)
    with structlog.testing.capture_logs() as logs:
        assert service.send(message) is Ending.MAILBOX_PAUSED
    after = reloaded(message)
    expected = START + timedelta(milliseconds=denial.retry_after_ms) + spread(message)
    assert (after.status, after.scheduled_on, after.requested_on) == (S.SCHEDULED, expected, message.requested_on)
    assert (after.attempts, after.deferrals, after.waiting_for, after.history) == (0, 1, reason, [])
    assert outside.sent == []
    assert logs == [
        {
            "event": "mail.rateLimit.deferred",
            "log_level": "info",
            "mailboxKey": KEY,
            "messageUuid": message.id,
            "reason": reason,
            "retryAfterMs": denial.retry_after_ms,
            "newScheduledOn": expected.isoformat(),
        }
    ]


def test_messages_denied_together_come_back_spread_over_half_a_minute(sqlite_database, service, outside):
    outside.raises = MailRateLimitExceededError(KEY, "minute", 1000)
    moments = set()
    for _ in range(40):
        message = message_in(S.SENDING)
        service.send(message)
        moments.add((reloaded(message).scheduled_on - START).total_seconds() - 1)
    assert len(moments) > 35
    assert 0 <= min(moments) < 8 and 22 < max(moments) < 30


def test_a_mail_larger_than_a_whole_day_fails_with_a_clear_error(database, service):
    message = message_in(S.SENDING)
    Recipient.delete().execute()
    Recipient.insert_many(
        {"message": message.id, "position": n, "kind": "to", "address": f"r{n}@example.org", "name": ""}
        for n in range(51)
    ).execute()
    service.send(message)
    after = reloaded(message)
    assert after.status == S.ERROR
    assert "51 recipients" in after.last_error and "50 in a whole day" in after.last_error


@pytest.mark.parametrize(
    ("error", "waiting_for", "rests", "seconds"),
    [
        (MailboxPausedError(KEY, "by a person", 60_000), "paused", True, 60),
        (MailboxBusyError(KEY, 400), "in-flight", False, 0.4),
        (MailboxBusyError(KEY, 60_000), "in-flight", False, 1),  # a place comes free long before a lost lease ends
    ],
)
def test_a_mailbox_that_rests_or_is_busy_costs_no_attempt(
    database, service, outside, error, waiting_for, rests, seconds
):
    message = message_in(S.SENDING)
    outside.raises = error
    assert service.send(message) is (Ending.MAILBOX_PAUSED if rests else Ending.DONE)
    after = reloaded(message)
    assert (after.status, after.attempts, after.deferrals, after.waiting_for) == (S.SCHEDULED, 0, 1, waiting_for)
    assert after.scheduled_on == START + timedelta(seconds=seconds) + spread(message)


# --- back-off, shared ----------------------------------------------------------------------------------------------


def test_a_throttle_seen_by_one_worker_stops_the_mailbox_for_all_and_later_ones_rest_longer(
    database, service, outside, limiter, clock, redis_client
):
    other = MailRateLimiter(redis_client, clock=clock)
    rests = []
    for _ in range(4):
        outside.raises = MailThrottledError("slow down", status=429)
        service.send(message_in(S.SENDING))
        assert other.check_and_reserve(KEY, 1, LIMITS).reason == "paused"
        rests.append(paused(limiter)[0])
        clock.advance(seconds=rests[-1])
    assert rests == [1, 2, 4, 8]
    outside.raises = None
    service.send(message_in(S.SENDING))
    outside.raises = MailThrottledError("slow down", status=429)
    service.send(message_in(S.SENDING))
    assert paused(limiter)[0] == 1


def test_calls_that_were_throttled_together_count_as_one(database, service, outside, limiter, monkeypatch):
    monkeypatch.setattr(outside, "mailer", lambda sender: outside)
    outside.raises = MailThrottledError("slow down", status=429)
    outside.raises.granted_ms = int(START.timestamp() * 1000)
    for _ in range(3):
        service.send(message_in(S.SENDING))
    assert paused(limiter)[0] == 1


def test_a_longer_wait_asked_for_wins_over_our_own_and_a_shorter_one_does_not(database, service, outside, limiter):
    outside.raises = MailThrottledError("slow down", status=429, retry_after=120)
    message = message_in(S.SENDING)
    service.send(message)
    assert paused(limiter)[0] == 120
    assert reloaded(message).scheduled_on == START + timedelta(minutes=2) + spread(message)


# --- attempts ------------------------------------------------------------------------------------------------------


def test_patience_grows_with_each_attempt_and_ends_when_they_are_used_up(database, service, outside, clock):
    outside.raises = MailTransientError("no connection")
    message = message_in(S.SENDING)
    waits = []
    for _ in range(2):
        service.send(message)
        waits.append((reloaded(message).scheduled_on - clock()).total_seconds())
        Message.update(status=S.SENDING.value).where(Message.id == message.id).execute()
        message = reloaded(message)
    assert 5 <= waits[0] < 6 and 10 <= waits[1] < 11
    service.send(message)
    after = reloaded(message)
    assert (after.status, after.attempts) == (S.ERROR, 3)
    assert after.last_error == "Gave up after 3 attempts; the last one: no connection"
    assert [entry["outcome"] for entry in after.history] == ["not-sent"] * 3


def test_deferrals_never_use_up_attempts(database, service, outside):
    outside.raises = MailRateLimitExceededError(KEY, "day", 1000)
    message = message_in(S.SENDING, deferrals=500, attempts=2)
    service.send(message)
    assert (reloaded(message).status, reloaded(message).deferrals) == (S.SCHEDULED, 501)


def test_many_rejected_in_a_row_make_the_mailbox_rest(sqlite_database, service, outside, limiter):
    outside.raises = MailRejectedError("no such recipient", status=400)
    endings = [service.send(message_in(S.SENDING)) for _ in range(REJECTED_IN_A_ROW)]
    assert endings == [Ending.DONE] * (REJECTED_IN_A_ROW - 1) + [Ending.MAILBOX_PAUSED]
    seconds, reason = paused(limiter)
    assert seconds == 300 and "no such recipient" in reason


def test_what_we_reject_ourselves_says_nothing_about_the_mailbox(sqlite_database, service, outside, limiter):
    outside.raises = MailRejectedError("too large")
    for _ in range(REJECTED_IN_A_ROW + 1):
        service.send(message_in(S.SENDING))
    assert paused(limiter) is None


# --- a send of many calls ---


def test_a_send_of_many_calls_keeps_its_claim_from_the_first_to_the_last(
    database, service, outside, clock, monkeypatch
):
    message = message_in(S.SENDING, lease_until=START + timedelta(minutes=2))
    leases = []

    def hold_and_look(mail):
        for _ in range(5):
            mail.hold(80)
            leases.append(reloaded(message).lease_until - clock())
            clock.advance(minutes=3)
        mail.hold(0)
        mail.permit.take()
        return Receipt(202, **IDS)

    monkeypatch.setattr(outside, "send", hold_and_look)
    assert service.send(message) is Ending.DONE
    assert reloaded(message).status == S.SENT
    assert leases == [timedelta(minutes=2, seconds=160)] * 5


def test_a_call_that_fits_the_lease_there_is_writes_nothing(database, service, outside, monkeypatch):
    def send(mail):
        mail.hold(30)
        mail.permit.take()
        return Receipt(202, **IDS)

    monkeypatch.setattr(outside, "send", send)
    message = message_in(S.SENDING, lease_until=START + timedelta(minutes=2))
    service.send(message)
    assert message.prolonged_on is None
    assert reloaded(message).status == S.SENT


def test_a_send_whose_claim_was_lost_between_two_calls_ends_and_is_left_to_others(
    database, service, outside, clock, monkeypatch, limiter
):
    message = message_in(S.SENDING, lease_until=START + timedelta(minutes=2))

    def lost(mail):
        mail.hold(100)
        Message.update(claim="another").where(Message.id == message.id).execute()
        clock.advance(minutes=5)
        mail.hold(100)
        raise AssertionError("it went on")

    monkeypatch.setattr(outside, "send", lost)
    assert service.send(message) is Ending.LOST
    assert (reloaded(message).status, reloaded(message).claim) == (S.SENDING, "another")
    usage = limiter.usage({KEY: LIMITS})[KEY]
    assert (usage.minute.used, usage.in_flight.used) == (0, 0)


def test_a_file_that_cannot_be_read_while_the_database_is_away_is_no_fault_of_the_sender(
    database, service, outside, limiter
):
    outside.raises, outside.begun = peewee.OperationalError("gone"), False
    assert service.send(message_in(S.SENDING)) is Ending.PUT_BACK
    assert limiter.usage({KEY: LIMITS})[KEY].paused_until_ms is None


# --- what is told --------------------------------------------------------------------------------------------------


def test_a_blocked_mailbox_is_named_in_one_warning(database, service, outside):
    outside.raises = MailboxUnavailableError("blocked", status=403, code="ErrorAccountSuspend")
    with structlog.testing.capture_logs() as logs:
        service.send(message_in(S.SENDING))
    assert logs == [
        {
            "event": "mail.mailbox.paused",
            "log_level": "warning",
            "mailboxKey": KEY,
            "reason": "blocked",
            "code": "ErrorAccountSuspend",
            "forMs": 300_000,
        }
    ]


def test_a_mail_that_needs_a_permission_nobody_gave_waits_alone(database, service, outside, limiter):
    outside.raises = MailboxNotWritableError("Mail.ReadWrite is missing for mails over 4 MB", status=403)
    message = message_in(S.SENDING)
    assert service.send(message) is Ending.DONE
    after = reloaded(message)
    assert (after.status, after.waiting_for, after.attempts) == (S.SCHEDULED, "mailbox-unavailable", 0)
    assert after.last_error == "Mail.ReadWrite is missing for mails over 4 MB"
    assert after.scheduled_on >= START + timedelta(minutes=5)
    usage = limiter.usage({KEY: LIMITS})[KEY]
    assert (usage.paused_until_ms, usage.minute.used, usage.in_flight.used) == (None, 0, 0)


def test_an_unknown_outcome_is_looked_into_soon_and_logged_with_what_support_asks_for(database, service, outside):
    outside.raises = MailOutcomeUnknownError("no answer", status=504, code="UnknownError", **IDS)
    message = message_in(S.SENDING)
    with structlog.testing.capture_logs() as logs:
        service.send(message)
    assert reloaded(message).lease_until == START + FIRST_LOOK
    [entry] = logs
    assert (entry["event"], entry["log_level"]) == ("mail.send.outcomeUnknown", "warning")
    assert (entry["messageUuid"], entry["status"], entry["requestId"]) == (message.id, 504, "req-1")


# --- directly before the request is written ------------------------------------------------------------------------


def test_a_fault_of_our_own_before_the_request_pauses_the_sender_and_burns_no_mail(database, service, outside, limiter):
    outside.begun = False
    outside.raises = TypeError("Expected a key, not Bearer SG.secret")
    message = message_in(S.SENDING, attempts=2)
    with structlog.testing.capture_logs() as logs:
        assert service.send(message) is Ending.MAILBOX_PAUSED
    after = reloaded(message)
    assert (after.status, after.attempts, after.deferrals, after.waiting_for) == (S.SCHEDULED, 2, 1, "fault")
    assert used(limiter) == limiter.usage({KEY: LIMITS})[KEY].in_flight.used == 0
    seconds, reason = paused(limiter)
    assert seconds == 60
    assert "TypeError" in reason and "before anything was sent" in reason
    assert "SG.secret" not in reason + after.last_error
    assert [entry["event"] for entry in logs] == ["mail.send.unexpected", "mail.mailbox.paused"]


@pytest.mark.parametrize("step", ["find", "contents_of"])
def test_a_fault_before_the_sender_is_known_leaves_the_mail_waiting(database, service, outside, monkeypatch, step):
    def broken(*_args):
        raise KeyError(step)

    monkeypatch.setattr(*((outside, "find") if step == "find" else ("rqmail.delivery.outcomes.contents_of",)), broken)
    message = message_in(S.SENDING, attempts=2)
    assert service.send(message) is Ending.DONE
    after = reloaded(message)
    assert (after.status, after.attempts, after.waiting_for) == (S.SCHEDULED, 2, "fault")
    assert after.scheduled_on >= START + timedelta(seconds=60)


def test_a_database_that_is_away_before_the_request_costs_the_message_nothing(database, service, outside, monkeypatch):
    def away(_name):
        raise peewee.OperationalError("server closed the connection")

    monkeypatch.setattr(outside, "find", away)
    message = message_in(S.SENDING)
    assert service.send(message) is Ending.PUT_BACK
    after = reloaded(message)
    assert (after.status, after.attempts, after.deferrals, after.history) == (S.SCHEDULED, 0, 0, [])


@pytest.mark.parametrize(
    ("waited", "ending", "status"),
    [(1.9, Ending.DONE, S.SENT), (149, Ending.DONE, S.SENT), (151, Ending.PUT_BACK, S.SCHEDULED)],
)
def test_after_half_its_lease_a_message_is_put_back_instead_of_being_sent(
    database, service, outside, limiter, clock, waited, ending, status
):
    message = message_in(S.SENDING)  # with a lease of five minutes
    clock.advance(seconds=waited)
    assert service.send(message) is ending
    assert reloaded(message).status == status
    sent = int(status == S.SENT)
    assert (reloaded(message).attempts, len(outside.sent), used(limiter)) == (sent, sent, sent)


def test_a_claim_that_another_has_by_now_is_seen_before_the_request_is_written(
    database, service, outside, limiter, clock
):
    message = message_in(S.SENDING)
    Message.update(claim="another", attempted_on=clock.advance(seconds=30)).where(Message.id == message.id).execute()
    before = row(message)
    assert service.send(message) is Ending.LOST
    assert row(message) == before
    assert outside.sent == []
    assert used(limiter) == 0


def test_a_clock_that_stepped_back_makes_the_claim_be_read_again(database, service, outside, clock):
    message = message_in(S.SENDING)
    Message.update(claim="another").where(Message.id == message.id).execute()
    clock.advance(seconds=-1)
    assert service.send(message) is Ending.LOST
    assert outside.sent == []


def test_a_claim_just_written_is_not_read_again_for_each_mail(sqlite_database, service):
    message = message_in(S.SENDING)
    with recorded() as statements:
        service.send(message)
    assert not [sql for sql, _ in statements if sql.startswith("SELECT 1")]


# --- rows that cannot be sent --------------------------------------------------------------------------------------


def test_mail_of_a_sender_that_is_gone_fails_and_says_so(database, service, outside):
    outside.known = False
    message = message_in(S.SENDING)
    assert service.send(message) is Ending.DONE
    assert reloaded(message).status == S.ERROR
    assert reloaded(message).last_error == "The sender is gone: mailbox 'news' does not exist."


@pytest.mark.parametrize("broken", ["content gone", "recipients gone", "a kind that is none"])
def test_a_message_that_was_half_deleted_or_edited_by_hand_fails_and_says_so(database, service, outside, broken):
    message = message_in(S.SENDING)
    match broken:
        case "content gone":
            MessageContent.delete().execute()
        case "recipients gone":
            Recipient.delete().execute()
        case "a kind that is none":
            Recipient.update(kind="xx").execute()
    assert service.send(message) is Ending.DONE
    assert reloaded(message).status == S.ERROR
    assert "changed by hand" in reloaded(message).last_error
    assert outside.sent == []


def test_a_sender_whose_secret_cannot_be_opened_rests_with_the_reason(database, service, outside, limiter, monkeypatch):
    def shut(sender: Sender) -> RateLimitedGraphMailer:
        raise SettingsError("RQMAIL_SECRET_KEY", "***", "the key the stored secrets were encrypted with")

    monkeypatch.setattr(outside, "mailer", shut)
    message = message_in(S.SENDING)
    assert service.send(message) is Ending.MAILBOX_PAUSED
    assert (reloaded(message).status, reloaded(message).waiting_for) == (S.SCHEDULED, "auth")
    assert "RQMAIL_SECRET_KEY" in paused(limiter)[1]


def test_an_outcome_for_a_message_that_is_no_longer_ours_is_not_written(database, service, outside):
    message = message_in(S.SENDING, claim="mine")
    Message.update(claim="another").where(Message.id == message.id).execute()
    before = row(message)
    outside.raises = MailRejectedError("bad address", status=400)
    assert service.send(message) is Ending.LOST
    assert row(message) == before


@pytest.mark.parametrize(
    ("method", "raises", "status"),
    [
        ("mark_sent", None, S.SENT),
        ("mark_unknown", MailOutcomeUnknownError("no answer"), S.UNKNOWN),
        ("mark_error", MailRejectedError("bad address", status=400), S.ERROR),
        ("defer", MailThrottledError("slow down", status=429), S.SCHEDULED),
        ("retry_at", MailTransientError("no connection"), S.SCHEDULED),
    ],
)
@pytest.mark.parametrize("lost", ["the statement", "its acknowledgement"])
def test_an_outcome_written_while_the_database_restarts_is_written_once(
    database, service, outside, monkeypatch, method, raises, status, lost
):
    outside.raises = raises
    message = message_in(S.SENDING)
    write = getattr(Message, method)
    tries = []

    def interrupted(self: Message, *args: object, **kwargs: object) -> bool:
        tries.append(method)
        if len(tries) > 1:
            return write(self, *args, **kwargs)
        if lost == "its acknowledgement":
            write(self, *args, **kwargs)
        raise peewee.OperationalError("terminating connection due to administrator command")

    monkeypatch.setattr(Message, method, interrupted)
    service.send(message)
    after = reloaded(message)
    assert len(tries) == 2
    assert (after.status, after.attempts + after.deferrals, len(after.history)) == (status, 1, 1)


def test_every_ending_is_counted(database, service, outside, counts):
    service.send(message_in(S.SENDING))
    for case in CASES.values():
        outside.raises = case.error
        outside.limiter.resume(KEY)
        service.send(message_in(S.SENDING))
    assert ("sent", KEY) in counts.counted
    labels = {label for event, label in counts.counted if event == "call"}
    assert labels == {"throttled", "transient", "rejected", "mailbox-unavailable", "auth", "unknown"}


def test_an_attempt_keeps_what_its_mailbox_kept_when_it_began(database, redis_client, clock):
    office = Office(redis_client, clock)
    kept, none = office.mailbox("kept"), office.mailbox("none", sent_items="none")
    assert office.senders.find(kept).route.copied
    route = office.senders.find(none).route
    assert not route.copied
    message = message_in(S.QUEUED, sender=none)
    Message.start_sending([message.id], claim="c", now=START, lease_until=START + timedelta(minutes=1), route=route)
    SystemMailbox.update(sent_items="keep").execute()
    assert reloaded(message).route == route


def test_a_message_whose_recipients_are_all_suppressed_meanwhile_ends_without_a_call(database, service, outside):
    message = message_in(S.SENDING)
    keep([Entry("reader0@example.org", INSTALLATION, Reason.HARD_BOUNCE, "a report", START)])
    assert service.send(message) is Ending.DONE
    after = reloaded(message)
    assert (after.status, outside.sent) == (S.ERROR, [])
    assert after.last_error.startswith(
        "Nothing was sent: every recipient is suppressed: reader0@example.org (hard-bounce"
    )


# --- a mailbox that can create no more named properties ---------------------------------------------------------------


NO_NAMES = NoNamedPropertyError("no more names", status=507, code="ErrorQuotaExceeded")


def test_a_mailbox_that_takes_no_property_is_remembered_and_the_mail_waits_for_its_next_turn(
    database, service, outside, limiter
):
    outside.raises = NO_NAMES
    message = message_in(S.SENDING)
    assert service.send(message) is Ending.PUT_BACK
    assert outside.unmarked == [KEY]
    assert (reloaded(message).status, reloaded(message).attempts, used(limiter)) == (S.SCHEDULED, 0, 0)
    assert paused(limiter) is None


def test_a_mail_to_a_mailbox_that_takes_no_property_is_found_by_its_message_id(database, service, outside):
    outside.marked = False
    message = message_in(S.SENDING, marked=False)
    service.send(message)
    assert [mail.internet_message_id for mail in outside.sent] == [f"<{message.id}@contoso.example>"]
    assert reloaded(message).route.marked is False


@pytest.mark.parametrize("headers", [True, False])
def test_a_name_that_is_lacking_for_a_mails_own_header_is_that_mails_fault_alone(
    database, service, outside, limiter, headers
):
    outside.marked, outside.raises = False, NO_NAMES
    message = message_in(S.SENDING, marked=False)
    if headers:
        MessageContent.update(extras='{"headers": [["X-Order", "7"]]}').execute()
    service.send(message)
    assert reloaded(message).status == (S.ERROR if headers else S.SCHEDULED)
    assert (paused(limiter) is None) is headers


def test_webhooks_are_told_of_a_pause_of_a_minute_or_more(database, service, outside, clock):
    Webhook.create(
        id="wh_1",
        url="https://x.example/",
        events="mailbox-paused",
        secret_encrypted="",
        created_on=START,
        created_by="sanne",
    )
    events.look_again()
    for problem, reasons in ((MailThrottledError("slow", status=429), 0), (MailboxUnavailableError("no mailbox"), 1)):
        outside.raises = problem
        service.send(message_in(MessageStatus.SENDING))
        assert WebhookDelivery.select().count() == reasons
        clock.advance(seconds=30)
    assert '"reason":"no mailbox","until":"2026-' in WebhookDelivery.get().payload
