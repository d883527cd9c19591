"""Messages found by what a person knows about them, newest first. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rqmail.models.base import borrowed, db, to_column
from rqmail.models.message import Message, MessageStatus, Priority


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages: every criterion that is given must hold.

    ``recipient`` is a whole address in any case, ``subject`` a part of the subject; messages were handed in from
    ``created_from`` on and before ``created_to``; ``ids`` names them one by one.
    """

    status: MessageStatus | None = None
    sender: str | None = None
    recipient: str | None = None
    subject: str | None = None
    priority: Priority | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    ids: tuple[str, ...] | None = None


def find(wanted: Filter, *, limit: int, after: str | None = None) -> list[Message]:
    """List matching messages, newest first, at most ``limit``; ``after`` is the id of the last one already seen.

    Ids sort by the time they were made, so the order needs no sorting however many messages there are.
    """
    where, values = _conditions(wanted)
    if after is not None:
        where.append(f"id < {db.param}")
        values.append(after)
    sql = f"SELECT * FROM message{_where(where)} ORDER BY id DESC LIMIT {db.param}"  # noqa: S608 - only placeholders
    with borrowed():
        return list(Message.raw(sql, *values, limit))


def count(wanted: Filter) -> int:
    """Count the matching messages."""
    where, values = _conditions(wanted)
    with borrowed():
        return int(db.execute_sql(f"SELECT COUNT(*) FROM message{_where(where)}", values).fetchone()[0])  # noqa: S608


def count_by_status(wanted: Filter) -> dict[str, int]:
    """Count the matching messages in each status that has any, in one pass."""
    where, values = _conditions(wanted)
    sql = f"SELECT status, COUNT(*) FROM message{_where(where)} GROUP BY status"  # noqa: S608 - only placeholders
    with borrowed():
        return {status: int(number) for status, number in db.execute_sql(sql, values).fetchall()}


def find_ids(wanted: Filter, *, limit: int, after: str | None = None) -> list[str]:
    """List the ids of matching messages, oldest first: what an action on a whole filter works through."""
    where, values = _conditions(wanted)
    if after is not None:
        where.append(f"id > {db.param}")
        values.append(after)
    sql = f"SELECT id FROM message{_where(where)} ORDER BY id LIMIT {db.param}"  # noqa: S608 - only placeholders
    with borrowed():
        return [row[0] for row in db.execute_sql(sql, [*values, limit]).fetchall()]


def _conditions(wanted: Filter) -> tuple[list[str], list[object]]:
    where: list[str] = []
    values: list[object] = []
    if wanted.status is not None:
        where.append(f"status = {db.param}")
        values.append(wanted.status.value)
    if wanted.sender is not None:
        where.append(f"sender = {db.param}")
        values.append(wanted.sender)
    if wanted.recipient is not None:
        address = wanted.recipient.strip()
        holders = f"SELECT message_id FROM recipient WHERE address IN ({db.param}, {db.param})"  # noqa: S608
        where.append(f"id IN ({holders})")
        values += [address, address.lower()]
    if wanted.subject is not None:
        where.append(f"LOWER(subject) LIKE {db.param} ESCAPE '!'")
        values.append("%" + _literal(wanted.subject.lower()) + "%")
    if wanted.priority is not None:
        where.append(f"priority = {db.param}")
        values.append(int(wanted.priority))
    if wanted.created_from is not None:
        where.append(f"created_on >= {db.param}")
        values.append(to_column(wanted.created_from))
    if wanted.created_to is not None:
        where.append(f"created_on < {db.param}")
        values.append(to_column(wanted.created_to))
    if wanted.ids is not None:
        where.append(f"id IN ({', '.join([db.param] * len(wanted.ids))})" if wanted.ids else "1 = 0")
        values += wanted.ids
    return where, values


def _where(conditions: list[str]) -> str:
    return " WHERE " + " AND ".join(conditions) if conditions else ""


def _literal(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
