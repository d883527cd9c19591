"""What was lost on the way: found by its lease, and brought to where the truth about it can be told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, assert_never

from rqmail.clock import Clock, monotonic
from rqmail.delivery.outcomes import FIRST_LOOK, TRACED, reported, settle_accepted
from rqmail.delivery.senders import Senders
from rqmail.errors import MailboxNotReadableError, MailboxNotWritableError, MailError, NotFoundError
from rqmail.logs import event_log
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.models.backlog import overdue
from rqmail.models.base import AWAY_ERRORS, pooled_connection
from rqmail.models.bounces import certain_bounce
from rqmail.models.contents import is_raw
from rqmail.models.deliveries import certainly_traced
from rqmail.models.mailbox import Provider
from rqmail.models.message import Event, Message, MessageStatus, Route
from rqmail.queues import MailQueues

log = event_log()

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

#: The access an attempt went with is gone: whether it was sent can be looked up nowhere, so nothing is guessed.
ACCESS_GONE_NOTE = (
    "It is unknown whether this was sent, and the app it was sent through is no longer in the settings, so it cannot be"
    " looked up. Put that app back, or confirm, resend or discard it."
)

NO_MAILBOX_NOTE = (
    "It is unknown whether this was sent, and its provider keeps no mailbox in which to look."
    " Confirm, resend or discard it."
)

NO_COPY_NOTE = (
    "It is unknown whether this was sent, and its mailbox kept no copy in Sent Items (sent-items none), so that none is"
    " there proves nothing. Confirm, resend or discard it."
)

NOT_READABLE_NOTE = (
    "It is unknown whether this was sent, and the app may not read the mailbox to find out (Mail.Read is missing)."
    " Confirm, resend or discard it."
)

NOT_WRITABLE_NOTE = (
    "A draft of it lies in Drafts, unsent, and the app may not remove it (Mail.ReadWrite is missing)."
    " Grant that permission, or remove the draft and resend or discard the message."
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
    """One pass over UNKNOWN messages: how they ended, and where they went it is no use to look again."""

    ends_at: float
    found: int = 0
    again: int = 0
    gave_up: int = 0
    unknown: int = 0
    away: set[Route | None] = field(default_factory=set)
    unreadable: set[Route | None] = field(default_factory=set)


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
        with pooled_connection():
            for job_id, ids in by_job.items():
                if job_id in alive:
                    Message.leave_queued(ids, until=now + _JOB_ALIVE)
                else:
                    put_back += len(Message.put_back(ids, job_id or None))
        return put_back

    def _lost_workers(self, now: datetime) -> int:
        """A worker stopped in the middle of a send: whether the request left the machine is not known."""
        lost = 0
        with pooled_connection():
            for message in overdue(MessageStatus.SENDING, now, limit=_AT_MOST):
                lost += message.lose_lease(now, look_at=now + FIRST_LOOK)
        return lost

    def _unknown(self, now: datetime) -> _Looks:
        looks = _Looks(self._monotonic() + _LOOK_FOR_SECONDS)
        for message in overdue(MessageStatus.UNKNOWN, now, limit=_AT_MOST):
            if self._monotonic() > looks.ends_at:
                break
            try:
                evidence = _proof(message.id)
                if evidence is not None:  # read before it became UNKNOWN
                    self._found(message, now, evidence, looks)
                else:
                    self._look_for(message, now, looks)
            except MailError as problem:
                # Whatever keeps us from looking (a throttle, no token) says nothing about the message.
                log.info("mail.recovery.cannotLook", messageUuid=message.id, err=type(problem).__name__)
                looks.away.add(message.route or self._presumed_route(message))
                self._look_later(message, now + _CANNOT_LOOK_NOW, looks)
            except AWAY_ERRORS:
                raise
            except Exception:
                log.exception("mail.recovery.failed", messageUuid=message.id)
                self._look_later(message, now + _CANNOT_LOOK_NOW, looks)
        return looks

    def _look_for(self, message: Message, now: datetime, looks: _Looks) -> None:
        """Look for one UNKNOWN message where it went: in the mailbox of its attempt, with the access of its attempt."""
        route = message.route or self._presumed_route(message)
        if route in looks.away:
            return self._look_later(message, now + _CANNOT_LOOK_NOW, looks)
        if route is not None and route.provider != Provider.MICROSOFT_GRAPH.value:
            return self._by_policy(message, now, NO_MAILBOX_NOTE, looks)
        if route in looks.unreadable:
            return self._by_policy(message, now, NOT_READABLE_NOTE, looks)
        if route is not None and is_raw(message.id):
            route = replace(route, marked=False)  # between its making and its marking a draft has the header alone
        mailbox = None if route is None else self._senders.mailbox_of(route)
        if route is None or mailbox is None:
            return self._hold(message, now, ACCESS_GONE_NOTE, looks)
        try:
            sighting = mailbox.find_sent(message.id, message.created_on - _CLOCKS_DIFFER)
        except MailboxNotReadableError:
            said = NOT_READABLE_NOTE in (message.last_error or "")
            if not said:
                log.warning("mail.recovery.notReadable", mailboxKey=message.mailbox_key, policy=self._unknown_policy)
            looks.unreadable.add(route)
            return self._by_policy(message, now, NOT_READABLE_NOTE, looks)
        if sighting is not None and not sighting.is_upload:
            return self._found(message, now, f"Found in {sighting.folder}.", looks)
        if sighting is not None and not self._cleared(mailbox, message, now, looks):
            return None
        if not route.copied:
            return self._by_policy(message, now, NO_COPY_NOTE, looks)
        if now - message.unclear_since < self._grace:
            return self._look_later(
                message, now + _LOOK_AGAIN, looks, looked=Event(now, "looked-for", detail="Not found yet.")
            )
        absent = "Not in Sent Items, Drafts or Outbox after the grace period."
        if message.attempts >= self._max_attempts:
            return self._gave_up(message, now, absent, looks)
        return self._again(message, now, absent, looks)

    def _cleared(self, mailbox: GraphMailbox, message: Message, now: datetime, looks: _Looks) -> bool:
        """Remove the draft that a lost upload left; ``False`` where the message must be left alone for now."""
        try:
            if mailbox.remove_uploads(message.id):
                return True
        except MailboxNotWritableError:
            self._hold(message, now, NOT_WRITABLE_NOTE, looks)
            return False
        # It has left Drafts since it was seen there, so it may have been sent just now: as unclear as at first.
        gone = Event(now, "looked-for", detail="Its draft has just left Drafts.")
        self._look_later(message, now + max(self._grace, _LOOK_AGAIN), looks, looked=gone)
        return False

    def _presumed_route(self, message: Message) -> Route | None:
        """For a message sent before routes were written down: its sender's, if that still has the same mailbox."""
        try:
            route = self._senders.find(message.sender).route.place
        except NotFoundError:
            return None
        return route if message.mailbox_key in {None, route.mailbox_key} else None

    def _by_policy(self, message: Message, now: datetime, note: str, looks: _Looks) -> None:
        """Nobody can look: do what the operator chose for this case."""
        if now - message.unclear_since < self._grace:
            return self._look_later(message, now + _LOOK_AGAIN, looks, _added(note, message.last_error))
        policy = self._unknown_policy
        if policy == "resend" and message.attempts >= self._max_attempts:
            policy = "hold"
        match policy:
            case "hold":
                return self._hold(message, now, note, looks)
            case "resend":
                return self._again(message, now, "Sent again by RQMAIL_UNKNOWN_POLICY=resend.", looks)
            case "assume-sent":
                return self._found(message, now, "Taken for sent by RQMAIL_UNKNOWN_POLICY=assume-sent.", looks)
        assert_never(policy)

    def _hold(self, message: Message, now: datetime, note: str, looks: _Looks) -> None:
        """Leave it to a person; from time to time see whether it can be looked for after all."""
        if note == ACCESS_GONE_NOTE and note not in (message.last_error or ""):
            log.warning("mail.recovery.accessGone", mailboxKey=message.mailbox_key, appId=message.app_id)
        held = Event(now, "looked-for", detail=note)
        self._look_later(message, now + _NOT_READABLE, looks, _added(note, message.last_error), held)

    @staticmethod
    def _found(message: Message, now: datetime, note: str, looks: _Looks) -> None:
        looks.found += settle_accepted(message, note, now)

    @staticmethod
    def _again(message: Message, now: datetime, note: str, looks: _Looks) -> None:
        looks.again += message.send_again(now, note)

    @staticmethod
    def _gave_up(message: Message, now: datetime, note: str, looks: _Looks) -> None:
        looks.gave_up += message.give_up(now, note)

    @staticmethod
    def _look_later(
        message: Message, moment: datetime, looks: _Looks, note: str | None = None, looked: Event | None = None
    ) -> None:
        looks.unknown += message.look_again_at(moment, note, looked=looked)


def _proof(message_id: str) -> str | None:
    """Answer what was read elsewhere that proves a message's acceptance."""
    bounced = certain_bounce(message_id)
    if bounced is not None:
        return reported(bounced)
    return TRACED if certainly_traced(message_id) else None


def _added(note: str, error: str | None) -> str | None:
    """Add ``note`` to what is known about a message, once; ``None`` where it is said already."""
    return None if note in (error or "") else f"{error or ''} {note}".strip()
