"""Messages found by what a person knows about them, newest first. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from rqmail.errors import NotFoundError
from rqmail.models.base import borrowed, db, to_column
from rqmail.models.message import Message, MessageStatus


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages: every criterion that is given must hold; ``recipient`` is a whole address in any case."""

    status: MessageStatus | None = None
    sender: str | None = None
    recipient: str | None = None
    subject: str | None = None


def find(wanted: Filter, *, limit: int, after: str | None = None) -> list[Message]:
    """List matching messages, newest first, at most ``limit``; ``after`` is the id of the last one already seen."""
    where, values = _conditions(wanted)
    with borrowed():
        if after is not None:
            last = Message.get_or_none(Message.id == after)
            if last is None:
                raise NotFoundError("message", after)
            where.append(f"(created_on, id) < ({db.param}, {db.param})")
            values += [to_column(last.created_on), last.id]
        sql = (
            "SELECT * FROM message"  # noqa: S608 - only placeholders are put in
            + (" WHERE " + " AND ".join(where) if where else "")
            + f" ORDER BY created_on DESC, id DESC LIMIT {db.param}"
        )
        return list(Message.raw(sql, *values, limit))


def find_ids(wanted: Filter, *, limit: int) -> list[str]:
    """List the ids of matching messages, oldest first: what an action on a whole filter works through."""
    where, values = _conditions(wanted)
    sql = (
        "SELECT id FROM message"  # noqa: S608 - only placeholders are put in
        + (" WHERE " + " AND ".join(where) if where else "")
        + f" ORDER BY created_on, id LIMIT {db.param}"
    )
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
    return where, values


def _literal(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
