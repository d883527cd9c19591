"""The row of a message, and the one door through which its status changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

import peewee

from rqmail.models import events
from rqmail.models.base import BaseModel, UtcDateTimeField, db, pooled_connection, to_column, transaction
from rqmail.models.history import LONGEST_HISTORY, Attempt, Event, Route, entries, line
from rqmail.models.states import ENTERED_FROM, IN, MessageStatus, names
from rqmail.models.submitting import Priority


def these(ids: Iterable[str]) -> tuple[str, list[Any]]:
    """Write the condition that finds rows by id."""
    values = list(ids)
    return f"id IN ({', '.join([db.param] * len(values)) or 'NULL'})", values


@lru_cache(maxsize=256)
def _update(
    param: str,
    status: MessageStatus,
    allowed: frozenset[MessageStatus],
    columns: tuple[str, ...],
    told: Literal["wait", "line"] | None,
    counts: str | None,
) -> tuple[str, str]:
    """Write the UPDATE of a move, before its condition and after; ``told`` is which kind of line its history gets."""
    assignments = [f"status = '{status.value}'", *(f"{column} = {param}" for column in columns)]
    if told == "wait":
        # A wait that goes on for the same reason is told once, and no history grows without end.
        going_on = f"waiting_for = {param} OR LENGTH(attempt_log) > {LONGEST_HISTORY}"
        assignments.append(f"attempt_log = attempt_log || CASE WHEN {going_on} THEN '' ELSE {param} END")
    elif told == "line":
        assignments.append(f"attempt_log = attempt_log || {param}")
    if counts is not None:
        assignments.append(f"{counts} = {counts} + 1")
    return (
        f"UPDATE message SET {', '.join(assignments)} WHERE ",  # noqa: S608 - names and states are ours
        f" AND status || '' IN ({IN[allowed]}) RETURNING id",
    )


class MessageRow(BaseModel):
    """A message as it is stored; nothing writes ``status`` but :meth:`_enter`.

    ``sender`` is ``mailbox:KEY``, ``tenant:KEY`` or ``default``. ``requested_on`` keeps what the caller asked;
    ``scheduled_on`` moves. ``lease_until`` is the moment before which recovery leaves the row alone.
    """

    id = peewee.CharField(max_length=36, primary_key=True)
    sender = peewee.CharField(max_length=80)
    status = peewee.CharField(max_length=10, default=MessageStatus.SCHEDULED.value)
    priority = peewee.SmallIntegerField(default=Priority.NORMAL.value)
    subject = peewee.TextField()
    recipient_count = peewee.IntegerField()
    #: Bytes of files that are uploaded, as they do not fit one request; empty for most mail.
    upload_bytes: Any = peewee.BigIntegerField(null=True)
    #: External recipients of the last attempt, where its mailbox shared a budget of them; else empty.
    external_count: Any = peewee.IntegerField(null=True)
    created_on = UtcDateTimeField()
    requested_on = UtcDateTimeField()
    scheduled_on = UtcDateTimeField()
    expires_on = UtcDateTimeField(null=True)
    #: The RQ job that carries the id while QUEUED.
    job_id = peewee.CharField(max_length=36, null=True)
    #: Which worker's claim is the present one while SENDING; an outcome is only written under its own claim.
    claim = peewee.CharField(max_length=36, null=True)
    lease_until = UtcDateTimeField(null=True)
    #: When the lease was last prolonged in this process, and whether this is not the first attempt; no columns.
    prolonged_on: datetime | None = None
    tried_before = False
    #: What the last attempt went through, as :class:`Route` says, and when it began; before the first one, the mailbox
    #: that the message was claimed for.
    mailbox_key = peewee.CharField(max_length=320, null=True)
    provider = peewee.CharField(max_length=20, null=True)
    entra_tenant = peewee.CharField(max_length=128, null=True)
    app_id = peewee.CharField(max_length=128, null=True)
    copied: Any = peewee.BooleanField(null=True)
    marked: Any = peewee.BooleanField(null=True)
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
    #: The import it came with, if it came in a file.
    import_id = peewee.CharField(max_length=36, null=True)
    #: The campaign it belongs to, whose template it is rendered from.
    campaign_id = peewee.IntegerField(null=True)

    class Meta:
        """Every part of :class:`rqmail.models.message.Message` speaks of its table."""

        table_name = "message"

    # --- the one door --------------------------------------------------------------------------------------------

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
        statement of its own, written out once: it runs twice for every mail, and a query builder takes longer over it
        than the database does. Where webhooks listen, the event is written in the same transaction.
        """
        allowed = ENTERED_FROM[status] if from_ is None else ENTERED_FROM[status] & from_
        set_to = [to_column(value) if isinstance(value, datetime) else value for value in changes.values()]
        told: Literal["wait", "line"] | None = None
        if isinstance(log, Event) and log.waiting_for is not None:
            told = "wait"
            set_to += [log.waiting_for, line(log)]
        elif log is not None:
            told = "line"
            set_to.append(line(log))
        head, tail = _update(db.param, status, allowed, tuple(changes), told, counts)
        tells = events.OF_STATUS.get(status)
        if tells is None or not events.listeners(tells):
            with pooled_connection():
                return [row[0] for row in db.execute_sql(head + where + tail, [*set_to, *values]).fetchall()]
        with transaction():
            ids = [row[0] for row in db.execute_sql(head + where + tail, [*set_to, *values]).fetchall()]
            events.tell_of_messages(tells, ids)
        return ids

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

    # --- what is read of it --------------------------------------------------------------------------------------

    @classmethod
    def now_in(cls, *states: MessageStatus) -> peewee.Expression:
        """Check the status of rows that are found by something else, without inviting an index on status.

        A planner short of statistics would rather walk every SCHEDULED row than look up ten ids.
        """
        return cls.status.concat("").in_(names(states))

    @property
    def route(self) -> Route | None:
        """What the present attempt, or the last one, goes through; ``None`` before the first, or if nobody knows."""
        provider, mailbox_key = self.provider, self.mailbox_key
        if provider is None or mailbox_key is None:
            return None
        copied, marked = self.copied is not False, self.marked is not False
        return Route(provider, mailbox_key, self.entra_tenant, self.app_id, copied, marked)

    def goes_through(self, route: Route | None) -> None:
        """Take over what :meth:`start_sending` has written, without reading the row again."""
        if route is not None:
            self.provider, self.mailbox_key = route.provider, route.mailbox_key
            self.entra_tenant, self.app_id = route.entra_tenant, route.app_id
            self.copied, self.marked = route.copied, route.marked

    @property
    def unclear_since(self) -> datetime:
        """When the last unclear attempt had ended, or its worker was found missing.

        Not when it began: a machine that slept in the middle of a send goes on with it as soon as it resumes.
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
        return entries(self.attempt_log)
