"""Moves by which a send ends: sent, unclear, failed, tried again, deferred; or it was never to be begun."""

from __future__ import annotations

from datetime import datetime, timedelta

from rqmail.models.base import db, to_column
from rqmail.models.history import Attempt, Event, event, iso
from rqmail.models.row import MessageRow, these
from rqmail.models.states import MessageStatus

_S = MessageStatus


class ResultMoves(MessageRow):
    """SENDING → what came of it, each under the claim that the send belongs to; and the end of what has expired."""

    def mark_sent(self, now: datetime, attempt: Attempt) -> bool:
        """The provider accepted it: wherever the message is by now, it is SENT, unless a newer send has begun."""
        return self._settle(
            _S.SENT,
            attempt,
            counts="attempts",
            sent_on=now,
            ended_on=now,
            job_id=None,
            last_error=None,
            waiting_for=None,
        )

    def mark_unknown(self, attempt: Attempt, *, look_at: datetime, error: str) -> bool:
        """The provider may have accepted it; recovery looks for it from ``look_at`` on."""
        return self._settle(
            _S.UNKNOWN,
            attempt,
            counts="attempts",
            from_={_S.SENDING},
            lease_until=look_at,
            last_error=error,
            waiting_for=None,
        )

    def mark_error(self, error: str, attempt: Attempt | None = None, *, now: datetime | None = None) -> bool:
        """It can never be sent, or attempts are used up; ``error`` says why in words a person can act on."""
        return self._settle(
            _S.ERROR,
            attempt,
            counts="attempts",
            from_={_S.SENDING},
            last_error=error,
            waiting_for=None,
            ended_on=now,
        )

    def retry_at(self, moment: datetime, *, error: str, attempt: Attempt) -> bool:
        """It was certainly not sent: wait until ``moment``; this counted as an attempt."""
        return self._settle(
            _S.SCHEDULED,
            attempt,
            counts="attempts",
            from_={_S.SENDING},
            scheduled_on=moment,
            last_error=error,
            waiting_for="retry",
        )

    def defer(
        self,
        moment: datetime,
        *,
        waiting_for: str,
        error: str | None = None,
        attempt: Attempt | None = None,
        now: datetime | None = None,
    ) -> bool:
        """It cannot go now: wait until ``moment``; this counts as a deferral, never as an attempt.

        The history tells the wait once, however often it is deferred for the same reason.
        """
        wait = None if now is None else Event(now, "waited", waiting_for=waiting_for, until=moment)
        return self._settle(
            _S.SCHEDULED,
            attempt or wait,
            counts="deferrals",
            from_={_S.SENDING},
            scheduled_on=moment,
            waiting_for=waiting_for,
            last_error=error,
        )

    @classmethod
    def expire(cls, message_id: str, now: datetime | None = None) -> bool:
        """Its ``expires_on`` has passed before it could be sent."""
        changes = {"job_id": None, "lease_until": None, "waiting_for": None, "ended_on": now}
        return bool(cls._enter(_S.EXPIRED, *these([message_id]), log=event(now, "expired"), **changes))  # type: ignore[arg-type]

    @classmethod
    def give_up_expired(cls, now: datetime) -> list[str]:
        """Move SCHEDULED messages whose ``expires_on`` has passed to EXPIRED."""
        passed = f"status = 'SCHEDULED' AND expires_on IS NOT NULL AND expires_on <= {db.param}"  # the partial index
        expired = Event(now, "expired")
        return cls._enter(_S.EXPIRED, passed, [to_column(now)], from_={_S.SCHEDULED}, log=expired, ended_on=now)

    def lose_lease(self, now: datetime, *, look_at: datetime) -> bool:
        """Move a SENDING message whose worker is gone to UNKNOWN: the request may have left the machine."""
        began = self.attempted_on or now
        attempt = Attempt(
            at=iso(began),
            outcome="worker-lost",
            duration_ms=max(0, (now - began) // timedelta(milliseconds=1)),
            provider=self.provider,
            mailbox_key=self.mailbox_key,
            entra_tenant=self.entra_tenant,
            app_id=self.app_id,
            detail="The worker stopped while the message was being sent.",
        )
        return bool(
            self._enter(
                _S.UNKNOWN,
                *self._as_claimed(),
                from_={_S.SENDING},
                log=attempt,
                counts="attempts",
                lease_until=look_at,
                last_error="The worker stopped while the message was being sent; it may or may not have been accepted.",
            )
        )
