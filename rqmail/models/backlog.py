"""What waits and what is claimed but not finished: the index seeks that dispatch and recovery decide on. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import peewee

from rqmail.models.base import db, pooled_connection, to_column
from rqmail.models.message import REFUSED, Message, MessageStatus, Priority

_PRIORITIES = " UNION ALL ".join(f"SELECT {int(p)} AS priority" for p in Priority)


@dataclass(frozen=True, slots=True)
class Due:
    """A sender has at least one message of this priority due; the first of them has so many recipients."""

    sender: str
    priority: int
    recipients: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """A message waits that the limiter refused when it was to be sent; ``due`` when its moment has come."""

    sender: str
    priority: int
    recipients: int
    due: bool


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What of a sender is claimed but not finished: messages, recipients, bytes to upload; queued and being sent."""

    queued: int = 0
    queued_recipients: int = 0
    sending: int = 0
    sending_recipients: int = 0
    queued_uploads: int = 0

    def __add__(self, other: Unfinished) -> Unfinished:
        return Unfinished(
            self.queued + other.queued,
            self.queued_recipients + other.queued_recipients,
            self.sending + other.sending,
            self.sending_recipients + other.sending_recipients,
            self.queued_uploads + other.queued_uploads,
        )


def due(now: datetime) -> list[Due]:
    """Find who has mail due, by one seek per sender and priority: the length of the backlog does not matter."""
    first = """
        SELECT m.{} FROM message m WHERE m.status = 'SCHEDULED' AND m.sender = w.sender
        AND m.priority = p.priority ORDER BY m.scheduled_on, m.id LIMIT 1
    """
    sql = f"""
        WITH RECURSIVE waiting(sender) AS (
            SELECT (SELECT sender FROM message WHERE status = 'SCHEDULED' ORDER BY sender LIMIT 1)
            UNION ALL
            SELECT (SELECT m.sender FROM message m
                    WHERE m.status = 'SCHEDULED' AND m.sender > waiting.sender ORDER BY m.sender LIMIT 1)
            FROM waiting WHERE waiting.sender IS NOT NULL
        )
        SELECT w.sender, p.priority, ({first.format("recipient_count")}) FROM waiting w CROSS JOIN ({_PRIORITIES}) p
        WHERE w.sender IS NOT NULL AND ({first.format("scheduled_on")}) <= {db.param}
    """  # noqa: S608 - only constants and placeholders are put in
    with pooled_connection():
        return [Due(*row) for row in db.execute_sql(sql, (to_column(now),)).fetchall()]


def count_due(lines: Sequence[Due], now: datetime, *, at_most: int) -> int:
    """Count what is due of these lines, at most so many of each."""
    line = (
        "SELECT * FROM (SELECT 1 FROM message WHERE status = 'SCHEDULED'"  # noqa: S608
        f" AND sender = {db.param} AND priority = {db.param} AND scheduled_on <= {db.param} LIMIT {db.param}) AS line"
    )
    sql = f"SELECT COUNT(*) FROM ({' UNION ALL '.join([line] * len(lines))}) AS lines"  # noqa: S608
    values = [value for one in lines for value in (one.sender, one.priority, to_column(now), at_most)]
    with pooled_connection():
        return int(db.execute_sql(sql, values).fetchone()[0])


@dataclass(frozen=True, slots=True)
class Place:
    """Where one message stands in its line, and how many recipients it has."""

    id: str
    sender: str
    priority: int
    scheduled_on: datetime
    recipients: int


@dataclass(frozen=True, slots=True)
class Before:
    """What goes before one message: messages, and their recipients together."""

    messages: int = 0
    recipients: int = 0


