"""One mail on its way: the row that is the truth about it, and the only code that writes its status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, Literal

import peewee
from uuid_utils import uuid7

from rqmail.models.base import BaseModel, UtcDateTimeField, borrowed, db, is_postgresql, to_column, transaction


class MessageStatus(StrEnum):
    """Where a message is on its way."""

    SCHEDULED = "SCHEDULED"
    QUEUED = "QUEUED"
    SENDING = "SENDING"
    SENT = "SENT"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


_S = MessageStatus

#: For each state, the states it may be entered from. SENT is entered from wherever a late acceptance finds the message:
#: whatever we believed meanwhile, the provider took it. A new message starts SCHEDULED.
ENTERED_FROM: dict[MessageStatus, frozenset[MessageStatus]] = {
    _S.SCHEDULED: frozenset({_S.QUEUED, _S.SENDING, _S.UNKNOWN, _S.ERROR, _S.CANCELLED, _S.EXPIRED}),
    _S.QUEUED: frozenset({_S.SCHEDULED}),
    _S.SENDING: frozenset({_S.QUEUED}),
    _S.SENT: frozenset({_S.SENDING, _S.UNKNOWN, _S.SCHEDULED, _S.QUEUED}),
    _S.ERROR: frozenset({_S.SENDING, _S.UNKNOWN}),
    _S.UNKNOWN: frozenset({_S.SENDING}),
    _S.CANCELLED: frozenset({_S.SCHEDULED, _S.QUEUED, _S.UNKNOWN}),
    _S.EXPIRED: frozenset({_S.SCHEDULED, _S.QUEUED}),
}

#: Characters of a history after which waits are no longer added to it.
_LONGEST_HISTORY = 32_000

#: The limiter refused it when it was to be sent: it keeps its place in the line. As the partial index says it.
REFUSED = "waiting_for IN ('minute', 'day')"

#: Nothing happens to a message in one of these unless a person asks.
FINAL = frozenset({_S.SENT, _S.ERROR, _S.CANCELLED, _S.EXPIRED})


class Priority(IntEnum):
    """Which mail of a mailbox goes first; the smaller number does."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


class RecipientKind(StrEnum):
    """How a recipient is addressed."""

    TO = "to"
    CC = "cc"
    BCC = "bcc"


@dataclass(frozen=True, slots=True)
class NewRecipient:
    """One recipient of a message that is to be submitted; the address has been checked."""

    kind: RecipientKind
    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A checked message that is to be submitted; ``sender`` is as :class:`Message` stores it."""

    sender: str
    subject: str
    recipients: tuple[NewRecipient, ...]
    text: str | None = None
    html: str | None = None
    requested_on: datetime | None = None
    expires_on: datetime | None = None
    priority: Priority = Priority.NORMAL
    id: str = field(default_factory=lambda: str(uuid7()))


@dataclass(frozen=True, slots=True)
class Route:
    """What a send goes through: the limiter's key of the mailbox, the provider, and at Microsoft the app that asks.

    It belongs to the attempt: whatever the settings say later, what became of a send is looked up there.
    """

    provider: str
    mailbox_key: str
    entra_tenant: str | None = None
    app_id: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call to a provider and how it ended, as kept in the message's history."""

    at: str
    outcome: str
    duration_ms: int
    provider: str | None = None
    mailbox_key: str | None = None
    entra_tenant: str | None = None
    app_id: str | None = None
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    client_request_id: str | None = None
    detail: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a message beside its attempts: ``what`` (``waited``, ``cancelled``, …), by whom if by anybody.

    ``waiting_for`` and ``until`` are told of a wait: for what, and until when at first.
    """

    at: datetime
    what: str
    by: str | None = None
    detail: str | None = None
    waiting_for: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A message moved from SCHEDULED to QUEUED, and what it will take from its mailbox's budget."""

    id: str
    recipient_count: int


