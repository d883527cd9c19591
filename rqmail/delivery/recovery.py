"""What was lost on the way: found by its lease, and brought to where the truth about it can be told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, assert_never

import structlog

from rqmail.clock import Clock, monotonic
from rqmail.delivery.outcomes import FIRST_LOOK
from rqmail.delivery.senders import Senders
from rqmail.errors import MailboxNotReadableError, MailError, NotFoundError
from rqmail.models.backlog import overdue
from rqmail.models.base import AWAY_ERRORS, borrowed
from rqmail.models.message import Message, MessageStatus
from rqmail.queues import MailQueues

log = structlog.get_logger()

UnknownPolicy = Literal["hold", "resend", "assume-sent"]

#: Rows of one kind looked at in one pass.
_AT_MOST = 500

#: A pass begins no look into a mailbox later than this: ticks must not wait long behind it.
_LOOK_FOR_SECONDS = 15.0

#: A queued message whose job is alive is looked at again after this time.
_JOB_ALIVE = timedelta(seconds=10)

#: Between two looks for the same message; and when looking is not allowed or not possible now.
_LOOK_AGAIN = timedelta(seconds=30)
_CANNOT_LOOK_NOW = timedelta(minutes=2)
_NOT_READABLE = timedelta(hours=1)

#: A mail carries an id that no other ever has, so a copy proves an acceptance whenever it was made: this only has to be
#: wider than the server's clock and ours can ever differ.
_CLOCKS_DIFFER = timedelta(days=1)

NOT_READABLE_NOTE = (
    "It is unknown whether this was sent, and the app may not read the mailbox to find out (Mail.Read is missing)."
    " Confirm, resend or discard it."
)


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What one pass did: messages put back, expired, found without their worker, and unknown ones settled."""

    put_back: int = 0
    expired: int = 0
    worker_lost: int = 0
    found_sent: int = 0
    sent_again: int = 0
    gave_up: int = 0
    still_unknown: int = 0


@dataclass(slots=True)
class _Looks:
    """One pass over UNKNOWN messages: how they ended, and into which senders' mailboxes it is no use to look again."""

    ends_at: float
    found: int = 0
    again: int = 0
    gave_up: int = 0
    unknown: int = 0
    away: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)


