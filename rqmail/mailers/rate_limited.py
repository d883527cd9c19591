"""A Graph mailer that asks for budget first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never

from rqmail.clock import monotonic
from rqmail.errors import (
    MailboxBusyError,
    MailboxPausedError,
    MailError,
    MailOutcomeUnknownError,
    MailRateLimitExceededError,
    MailRejectedError,
)
from rqmail.mailers.base import Mail, Mailer, Receipt
from rqmail.mailers.graph.upload import upload_volume
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.limits import mailbox_key as normal_key
from rqmail.ratelimit.scopes import NOTHING_SHARED, ScopeName, SharedBudgets

#: How often a waiting mail looks for a free place in flight. A busy lane takes its place again a few milliseconds after
#: it freed it: whoever looks seldom never finds it free.
_LOOK_AGAIN_SECONDS = 0.01


#: Whose day a scope is.
_SENDERS: dict[ScopeName, str] = {
    "mailbox": "the mailbox",
    "tenant": "its whole Entra tenant",
    "onmicrosoft": "all senders on onmicrosoft.com of its Entra tenant",
}


class _Place:
    """A place in flight that is kept for as long as its mail's calls last."""

    def __init__(self, limiter: MailRateLimiter, reservation: Reservation, clock: Callable[[], float]) -> None:
        self._limiter = limiter
        self._reservation = reservation
        self._clock = clock
        self._until = clock() + limiter.lease_seconds

    def hold(self, seconds: float) -> None:
        """Keep it through a call that may take ``seconds`` more than a small one.

        As with the message's own lease: written anew when less than half of it would be left beside those seconds.
        """
        lease, now = self._limiter.lease_seconds, self._clock()
        if self._until - now < lease / 2 + seconds:
            self._limiter.extend(self._reservation, seconds=2 * seconds)
            self._until = now + lease + 2 * seconds


class RateLimitedGraphMailer:
    """Reserves budget for a mail; only then does the wrapped mailer send it.

    What was reserved is given back only when the mail was certainly not sent: a certain failure, or whatever happens
    before the request was begun. After anything else (an unclear outcome, an exception nobody foresaw, a job that ran
    out of time) it stays used, and just the place in flight is freed. While a long upload runs, its place is extended.
    With all places in flight taken, ``send`` waits up to ``busy_wait_seconds`` before it raises ``MailboxBusyError``.
    """

    def __init__(
        self,
        inner: Mailer,
        limiter: MailRateLimiter,
        mailbox_key: str,
        limits: RateLimits,
        *,
        shared: SharedBudgets = NOTHING_SHARED,
        busy_wait_seconds: float = 2.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._inner = inner
        self._limiter = limiter
        self._mailbox_key = normal_key(mailbox_key)
        self._limits = limits
        self._shared = shared
        self._busy_wait_seconds = busy_wait_seconds
        self._sleep = sleep
        self._clock = clock

    @property
    def mailbox_key(self) -> str:
        """The mailbox whose budget is used: the full address, trimmed and in lower case."""
        return self._mailbox_key

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` within budget; without room raises the error that says when to ask again."""
        reservation = self._reserve(mail)
        if mail.permit is not None:
            mail.permit.holds.append(_Place(self._limiter, reservation, self._clock).hold)
        try:
            receipt = self._inner.send(mail)
        except MailOutcomeUnknownError:
            self._limiter.settle(reservation, accepted=False)
            raise
        except MailError as error:
            error.granted_ms = reservation.granted_ms if reservation.counted else None
            self._limiter.release(reservation)
            raise
        except BaseException:
            if mail.permit is not None and not mail.permit.taken:
                self._limiter.release(reservation)
            else:
                self._limiter.settle(reservation, accepted=False)
            raise
        self._limiter.settle(reservation)
        return receipt

    def _reserve(self, mail: Mail) -> Reservation:
        recipients, uploads = mail.recipient_count, upload_volume(mail)
        external = self._shared.external_of(mail.addresses)
        waited = 0.0
        while True:
            answer = self._limiter.check_and_reserve(
                self._mailbox_key,
                recipients,
                self._limits,
                mail.attempt,
                upload_bytes=uploads,
                external_count=external,
                scopes=self._shared.scopes,
            )
            if not isinstance(answer, Denial):
                return answer
            if answer.reason != "in_flight" or waited >= self._busy_wait_seconds:
                raise self._refusal(answer, recipients, external)
            wait = min(_LOOK_AGAIN_SECONDS, self._busy_wait_seconds - waited)
            self._sleep(wait)
            waited += wait

    def _refusal(self, denial: Denial, recipient_count: int, external_count: int) -> MailError:
        for scope in self._shared.scopes if denial.never else ():
            if scope.name == denial.scope:
                return MailRejectedError(
                    f"The mail has {external_count:,} external recipients; {_SENDERS[scope.name]} may address "
                    f"{scope.external_per_day:,} in a whole day, so it can never be sent as one mail"
                )
        if denial.never:
            return MailRejectedError(
                f"The mail has {recipient_count:,} recipients; {self._mailbox_key} may address "
                f"{self._limits.recipients_per_day:,} in a whole day, so it can never be sent as one mail"
            )
        match denial.reason:
            case "minute" | "day" | "upload":
                return MailRateLimitExceededError(self._mailbox_key, denial.reason, denial.retry_after_ms, denial.scope)
            case "paused":
                return MailboxPausedError(self._mailbox_key, denial.pause_reason or "paused", denial.retry_after_ms)
            case "in_flight":
                return MailboxBusyError(self._mailbox_key, denial.retry_after_ms)
        assert_never(denial.reason)