class Claims(list[Claim]):
    """Messages claimed, in the order they are to be sent.

    ``recipients`` is what they take of the room there was, ``waits`` the first one for which there was not enough.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recipients = 0
        self.waits: Claim | None = None


class Message(BaseModel):
    """One mail on its way; every change of ``status`` is one conditional UPDATE made here.

    ``sender`` is ``mailbox:KEY``, ``tenant:KEY`` or ``default``. ``requested_on`` keeps what the caller asked;
    ``scheduled_on`` moves. ``lease_until`` is the moment before which recovery leaves the row alone.
    """

    id = peewee.CharField(max_length=36, primary_key=True)
    sender = peewee.CharField(max_length=80)
    status = peewee.CharField(max_length=10, default=MessageStatus.SCHEDULED.value)
    priority = peewee.SmallIntegerField(default=Priority.NORMAL.value)
    subject = peewee.TextField()
    recipient_count = peewee.IntegerField()
    created_on = UtcDateTimeField()
    requested_on = UtcDateTimeField()
    scheduled_on = UtcDateTimeField()
    expires_on = UtcDateTimeField(null=True)
    #: The RQ job that carries the id while QUEUED.
    job_id = peewee.CharField(max_length=36, null=True)
    #: Which worker's claim is the present one while SENDING; an outcome is only written under its own claim.
    claim = peewee.CharField(max_length=36, null=True)
    lease_until = UtcDateTimeField(null=True)
    #: What the last attempt went through, as :class:`Route` says, and when it began; before the first one, the mailbox
    #: that the message was claimed for.
    mailbox_key = peewee.CharField(max_length=320, null=True)
    provider = peewee.CharField(max_length=20, null=True)
    entra_tenant = peewee.CharField(max_length=128, null=True)
    app_id = peewee.CharField(max_length=128, null=True)
    attempted_on = UtcDateTimeField(null=True)
    sent_on = UtcDateTimeField(null=True)
    #: When it came to its end; empty while it has not, and for ends that nobody dated.
    ended_on = UtcDateTimeField(null=True)
    attempts = peewee.IntegerField(default=0)
    deferrals = peewee.IntegerField(default=0)
    #: Why the message waits (minute, day, paused, throttled, …); empty when nothing held it up.
    waiting_for = peewee.CharField(max_length=40, null=True)
    last_error = peewee.TextField(null=True)
    #: The history, one JSON object a line, oldest first; appended to in the same UPDATE as the move it tells of.
    attempt_log = peewee.TextField(default="")

    # --- intake --------------------------------------------------------------------------------------------------

    @classmethod
    def submit(cls, batch: Sequence[NewMessage], now: datetime, by: str | None = None) -> list[str]:
        """Insert ``batch``, handed in by ``by``, as SCHEDULED, all or none, and answer the ids in order."""
        moment = to_column(now)
        history = "" if by is None else _line(Event(now, "handed-in", by=by))
        rows = []
        for new in batch:
            requested = moment if new.requested_on is None else to_column(new.requested_on)
            expires = None if new.expires_on is None else to_column(new.expires_on)
            rows.append(
                (
                    new.id,
                    new.sender,
                    _S.SCHEDULED.value,
                    int(new.priority),
                    new.subject,
                    len(new.recipients),
                    moment,
                    requested,
                    requested,
                    expires,
                    0,
                    0,
                    history,
                )
            )
        columns = (
            "id, sender, status, priority, subject, recipient_count, created_on, requested_on, scheduled_on,"
            " expires_on, attempts, deferrals, attempt_log"
        )
        with transaction():
            _insert("message", columns, rows)
            _insert("message_content", "message_id, text, html", [(new.id, new.text, new.html) for new in batch])
            _insert(
                "recipient",
                "message_id, position, kind, address, name",
                [
                    (new.id, position, to.kind.value, to.address, to.name)
                    for new in batch
                    for position, to in enumerate(new.recipients)
                ],
            )
        return [new.id for new in batch]

    # --- SCHEDULED → QUEUED → SENDING ----------------------------------------------------------------------------

    @classmethod
    def claim_due(
        cls,
        sender: str,
        priority: int,
        *,
        now: datetime,
        calls: int,
        recipients: int | None,
        job_id: str,
        lease: timedelta,
        beside: Sequence[str] = (),
        refused: bool = False,
        never_more_than: int | None = None,
        mailbox_key: str | None = None,
    ) -> Claims:
        """Move due messages of one priority to QUEUED, oldest first, and answer them.

        ``beside`` are further senders of the same mailbox: all of them stand in one line, by time. At most ``calls``
        messages, and (unless ``None``) at most ``recipients`` recipients together: the first that does not fit ends
        the claim, so that a large message is not overtaken by small ones. A message that has expired, or has more
        recipients than ``never_more_than``, takes none of that room: it is claimed so that it comes to its end. With
        ``refused`` only what the limiter refused before is looked at.
        """
        select = (
            "SELECT id, recipient_count, scheduled_on,"  # noqa: S608 - only placeholders and constants are put in
            f" expires_on IS NOT NULL AND expires_on <= {db.param} FROM message"
            f" WHERE status = 'SCHEDULED' AND sender = {db.param} AND priority = {db.param}"
            f" AND scheduled_on <= {db.param}{f' AND {REFUSED}' if refused else ''}"
            f" ORDER BY scheduled_on, id LIMIT {db.param}"
        )
        if is_postgresql():
            select += " FOR UPDATE SKIP LOCKED"
        moment = to_column(now)
        with transaction():
            line = [
                row
                for name in (sender, *beside)
                for row in db.execute_sql(select, (moment, name, priority, moment, calls)).fetchall()
            ]
            line.sort(key=lambda row: (row[2], row[0]))
            claims = _fitting(line[:calls], recipients, never_more_than)
            if claims:
                cls._enter(
                    _S.QUEUED,
                    *_these(claim.id for claim in claims),
                    job_id=job_id,
                    mailbox_key=mailbox_key,
                    lease_until=now + lease,
                )
        return claims

    def may_begin(self, now: datetime) -> bool:
        """Say whether a request for a message that is SENDING may still be begun: its lease must hold until the answer.

        Half of the lease is for the request itself and for clocks that differ.
        """
        if self.attempted_on is None or self.lease_until is None:
            return False
        return now < self.attempted_on + (self.lease_until - self.attempted_on) / 2

    def is_claimed(self) -> bool:
        """Read whether the row is still SENDING under the claim this one was started with."""
        sql = f"SELECT 1 FROM message WHERE id = {db.param} AND claim = {db.param} AND status = 'SENDING'"  # noqa: S608
        with borrowed():
            return db.execute_sql(sql, (self.id, self.claim)).fetchone() is not None

    @classmethod
    def start_sending(
        cls, ids: Sequence[str], *, claim: str, now: datetime, lease_until: datetime, route: Route | None = None
    ) -> set[str]:
        """Move QUEUED → SENDING under ``claim`` and answer which were moved: another got to the others first.

        ``route`` is what they are about to go through; none where nobody knows their sender any more.
        """
        began: dict[str, Any] = {"claim": claim, "attempted_on": now, "lease_until": lease_until, "job_id": None}
        if route is not None:
            began |= {name: getattr(route, name) for name in Route.__slots__}
        return set(cls._enter(_S.SENDING, *_these(ids), **began))

    @property
    def route(self) -> Route | None:
        """What the present attempt, or the last one, goes through; ``None`` before the first, or if nobody knows."""
        if self.provider is None or self.mailbox_key is None:
            return None
        return Route(self.provider, self.mailbox_key, self.entra_tenant, self.app_id)

    def goes_through(self, route: Route | None) -> None:
        """Take over what :meth:`start_sending` has written, without reading the row again."""
        if route is not None:
            for name in Route.__slots__:
                setattr(self, name, getattr(route, name))

    # --- outcomes, each under the claim it belongs to ------------------------------------------------------------

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
        return bool(cls._enter(_S.EXPIRED, *_these([message_id]), log=_event(now, "expired"), **changes))  # type: ignore[arg-type]

    # --- by recovery ---------------------------------------------------------------------------------------------

    @classmethod
    def put_back(cls, ids: Iterable[str], job_id: str | None = None) -> list[str]:
        """Move QUEUED messages back to SCHEDULED, as if never claimed; with ``job_id`` only those it carries."""
        where, values = _these(ids)
        if job_id is not None:
            where, values = f"{where} AND job_id = {db.param}", [*values, job_id]
        return cls._enter(_S.SCHEDULED, where, values, from_={_S.QUEUED}, job_id=None, lease_until=None)

    @classmethod
    def put_back_unsent(cls, ids: Iterable[str], claim: str) -> list[str]:
        """Move SENDING messages of this claim back to SCHEDULED: the caller knows that none went to a provider."""
        where, values = _these(ids)
        return cls._enter(
            _S.SCHEDULED, f"{where} AND claim = {db.param}", [*values, claim], from_={_S.SENDING}, lease_until=None
        )

    @classmethod
    def leave_queued(cls, ids: Iterable[str], until: datetime) -> None:
        """Leave QUEUED messages to their job until then: it is alive."""
        statement = cls.update(lease_until=until).where(cls.id.in_(list(ids)), cls.now_in(_S.QUEUED))
        with borrowed():
            statement.execute()

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
            at=_iso(began),
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

    def look_again_at(self, moment: datetime, note: str | None = None, *, looked: Event | None = None) -> bool:
        """Leave an UNKNOWN message alone until ``moment``.

        ``looked`` tells the history how it was looked for; the same again and again is told once.
        """
        changes: dict[str, Any] = {"lease_until": moment}
        if note is not None:
            changes["last_error"] = note
        last = self.events[-1] if self.events else {}
        if looked is not None and (last.get("what"), last.get("detail")) != (looked.what, looked.detail):
            changes["attempt_log"] = Message.attempt_log.concat(_line(looked))
        statement = Message.update(**changes).where(peewee.SQL(*self._as_claimed()), Message.status == _S.UNKNOWN.value)
        with borrowed():
            return bool(statement.execute())

    def confirm_sent(self, now: datetime, note: str, by: str | None = None) -> bool:
        """It is known after all that the provider accepted an UNKNOWN message."""
        attempt = Attempt(at=_iso(now), outcome="confirmed-sent", duration_ms=0, detail=note, by=by)
        return bool(
            self._enter(
                _S.SENT,
                *self._as_claimed(),
                from_={_S.UNKNOWN},
                log=attempt,
                sent_on=self.attempted_on or now,
                ended_on=now,
                lease_until=None,
                last_error=None,
            )
        )

    def send_again(self, now: datetime, note: str, by: str | None = None) -> bool:
        """It is known after all that the provider did not accept an UNKNOWN message, or a person takes the risk.

        The old claim stays until a new send begins: should its worker still report an acceptance, that wins.
        """
        attempt = Attempt(at=_iso(now), outcome="sent-again", duration_ms=0, detail=note, by=by)
        return bool(
            self._enter(
                _S.SCHEDULED,
                *self._as_claimed(),
                from_={_S.UNKNOWN},
                log=attempt,
                scheduled_on=now,
                lease_until=None,
            )
        )

    def give_up(self, now: datetime, note: str) -> bool:
        """It is known after all that the provider did not accept an UNKNOWN message, and its attempts are used up."""
        attempt = Attempt(at=_iso(now), outcome="given-up", duration_ms=0, detail=note)
        error = f"Gave up after {self.attempts} attempts; the last one: {self.last_error or note}"
        return bool(
            self._enter(
                _S.ERROR,
                *self._as_claimed(),
                from_={_S.UNKNOWN},
                log=attempt,
                lease_until=None,
                last_error=error,
                ended_on=now,
            )
        )

    # --- by a person ---------------------------------------------------------------------------------------------

    @classmethod
    def cancel(cls, ids: Sequence[str], now: datetime | None = None, by: str | None = None) -> list[str]:
        """Cancel what has not begun, and discard what is UNKNOWN; answer the ids that were."""
        return cls._enter(
            _S.CANCELLED,
            *_these(ids),
            log=_event(now, "cancelled", by),
            job_id=None,
            lease_until=None,
            waiting_for=None,
            ended_on=now,
        )

    @classmethod
    def discard(cls, ids: Sequence[str], now: datetime, by: str) -> list[str]:
        """Leave UNKNOWN messages as they are, sent or not: nothing more happens to them; answer the ids moved."""
        return cls._enter(
            _S.CANCELLED,
            *_these(ids),
            from_={_S.UNKNOWN},
            log=Event(now, "discarded", by=by),
            lease_until=None,
            ended_on=now,
        )

    @classmethod
    def requeue(cls, ids: Sequence[str], now: datetime, by: str | None = None, *, too_late: bool = False) -> list[str]:
        """Send again, from the first attempt on, what ended in ERROR, CANCELLED or EXPIRED; answer the ids moved.

        ``expires_on`` stays as it was asked for, so what has passed it is left where it is. With ``too_late`` just that
        is sent again, and no longer expires.
        """
        where, values = _these(ids)
        passed = f"(expires_on IS NOT NULL AND expires_on <= {db.param})"
        changes: dict[str, Any] = {
            "scheduled_on": now,
            "attempts": 0,
            "claim": None,
            "waiting_for": None,
            "ended_on": None,
        }
        return cls._enter(
            _S.SCHEDULED,
            f"{where} AND {passed if too_late else 'NOT ' + passed}",
            [*values, to_column(now)],
            from_={_S.ERROR, _S.CANCELLED, _S.EXPIRED},
            log=Event(now, "requeued", by=by),
            **(changes | {"expires_on": None} if too_late else changes),
        )

    @classmethod
    def bring_forward(cls, ids: Sequence[str], now: datetime, by: str | None = None) -> list[str]:
        """Make waiting messages due at once; answer the ids that were waiting. The budget still holds."""
        forward = {
            "scheduled_on": now,
            "attempt_log": cls.attempt_log.concat(_line(Event(now, "brought-forward", by=by))),
        }
        statement = cls.update(**forward).where(cls.id.in_(ids), cls.now_in(_S.SCHEDULED)).returning(cls.id)
        with borrowed():
            return [row.id for row in statement.execute()]

    # --- forgetting -----------------------------------------------------------------------------------------------

    @classmethod
    def _final_before(cls, moment: datetime) -> Any:
        undated = (
            cls.ended_on.is_null()
            & (cls.scheduled_on < moment)
            & (cls.attempted_on.is_null() | (cls.attempted_on < moment))
            & (cls.sent_on.is_null() | (cls.sent_on < moment))
        )
        return cls.status.in_(_names(FINAL)) & (cls.created_on < moment) & ((cls.ended_on < moment) | undated)

    @classmethod
    def count_final(cls, before: datetime) -> int:
        """Count the messages that came to their end before then; where nobody dated it, the last thing known counts."""
        with borrowed():
            return int(cls.select().where(cls._final_before(before)).count())

    @classmethod
    def delete_final(cls, before: datetime, *, limit: int) -> int:
        """Delete at most ``limit`` of them, with their content and recipients."""
        old = cls.select(cls.id).where(cls._final_before(before)).limit(limit)
        with borrowed():
            return int(cls.delete().where(cls.id.in_(old)).execute())

    # --- the one door --------------------------------------------------------------------------------------------

    def _settle(
        self,
        status: MessageStatus,
        attempt: Attempt | Event | None,
        *,
        counts: Literal["attempts", "deferrals"],
        from_: set[MessageStatus] | None = None,
        **changes: Any,
    ) -> bool:
        """Enter ``status`` if the claim this row was started under is still the present one."""
        where, values = f"id = {db.param} AND claim = {db.param}", [self.id, self.claim]
        changes.setdefault("lease_until", None)
        return bool(self._enter(status, where, values, from_=from_, log=attempt, counts=counts, **changes))

    def _as_claimed(self) -> tuple[str, list[Any]]:
        """Write the condition that finds this row while no newer send has begun than the one it tells of, if any."""
        return f"id = {db.param} AND claim IS NOT DISTINCT FROM {db.param}", [self.id, self.claim]

    @classmethod
    def _enter(
        cls,
        status: MessageStatus,
        where: str,
        values: Sequence[Any],
        *,
        from_: set[MessageStatus] | None = None,
        log: Attempt | Event | None = None,
        counts: Literal["attempts", "deferrals"] | None = None,
        **changes: Any,
    ) -> list[str]:
        """Move the rows that match ``where`` and may enter ``status`` from where they are; answer their ids.

        ``log`` is added to their history, ``counts`` names what goes up by one, ``changes`` are columns to set. One
        statement of its own, written out here: it runs twice for every mail, and a query builder takes longer over it
        than the database does.
        """
        allowed = ENTERED_FROM[status] if from_ is None else ENTERED_FROM[status] & from_
        assignments = [f"status = '{status.value}'", *(f"{column} = {db.param}" for column in changes)]
        set_to = [to_column(value) if isinstance(value, datetime) else value for value in changes.values()]
        if isinstance(log, Event) and log.waiting_for is not None:
            # A wait that goes on for the same reason is told once, and no history grows without end.
            going_on = f"waiting_for = {db.param} OR LENGTH(attempt_log) > {_LONGEST_HISTORY}"
            assignments.append(f"attempt_log = attempt_log || CASE WHEN {going_on} THEN '' ELSE {db.param} END")
            set_to += [log.waiting_for, _line(log)]
        elif log is not None:
            assignments.append(f"attempt_log = attempt_log || {db.param}")
            set_to.append(_line(log))
        if counts is not None:
            assignments.append(f"{counts} = {counts} + 1")
        statement = (
            f"UPDATE message SET {', '.join(assignments)} WHERE {where}"  # noqa: S608 - names and states are ours
            f" AND status || '' IN ({_IN[frozenset(allowed)]}) RETURNING id"
        )
        with borrowed():
            return [row[0] for row in db.execute_sql(statement, [*set_to, *values]).fetchall()]

    @classmethod
    def now_in(cls, *states: MessageStatus) -> peewee.Expression:
        """Check the status of rows that are found by something else, without inviting an index on status.

        A planner short of statistics would rather walk every SCHEDULED row than look up ten ids.
        """
        return cls.status.concat("").in_(_names(states))

    @property
    def unclear_since(self) -> datetime:
        """When the last unclear attempt had ended, or its worker was found missing.

        Not when it began: a machine that slept in the middle of a send goes on with it as soon as it wakes.
        """
        began = self.attempted_on or self.created_on
        for entry in reversed(self.history):
            try:
                return max(began, datetime.fromisoformat(entry["at"]) + timedelta(milliseconds=entry["duration_ms"]))
            except (KeyError, TypeError, ValueError):
                break
        return began

    @property
    def history(self) -> list[dict[str, Any]]:
        """The attempts to send this message and what was decided about them, oldest first."""
        return [entry for entry in self.events if "what" not in entry]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Everything that happened to this message so far, oldest first; a line that cannot be read is left out."""
        entries = []
        for line in self.attempt_log.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                entries.append(entry)
        return entries