class Recovery:
    """Finds what was lost on the way and moves it on; one pass is harmless beside another."""

    def __init__(
        self,
        senders: Senders,
        queues: MailQueues,
        clock: Clock,
        *,
        unknown_policy: UnknownPolicy,
        grace: timedelta,
        max_attempts: int,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._senders = senders
        self._queues = queues
        self._clock = clock
        self._unknown_policy = unknown_policy
        self._grace = grace
        self._max_attempts = max_attempts
        self._monotonic = monotonic

    def run(self) -> RecoveryReport:
        """Make one pass over everything whose lease is over."""
        now = self._clock()
        put_back = self._vanished_jobs(now)
        expired = len(Message.give_up_expired(now))
        worker_lost = self._lost_workers(now)
        looks = self._unknown(now)
        report = RecoveryReport(put_back, expired, worker_lost, looks.found, looks.again, looks.gave_up, looks.unknown)
        if report != RecoveryReport():
            log.info("mail.recovery.pass", **{name: getattr(report, name) for name in report.__slots__})
        return report

    def _vanished_jobs(self, now: datetime) -> int:
        """Put back QUEUED messages whose job is gone: flushed, failed, or never pushed."""
        by_job: defaultdict[str, list[str]] = defaultdict(list)
        for message in overdue(MessageStatus.QUEUED, now, limit=_AT_MOST):
            by_job[message.job_id or ""].append(message.id)
        alive = self._queues.alive(job_id for job_id in by_job if job_id)
        put_back = 0
        with borrowed():
            for job_id, ids in by_job.items():
                if job_id in alive:
                    Message.leave_queued(ids, until=now + _JOB_ALIVE)
                else:
                    put_back += len(Message.put_back(ids, job_id or None))
        return put_back

    def _lost_workers(self, now: datetime) -> int:
        """A worker stopped in the middle of a send: whether the request left the machine is not known."""
        lost = 0
        with borrowed():
            for message in overdue(MessageStatus.SENDING, now, limit=_AT_MOST):
                lost += message.lose_lease(now, look_at=now + FIRST_LOOK)
        return lost

    def _unknown(self, now: datetime) -> _Looks:
        looks = _Looks(self._monotonic() + _LOOK_FOR_SECONDS)
        for message in overdue(MessageStatus.UNKNOWN, now, limit=_AT_MOST):
            if self._monotonic() > looks.ends_at:
                break
            try:
                self._look_for(message, now, looks)
            except MailError as problem:
                # Whatever keeps us from looking (a throttle, no token) says nothing about the message.
                log.info("mail.recovery.cannotLook", messageUuid=message.id, err=type(problem).__name__)
                looks.away.add(message.sender)
                self._look_later(message, now + _CANNOT_LOOK_NOW, looks)
            except AWAY_ERRORS:
                raise
            except Exception:
                log.exception("mail.recovery.failed", messageUuid=message.id)
                self._look_later(message, now + _CANNOT_LOOK_NOW, looks)
        return looks

    def _look_for(self, message: Message, now: datetime, looks: _Looks) -> None:
        """Look for one UNKNOWN message where its mailbox keeps what it sent."""
        if message.sender in looks.away:
            return self._look_later(message, now + _CANNOT_LOOK_NOW, looks)
        if message.sender in looks.unreadable:
            return self._by_policy(message, now, looks)
        try:
            mailbox = self._senders.mailbox(self._senders.find(message.sender))
        except NotFoundError:
            mailbox = None
        if mailbox is None:
            return self._by_policy(message, now, looks)
        try:
            sighting = mailbox.find_sent(message.id, message.created_on - _CLOCKS_DIFFER)
        except MailboxNotReadableError:
            return self._by_policy(message, now, looks)
        if sighting is not None:
            return self._found(message, now, f"Found in {sighting.folder}.", looks)
        if now - message.unclear_since < self._grace:
            return self._look_later(message, now + _LOOK_AGAIN, looks)
        absent = "Not in Sent Items, Drafts or Outbox after the grace period."
        if message.attempts >= self._max_attempts:
            return self._gave_up(message, now, absent, looks)
        return self._again(message, now, absent, looks)

    def _by_policy(self, message: Message, now: datetime, looks: _Looks) -> None:
        """Nobody can look: do what the operator chose for this case."""
        said = NOT_READABLE_NOTE in (message.last_error or "")
        if not said and message.sender not in looks.unreadable:
            log.warning("mail.recovery.notReadable", mailboxKey=message.mailbox_key, policy=self._unknown_policy)
        looks.unreadable.add(message.sender)
        note = None if said else f"{message.last_error or ''} {NOT_READABLE_NOTE}".strip()
        if now - message.unclear_since < self._grace:
            return self._look_later(message, now + _LOOK_AGAIN, looks, note)
        policy = self._unknown_policy
        if policy == "resend" and message.attempts >= self._max_attempts:
            policy = "hold"
        match policy:
            case "hold":
                return self._look_later(message, now + _NOT_READABLE, looks, note)
            case "resend":
                return self._again(message, now, "Sent again by RQMAIL_UNKNOWN_POLICY=resend.", looks)
            case "assume-sent":
                return self._found(message, now, "Taken for sent by RQMAIL_UNKNOWN_POLICY=assume-sent.", looks)
        assert_never(policy)

    @staticmethod
    def _found(message: Message, now: datetime, note: str, looks: _Looks) -> None:
        looks.found += message.confirm_sent(now, note)

    @staticmethod
    def _again(message: Message, now: datetime, note: str, looks: _Looks) -> None:
        looks.again += message.send_again(now, note)

    @staticmethod
    def _gave_up(message: Message, now: datetime, note: str, looks: _Looks) -> None:
        looks.gave_up += message.give_up(now, note)

    @staticmethod
    def _look_later(message: Message, moment: datetime, looks: _Looks, note: str | None = None) -> None:
        looks.unknown += message.look_again_at(moment, note)
