"""What was lost on the way: found by its lease, and brought to where the truth about it can be told."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import structlog

from rqmail.clock import Clock
from rqmail.errors import MailboxNotReadableError, MailError, NotFoundError
from rqmail.models.backlog import overdue
from rqmail.models.base import borrowed
from rqmail.models.message import Message, MessageStatus
from rqmail.queues import MailQueues
from rqmail.senders import Senders
from rqmail.service import FIRST_LOOK

log = structlog.get_logger()

UnknownPolicy = Literal["hold", "resend", "assume-sent"]

#: Rows of one kind looked at in one pass: a pass ends well before the next one is due.
_AT_MOST = 500

#: A queued message whose job is alive is looked at again after this time.
_JOB_ALIVE = timedelta(seconds=30)

#: Between two looks for the same message; and when looking is not allowed or not possible now.
_LOOK_AGAIN = timedelta(seconds=30)
_NOT_READABLE = timedelta(hours=1)

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
    still_unknown: int = 0


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
    ) -> None:
        self._senders = senders
        self._queues = queues
        self._clock = clock
        self._unknown_policy = unknown_policy
        self._grace = grace

    def run(self) -> RecoveryReport:
        """Make one pass over everything whose lease is over."""
        now = self._clock()
        put_back = self._vanished_jobs(now)
        with borrowed():
            expired = len(Message.give_up_expired(now))
        worker_lost = self._lost_workers(now)
        found, again, unknown = self._unknown(now)
        report = RecoveryReport(put_back, expired, worker_lost, found, again, unknown)
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

    def _unknown(self, now: datetime) -> tuple[int, int, int]:
        found = again = still = 0
        for message in overdue(MessageStatus.UNKNOWN, now, limit=_AT_MOST):
            try:
                ending = self._look_for(message, now)
            except MailError as problem:
                # Whatever keeps us from looking (a throttle, no token) says nothing about the message.
                log.info("mail.recovery.cannotLook", messageUuid=message.id, err=type(problem).__name__)
                ending = self._look_later(message, now + _LOOK_AGAIN * 4)
            found += ending == "found"
            again += ending == "again"
            still += ending == "unknown"
        return found, again, still

    def _look_for(self, message: Message, now: datetime) -> str:
        """Look for one UNKNOWN message where its mailbox keeps what it sent."""
        try:
            mailbox = self._senders.mailbox(self._senders.find(message.sender))
        except NotFoundError:
            mailbox = None
        if mailbox is None:
            return self._by_policy(message, now)
        since = (message.attempted_on or message.created_on) - timedelta(minutes=5)
        try:
            sighting = mailbox.find_sent(message.id, since)
        except MailboxNotReadableError:
            return self._by_policy(message, now)
        if sighting is not None:
            with borrowed():
                message.confirm_sent(now, f"Found in {sighting.folder}.")
            return "found"
        if now - (message.attempted_on or message.created_on) < self._grace:
            return self._look_later(message, now + _LOOK_AGAIN)
        with borrowed():
            message.send_again(now, "Not in Sent Items, Drafts or Outbox after the grace period.")
        return "again"

    def _by_policy(self, message: Message, now: datetime) -> str:
        """Nobody can look: do what the operator chose for this case."""
        old_enough = now - (message.attempted_on or message.created_on) >= self._grace
        if self._unknown_policy == "hold" or not old_enough:
            if message.last_error != NOT_READABLE_NOTE:
                log.warning("mail.recovery.notReadable", mailboxKey=message.mailbox_key, policy=self._unknown_policy)
            return self._look_later(
                message, now + _NOT_READABLE if old_enough else now + _LOOK_AGAIN, NOT_READABLE_NOTE
            )
        with borrowed():
            if self._unknown_policy == "resend":
                message.send_again(now, "Sent again by RQMAIL_UNKNOWN_POLICY=resend.")
                return "again"
            message.confirm_sent(now, "Taken for sent by RQMAIL_UNKNOWN_POLICY=assume-sent.")
            return "found"

    @staticmethod
    def _look_later(message: Message, moment: datetime, note: str | None = None) -> str:
        with borrowed():
            message.look_again_at(moment, note)
        return "unknown"