class MessageContent(BaseModel):
    """What a message says; apart from its row, so that a change of status does not rewrite the text."""

    message = peewee.ForeignKeyField(Message, primary_key=True, on_delete="CASCADE", backref="contents")
    text = peewee.TextField(null=True)
    html = peewee.TextField(null=True)

    class Meta:
        """Name the table in full."""

        table_name = "message_content"


class Recipient(BaseModel):
    """One address a message goes to."""

    message = peewee.ForeignKeyField(Message, on_delete="CASCADE", backref="recipients")
    position = peewee.SmallIntegerField()
    kind = peewee.CharField(max_length=3)
    address = peewee.CharField(max_length=320)
    name = peewee.TextField(default="")

    class Meta:
        """A recipient is named by its message and its place there."""

        primary_key = peewee.CompositeKey("message", "position")


def _fitting(
    line: Iterable[tuple[str, int, object, bool]], recipients: int | None, never_more_than: int | None
) -> Claims:
    """Take from the front of a line (id, recipients, moment, expired?) what fits, up to the first that does not."""
    claims = Claims()
    for message_id, count, _, expired in line:
        claim = Claim(message_id, count)
        if recipients is not None and not expired and (never_more_than is None or count <= never_more_than):
            if claims.recipients + count > recipients:
                claims.waits = claim
                break
            claims.recipients += count
        claims.append(claim)
    return claims


