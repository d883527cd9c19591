"""What happens to one message: it is sent, and however that ends is decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from rqmail.campaigns.rendering import contents_of
from rqmail.clock import Clock, monotonic
from rqmail.content_store import ContentStore
from rqmail.delivery.composing import UnreadableError, composed, with_links
from rqmail.delivery.leaving_out import Look, NobodyLeftError, without_suppressed
from rqmail.delivery.senders import Sender, Senders
from rqmail.errors import (
    InvalidInputError,
    MailAuthError,
    MailboxBusyError,
    MailboxNotWritableError,
    MailboxPausedError,
    MailboxUnavailableError,
    MailClaimLostError,
    MailError,
    MailOutcomeUnknownError,
    MailRateLimitExceededError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
    NoNamedPropertyError,
    NotFoundError,
)
from rqmail.logs import event_log
from rqmail.mailers.base import Mailer, Permit, Receipt
from rqmail.mailers.graph.upload import upload_volume
from rqmail.models import events
from rqmail.models.base import AWAY_ERRORS, retry_while_away
from rqmail.models.contents import Contents
from rqmail.models.message import Attempt, Message
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.spread import compute_spread_ms

log = event_log()

#: How long a mailbox is paused when the provider pushes back without saying how long: doubling from the first to the
#: second, in milliseconds.
THROTTLE_PAUSE = (1_000, 3_600_000)
UNAVAILABLE_PAUSE = (300_000, 3_600_000)
AUTH_PAUSE = (30_000, 300_000)
FAULT_PAUSE = (60_000, 3_600_000)

#: A pause that the provider's answers bring about is an event for webhooks from this length on.
_TOLD_PAUSE_MS = 60_000

#: A place in flight comes free with the next answer; the moment the limiter names is when a lost lease would end.
BUSY_WAIT_MS = 1_000

#: How many messages refused in a row pause a mailbox: Exchange throttles senders of many wrong ones (5.2.254).
REJECTED_IN_A_ROW = 20

#: A message certainly not sent is tried again after the first, doubling up to the second, plus the spread of its id.
RETRY_FIRST = timedelta(seconds=5)
RETRY_LONGEST = timedelta(hours=1)

#: Copies show up in Sent Items with a delay: looking earlier proves nothing.
FIRST_LOOK = timedelta(seconds=15)

#: A claim just written needs no second look; one that is older than this is read again before the request goes out.
_CLAIM_TRUSTED = timedelta(seconds=2)


class Ending(Enum):
    """How a send ended, as far as the lane that ran it must know."""

    DONE = "done"
    #: The mailbox cannot take anything now: whatever waits behind this message need not be tried.
    MAILBOX_PAUSED = "mailbox paused"
    #: The message was no longer ours; nothing was written.
    LOST = "lost"
    #: No request was begun: the message is back in the table as if it had never been claimed.
    PUT_BACK = "put back"


class Counter(Protocol):
    """Counts what happens, for metrics; never fails."""

    def count(self, event: str, label: str, seconds: float | None = None) -> None:
        """Count one ``event`` under ``label``; ``seconds`` is how long it took, where that matters."""
        ...

    def denied(self, mailbox_key: str, reason: str) -> None:
        """Count that the limiter denied a mailbox a place."""
        ...


@dataclass(frozen=True, slots=True)
class _Call:
    """One call to a provider, while its outcome is being written."""

    message: Message
    sender: Sender
    at: datetime
    seconds: float
    #: Whether the request was begun: before that nothing has left this machine, whatever went wrong.
    begun: bool

    def attempt(self, outcome: str, error: MailError | None = None, receipt: Receipt | None = None) -> Attempt:
        answer = error or receipt
        route = self.sender.route
        return Attempt(
            at=self.at.isoformat(),
            outcome=outcome,
            duration_ms=round(self.seconds * 1000),
            provider=route.provider,
            mailbox_key=route.mailbox_key,
            entra_tenant=route.entra_tenant,
            app_id=route.app_id,
            status=answer.status if answer else None,
            code=error.code if error else None,
            request_id=answer.request_id if answer else None,
            client_request_id=answer.client_request_id if answer else None,
            detail=str(error) if error else None,
        )


class MailProviderService:
    """Sends one message and writes what became of it; no exception leaves it but a lost database's.

    ``lease`` is how long a message is left alone by recovery from when its send begins; ``unsubscribe_headers`` answers
    those by which a message's one recipient may unsubscribe.
    """

    def __init__(
        self,
        senders: Senders,
        limiter: MailRateLimiter,
        clock: Clock,
        counter: Counter,
        *,
        max_attempts: int,
        contents: ContentStore | None = None,
        unsubscribe_headers: Callable[[Message, str], dict[str, str]] = lambda _message, _address: {},
        lease: timedelta = timedelta(minutes=2),
    ) -> None:
        self._lease = lease
        self._contents = contents or ContentStore(clock)
        self._unsubscribe_headers = unsubscribe_headers
        self._senders = senders
        self._limiter = limiter
        self._clock = clock
        self._counter = counter
        self._max_attempts = max_attempts

    def send(self, message: Message, contents: Contents | None = None, looked: Look | None = None) -> Ending:
        """Send a message that is SENDING under the caller's claim, and write its outcome.

        ``contents`` are its bodies and recipients where the caller has them already, ``looked`` what the caller saw to
        stand against them.
        """
        at = self._clock()
        began = monotonic()
        permit = Permit(lambda: self._check_claim(message), holds=[lambda seconds: self._hold(message, seconds)])
        try:
            sender = self._senders.find(message.sender)
            known = contents or contents_of([message.id]).get(message.id)
            known = without_suppressed(message, known, at, looked)
            mail = composed(message, known, permit, self._contents)
            if known is not None and known.extras.unsubscribe:
                links = self._unsubscribe_headers(message, known.recipients[0].address)
                mail = with_links(mail, links)
            if sender.limits is not None:
                external = sender.shared.external_of(mail.addresses) if sender.shared.scopes else None
                message.will_take(upload_volume(mail), external)
        except NotFoundError as missing:
            return self._written(message.mark_error, f"The sender is gone: {missing}.", now=self._clock())
        except (UnreadableError, NobodyLeftError) as unsendable:
            return self._written(message.mark_error, str(unsendable), now=self._clock())
        except AWAY_ERRORS:
            return self._put_back(message)
        except Exception as fault:
            log.exception("mail.send.unexpected", messageUuid=message.id, begun=False)
            moment = self._later(message, FAULT_PAUSE[0])
            return self._written(message.defer, moment, waiting_for="fault", error=_fault(fault), now=self._clock())
        if message.route != sender.route:
            # The sender was edited since the claim was written: a mail goes through what its row says, or not yet.
            return self._put_back(message)
        try:
            receipt = self._mailer(sender).send(mail)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the message needs an outcome
            call = _Call(message, sender, at, monotonic() - began, permit.taken)
            if isinstance(problem, NoNamedPropertyError):
                return self._without_names(call, problem, has_headers=bool(mail.headers))
            return self._ended_badly(call, problem)
        return self._accepted(_Call(message, sender, at, monotonic() - began, permit.taken), receipt)

    def _check_claim(self, message: Message) -> None:
        """Raise, directly before the request is written, if it may not be.

        While a place in flight or a token was waited for, the machine may have slept past the lease: recovery has found
        the message then, and another worker may have it.
        """
        age = self._clock() - (message.attempted_on or message.created_on)
        try:
            ours = timedelta() <= age < _CLAIM_TRUSTED or message.is_claimed()
        except AWAY_ERRORS as away:
            raise MailClaimLostError("The claim on the message could not be read. Nothing was sent.") from away
        if not (ours and message.may_begin(self._clock())):
            raise MailClaimLostError("The claim on the message is too old, or another's. Nothing was sent.")

    def _hold(self, message: Message, seconds: float) -> None:
        """Keep the claim through a call that may take ``seconds`` more than a small one; raises when it is lost.

        The lease is written anew when less than half of it would be left beside those seconds, or half of it is over: a
        request may be begun in its first half only.
        """
        now, until = self._clock(), message.lease_until
        enough = until is not None and until - now >= self._lease / 2 + timedelta(seconds=seconds)
        if enough and message.may_begin(now):
            return
        try:
            ours = message.prolong(now, now + self._lease + timedelta(seconds=2 * seconds))
        except AWAY_ERRORS as away:
            raise MailClaimLostError("The claim on the message could not be prolonged. Nothing was sent.") from away
        if not ours:
            raise MailClaimLostError("The claim on the message is another's by now. Nothing was sent.")

    # --- the endings, each in one place --------------------------------------------------------------------------

    def _accepted(self, call: _Call, receipt: Receipt) -> Ending:
        self._counter.count("sent", call.sender.budget_key, call.seconds)
        return self._written(call.message.mark_sent, self._clock(), call.attempt("accepted", receipt=receipt))

    def _ended_badly(self, call: _Call, problem: Exception) -> Ending:
        match problem:
            case MailRateLimitExceededError():
                return self._over_budget(call, problem)
            case MailboxPausedError():
                self._counter.denied(call.sender.budget_key, "paused")
                return self._deferred(call, problem.retry_after_ms, waiting_for="paused", paused=True)
            case MailboxBusyError():
                self._counter.denied(call.sender.budget_key, "in-flight")
                wait_ms = min(problem.retry_after_ms, BUSY_WAIT_MS)
                return self._deferred(call, wait_ms, waiting_for="in-flight", paused=False)
            case MailThrottledError():
                return self._throttled(call, problem)
            case MailTransientError():
                return self._not_sent(call, problem)
            case MailRejectedError():
                return self._rejected(call, problem)
            case MailboxNotWritableError():
                self._counter.count("call", "mailbox-unavailable", call.seconds)
                wait_ms = UNAVAILABLE_PAUSE[0]
                return self._deferred(call, wait_ms, waiting_for="mailbox-unavailable", paused=False, error=problem)
            case MailboxUnavailableError():
                return self._unavailable(call, problem, UNAVAILABLE_PAUSE, "mailbox-unavailable")
            case MailAuthError():
                return self._unavailable(call, problem, AUTH_PAUSE, "auth")
            case MailClaimLostError():
                return self._put_back(call.message)
            case MailOutcomeUnknownError():
                return self._unknown(call, problem)
            case _:
                return self._unforeseen(call, problem)

    def _over_budget(self, call: _Call, denial: MailRateLimitExceededError) -> Ending:
        """Our own budget has no room: wait until it has, spread out so that not all come back in one instant.

        Where only the external recipients of several mailboxes are too many, mail to internal ones still goes.
        """
        message, shared = call.message, denial.scope != "mailbox"
        why = denial.scope if shared else denial.reason
        scheduled_on = self._later(message, denial.retry_after_ms)
        ending = self._written(message.defer, scheduled_on, waiting_for=why, now=self._clock())
        self._counter.denied(call.sender.budget_key, why)
        self._counter.count("deferred", why)
        log.info(
            "mail.rateLimit.deferred",
            mailboxKey=denial.mailbox_key,
            messageUuid=message.id,
            reason=denial.reason,
            retryAfterMs=denial.retry_after_ms,
            newScheduledOn=scheduled_on.isoformat(),
            **({"scope": denial.scope} if shared else {}),
        )
        return Ending.MAILBOX_PAUSED if ending is Ending.DONE and not shared else ending

    def _throttled(self, call: _Call, error: MailThrottledError) -> Ending:
        """The provider asks to slow down: the mailbox is paused for every worker, longer each time in a row."""
        reason = f"throttled by the provider ({error.code or error.status})"
        pause_ms = self._limiter.back_off(
            call.sender.budget_key, *THROTTLE_PAUSE, reason, error.granted_ms, cause="throttled"
        )
        asked_ms = round((error.retry_after or 0) * 1000)
        if asked_ms > pause_ms:
            self._limiter.pause(call.sender.budget_key, asked_ms, reason, cause="throttled")
            pause_ms = asked_ms
        self._counter.count("call", "throttled", call.seconds)
        self._tell_of_pause(call, reason, pause_ms)
        return self._deferred(call, pause_ms, waiting_for="throttled", paused=True, error=error)

    def _unavailable(self, call: _Call, error: MailError, pause: tuple[int, int], why: str) -> Ending:
        """The mailbox, or our way in, is broken: it is paused with the reason, and one message at a time probes it."""
        pause_ms = self._limiter.back_off(
            call.sender.budget_key, *pause, str(error), error.granted_ms, cause=error.pause_cause
        )
        self._counter.count("call", why, call.seconds)
        log.warning(
            "mail.mailbox.paused",
            mailboxKey=call.sender.budget_key,
            reason=str(error),
            code=error.code,
            forMs=pause_ms,
        )
        self._tell_of_pause(call, str(error), pause_ms)
        return self._deferred(call, pause_ms, waiting_for=why, paused=True, error=error)

    def _without_names(self, call: _Call, error: NoNamedPropertyError, *, has_headers: bool) -> Ending:
        """The mailbox takes no property of ours: that is remembered, and the mail goes without at its next turn."""
        if call.sender.marked:
            retry_while_away(lambda: self._senders.go_unmarked(call.sender))
            log.warning("mail.mailbox.noNamedProperties", mailboxKey=call.sender.budget_key)
            return self._put_back(call.message)
        if not has_headers:
            return self._unavailable(call, error, UNAVAILABLE_PAUSE, "mailbox-unavailable")
        # It is this mail's own headers that there are no more names for.
        text = f"{error}. A header that the mailbox has not had before cannot be given to its mail any more"
        return self._rejected(call, MailRejectedError(text, status=error.status, code=error.code))

    def _not_sent(self, call: _Call, error: MailTransientError) -> Ending:
        """Certainly not sent, and likely to work soon: a counted attempt, then growing patience."""
        message = call.message
        self._counter.count("call", "transient", call.seconds)
        attempt = call.attempt("not-sent", error)
        if message.attempts + 1 >= self._max_attempts:
            self._counter.count("failed", "gave-up")
            error_text = f"Gave up after {message.attempts + 1} attempts; the last one: {error}"
            return self._written(message.mark_error, error_text, attempt, now=self._clock())
        wait = min(RETRY_FIRST * 2**message.attempts, RETRY_LONGEST)
        jitter = timedelta(milliseconds=compute_spread_ms(f"{message.id}{message.attempts}")) * (wait / RETRY_LONGEST)
        moment = self._clock() + wait + jitter
        self._counter.count("deferred", "retry")
        return self._written(message.retry_at, moment, error=str(error), attempt=attempt)

    def _rejected(self, call: _Call, error: MailRejectedError) -> Ending:
        """The message will never be taken; many of them in a row pause the mailbox."""
        self._counter.count("call", "rejected", call.seconds)
        self._counter.count("failed", "rejected")
        ending = self._written(call.message.mark_error, str(error), call.attempt("rejected", error), now=self._clock())
        if error.status is not None and self._limiter.count_rejection(call.sender.budget_key) >= REJECTED_IN_A_ROW:
            reason = f"{REJECTED_IN_A_ROW} messages in a row were rejected; the last one: {error}"
            pause_ms = self._limiter.back_off(call.sender.budget_key, *UNAVAILABLE_PAUSE, reason, cause="rejecting")
            self._tell_of_pause(call, reason, pause_ms)
            return Ending.MAILBOX_PAUSED
        return ending

    def _unknown(self, call: _Call, error: MailOutcomeUnknownError) -> Ending:
        """The provider may have accepted it: it must not be sent again until that is known."""
        self._counter.count("call", "unknown", call.seconds)
        log.warning(
            "mail.send.outcomeUnknown",
            mailboxKey=call.sender.budget_key,
            messageUuid=call.message.id,
            code=error.code,
            status=error.status,
            requestId=error.request_id,
        )
        return self._written(
            call.message.mark_unknown,
            call.attempt("unknown", error),
            look_at=self._clock() + FIRST_LOOK,
            error=str(error),
        )

    def _unforeseen(self, call: _Call, problem: Exception) -> Ending:
        """A fault of our own: after the request was begun nobody knows, before it the sender is paused."""
        if isinstance(problem, AWAY_ERRORS) and not call.begun:  # a file could not be read while the database was away
            return self._put_back(call.message)
        log.error("mail.send.unexpected", messageUuid=call.message.id, begun=call.begun, exc_info=problem)
        if call.begun:
            return self._unknown(call, MailOutcomeUnknownError(f"Unexpected {type(problem).__name__} while sending"))
        fault = MailError(_fault(problem))
        fault.pause_cause = "fault"
        return self._unavailable(call, fault, FAULT_PAUSE, "fault")

    # --- what they share -----------------------------------------------------------------------------------------

    def _tell_of_pause(self, call: _Call, reason: str, pause_ms: int) -> None:
        """Tell webhooks of a pause that is long enough to matter to a person; a lost event loses no mail."""
        if pause_ms < _TOLD_PAUSE_MS:
            return
        now = self._clock()
        try:
            events.tell_of_pause(call.message.sender, reason, now + timedelta(milliseconds=pause_ms), now)
        except AWAY_ERRORS:
            log.warning("mail.webhook.pauseNotTold", mailboxKey=call.sender.budget_key)

    def _mailer(self, sender: Sender) -> Mailer:
        """Answer the sender's mailer; a sender without a valid setting is not authorised, and nothing has been sent."""
        try:
            return self._senders.mailer(sender)
        except InvalidInputError as misconfigured:
            raise MailAuthError(str(misconfigured)) from misconfigured

    def _deferred(
        self, call: _Call, wait_ms: int, *, waiting_for: str, paused: bool, error: MailError | None = None
    ) -> Ending:
        self._counter.count("deferred", waiting_for)
        ending = self._written(
            call.message.defer,
            self._later(call.message, wait_ms),
            waiting_for=waiting_for,
            error=None if error is None else str(error),
            attempt=None if error is None else call.attempt(waiting_for, error),
            now=self._clock(),
        )
        return Ending.MAILBOX_PAUSED if paused and ending is Ending.DONE else ending

    def _later(self, message: Message, wait_ms: int) -> datetime:
        return self._clock() + timedelta(milliseconds=wait_ms + compute_spread_ms(message.id))

    @staticmethod
    def _put_back(message: Message) -> Ending:
        """Nothing was sent: the message waits as if it had never been claimed, unless another has it by now."""
        back = retry_while_away(lambda: Message.put_back_unsent([message.id], message.claim or ""))
        return Ending.PUT_BACK if back else Ending.LOST

    @staticmethod
    def _written(write: Callable[..., bool], *args: object, **kwargs: object) -> Ending:
        """Write the outcome, however long the database takes to come back: by now the mail may be out."""
        return Ending.DONE if retry_while_away(lambda: write(*args, **kwargs)) else Ending.LOST


def reported(code: str) -> str:
    """Say in a message's history that a non-delivery report proves its acceptance."""
    return f"A non-delivery report ({code}) tells of it: it was accepted."


#: In a message's history: the trace proves its acceptance.
TRACED = "Found in the tenant's message trace."


def settle_accepted(message: Message, evidence: str, now: datetime) -> bool:
    """Settle an UNKNOWN message of which something proves that it was accepted; answer whether it still was UNKNOWN."""
    is_settled = message.confirm_sent(now, evidence)
    if is_settled:
        log.info("mail.send.acceptanceProven", messageUuid=message.id, evidence=evidence)
    return is_settled


def _fault(problem: Exception) -> str:
    """Say what happened without the exception's own text, which may quote what was handed in."""
    return f"A fault of rqmail's own ({type(problem).__name__}) before anything was sent; the log has the details"