def before(place: Place, senders: Sequence[str], by: datetime, *, at_most: int) -> Before:
    """Count what goes before a message on its mailbox, which all of ``senders`` share; never more than ``at_most``.

    That is what is claimed already, what is more urgent and due by then, and what is as urgent and due earlier.
    """
    p = db.param
    waits = "SELECT recipient_count FROM message WHERE status = 'SCHEDULED'"
    urgent = (
        f"SELECT * FROM ({waits} AND sender = {p} AND priority = {p}"  # noqa: S608
        f" AND scheduled_on <= {p} LIMIT {p}) AS urgent"
    )
    earlier = (
        f"SELECT * FROM ({waits} AND sender = {p} AND priority = {p}"  # noqa: S608
        f" AND (scheduled_on, id) < ({p}, {p}) LIMIT {p}) AS earlier"
    )
    claimed = (
        "SELECT * FROM (SELECT recipient_count FROM message WHERE status IN ('QUEUED', 'SENDING')"  # noqa: S608
        f" AND status = 'QUEUED' AND sender = {p} LIMIT {p}) AS claimed"
    )
    parts: list[str] = []
    values: list[Any] = []
    for sender in senders:
        parts.append(claimed)
        values += (sender, at_most)
        for priority in (int(one) for one in Priority if one < place.priority):
            parts.append(urgent)
            values += (sender, priority, to_column(by), at_most)
        parts.append(earlier)
        values += (sender, place.priority, to_column(place.scheduled_on), place.id, at_most)
    sql = (
        "SELECT COUNT(*), COALESCE(SUM(recipient_count), 0) FROM"  # noqa: S608
        f" (SELECT recipient_count FROM ({' UNION ALL '.join(parts)}) AS parts LIMIT {p}) AS line"
    )
    with pooled_connection():
        return Before(*map(int, db.execute_sql(sql, [*values, at_most]).fetchone()))


def upload_bytes(message_id: str) -> int:
    """Answer how many bytes of files a message uploads: 0 for one that fits one request."""
    with pooled_connection():
        return Message.select(Message.upload_bytes).where(Message.id == message_id).scalar() or 0


def refused(now: datetime) -> list[Refused]:
    """List what the limiter refused and what keeps its place: few rows, for the dispatcher asks for room first."""
    sql = (
        f"SELECT sender, priority, recipient_count, scheduled_on <= {db.param} FROM message"  # noqa: S608
        f" WHERE status = 'SCHEDULED' AND {REFUSED} AND (expires_on IS NULL OR expires_on > {db.param})"
    )
    with pooled_connection():
        return [
            Refused(sender, priority, recipients, bool(is_due))
            for sender, priority, recipients, is_due in db.execute_sql(sql, [to_column(now)] * 2).fetchall()
        ]


def unfinished() -> dict[tuple[str, str | None], Unfinished]:
    """Count what is QUEUED, per sender, and what is SENDING, per sender and the mailbox it goes through.

    What is queued goes through whatever its sender has by then; what is being sent stays where it is, also after an
    edit.
    """
    unfinished = "status IN ('QUEUED', 'SENDING')"  # as the partial index says it
    sql = f"""
        SELECT sender, NULL, COUNT(*), SUM(recipient_count), 0, 0, COALESCE(SUM(upload_bytes), 0)
        FROM message WHERE {unfinished} AND status = 'QUEUED' GROUP BY sender
        UNION ALL
        SELECT sender, mailbox_key, 0, 0, COUNT(*), SUM(recipient_count), 0
        FROM message WHERE {unfinished} AND status = 'SENDING' GROUP BY sender, mailbox_key
    """  # noqa: S608 - only constants are put in
    found: defaultdict[tuple[str, str | None], Unfinished] = defaultdict(Unfinished)
    with pooled_connection():
        for sender, mailbox, *counts in db.execute_sql(sql).fetchall():
            found[sender, mailbox] += Unfinished(*map(int, counts))
    return dict(found)


def queued(ids: Sequence[str]) -> list[Message]:
    """Answer which of these messages are QUEUED, in the order they are to be sent: by priority, then by time.

    Only what a send needs of them is read.
    """
    if not ids:
        return []
    with pooled_connection():
        return list(
            Message.select(
                Message.id,
                Message.sender,
                Message.subject,
                Message.attempts,
                Message.expires_on,
                Message.created_on,
                Message.upload_bytes,
                Message.external_count,
            )
            .where(Message.id.in_(ids), Message.now_in(MessageStatus.QUEUED))
            .order_by(Message.priority, Message.scheduled_on, Message.id)
        )


def overdue(status: MessageStatus, now: datetime, *, limit: int) -> list[Message]:
    """Answer messages held in ``status`` (QUEUED, SENDING or UNKNOWN) whose lease is over, or that lost it by hand."""
    held = "status IN ('QUEUED', 'SENDING', 'UNKNOWN')"  # as the partial index says it
    with pooled_connection():
        return list(
            Message.select()
            .where(
                peewee.SQL(held), Message.now_in(status), Message.lease_until.is_null() | (Message.lease_until <= now)
            )
            .order_by(Message.lease_until.asc(nulls="first"))
            .limit(limit)
        )