def _insert(table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert ``rows`` in as few statements as the databases' limit on parameters allows."""
    width = columns.count(",") + 1
    per_statement = 30_000 // width
    for start in range(0, len(rows), per_statement):
        part = rows[start : start + per_statement]
        one = "(" + ", ".join([db.param] * width) + ")"
        sql = f"INSERT INTO {table} ({columns}) VALUES {', '.join([one] * len(part))}"  # noqa: S608 - names are ours
        db.execute_sql(sql, [value for row in part for value in row])


class _Names(dict[frozenset[MessageStatus], str]):
    """States as an SQL list of texts, each list written once."""

    def __missing__(self, states: frozenset[MessageStatus]) -> str:
        written = self[states] = ", ".join(f"'{name}'" for name in _names(states)) or "NULL"
        return written


_IN = _Names()


def _these(ids: Iterable[str]) -> tuple[str, list[Any]]:
    """Write the condition that finds rows by id."""
    values = list(ids)
    return f"id IN ({', '.join([db.param] * len(values)) or 'NULL'})", values


def _iso(moment: datetime) -> str:
    return to_column(moment).replace(" ", "T")


def _event(now: datetime | None, what: str, by: str | None = None) -> Event | None:
    return None if now is None else Event(now, what, by=by)


def _line(told: Attempt | Event) -> str:
    values = ((name, getattr(told, name)) for name in told.__slots__)
    entry = {name: _iso(value) if isinstance(value, datetime) else value for name, value in values if value is not None}
    return json.dumps(entry, ensure_ascii=False) + "\n"


def _names(states: Iterable[MessageStatus]) -> list[str]:
    return sorted(state.value for state in states)
