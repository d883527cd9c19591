"""What waits and what is in hand: the index seeks that dispatch and recovery decide on. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import peewee

from rqmail.models.base import borrowed, db, to_column
from rqmail.models.message import Message, MessageStatus, Priority

_PRIORITIES = " UNION ALL ".join(f"SELECT {int(p)} AS priority" for p in Priority)


@dataclass(frozen=True, slots=True)
class Due:
    """A sender has at least one message of this priority due."""

    sender: str
    priority: int


@dataclass(frozen=True, slots=True)
class InHand:
    """What of a sender is claimed but not finished: messages and recipients, queued and being sent."""

    queued: int = 0
    queued_recipients: int = 0
    sending: int = 0
    sending_recipients: int = 0


def due(now: datetime) -> list[Due]:
    """Find who has mail due, by one seek per sender and priority: the length of the backlog does not matter."""
    sql = f"""
        WITH RECURSIVE waiting(sender) AS (
            SELECT (SELECT sender FROM message WHERE status = 'SCHEDULED' ORDER BY sender LIMIT 1)
            UNION ALL
            SELECT (SELECT m.sender FROM message m
                    WHERE m.status = 'SCHEDULED' AND m.sender > waiting.sender ORDER BY m.sender LIMIT 1)
            FROM waiting WHERE waiting.sender IS NOT NULL
        )
        SELECT w.sender, p.priority FROM waiting w CROSS JOIN ({_PRIORITIES}) p
        WHERE w.sender IS NOT NULL AND (
            SELECT m.scheduled_on FROM message m WHERE m.status = 'SCHEDULED' AND m.sender = w.sender
            AND m.priority = p.priority ORDER BY m.scheduled_on LIMIT 1) <= {db.param}
    """  # noqa: S608 - only constants and placeholders are put in
    with borrowed():
        return [Due(*row) for row in db.execute_sql(sql, (to_column(now),)).fetchall()]


def in_hand() -> dict[str, InHand]:
    """Count, per sender, what is QUEUED or SENDING now."""
    sql = """
        SELECT sender,
               SUM(CASE WHEN status = 'QUEUED' THEN 1 ELSE 0 END),
               SUM(CASE WHEN status = 'QUEUED' THEN recipient_count ELSE 0 END),
               SUM(CASE WHEN status = 'SENDING' THEN 1 ELSE 0 END),
               SUM(CASE WHEN status = 'SENDING' THEN recipient_count ELSE 0 END)
        FROM message WHERE status IN ('QUEUED', 'SENDING') GROUP BY sender
    """
    with borrowed():
        return {sender: InHand(*map(int, counts)) for sender, *counts in db.execute_sql(sql).fetchall()}


def queued(ids: Sequence[str]) -> list[Message]:
    """Answer which of these messages are QUEUED, in the order they are to be sent: by priority, then by time.

    Only what a send needs of them is read.
    """
    if not ids:
        return []
    with borrowed():
        return list(
            Message.select(
                Message.id, Message.sender, Message.subject, Message.attempts, Message.expires_on, Message.created_on
            )
            .where(Message.id.in_(ids), Message.now_in(MessageStatus.QUEUED))
            .order_by(Message.priority, Message.scheduled_on, Message.id)
        )


def overdue(status: MessageStatus, now: datetime, *, limit: int) -> list[Message]:
    """Answer messages held in ``status`` (QUEUED, SENDING or UNKNOWN) whose lease is over, or that lost it by hand."""
    held = "status IN ('QUEUED', 'SENDING', 'UNKNOWN')"  # as the partial index says it
    with borrowed():
        return list(
            Message.select()
            .where(
                peewee.SQL(held), Message.now_in(status), Message.lease_until.is_null() | (Message.lease_until <= now)
            )
            .order_by(Message.lease_until.asc(nulls="first"))
            .limit(limit)
        )
