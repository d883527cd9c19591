"""Messages found by what a person knows about them, newest first. Reads only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rqmail.models.base import db, is_postgresql, pooled_connection, to_column
from rqmail.models.message import Message, MessageStatus, Priority


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages: every criterion that is given must hold.

    ``recipient`` is a whole address in any case, ``subject`` a part of the subject; messages were handed in from
    ``created_from`` on and before ``created_to``; ``ids`` names them one by one, ``import_id`` the import they came
    with. ``search`` is what a person typed into the one search box: an address or part of one, a domain, a
    recipient's name, a part of the subject, a message id or its beginning, or a provider's request-id.
    ``expires_after`` leaves out what expires by then.
    """

    status: MessageStatus | None = None
    sender: str | None = None
    recipient: str | None = None
    subject: str | None = None
    priority: Priority | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    ids: tuple[str, ...] | None = None
    import_id: str | None = None
    search: str | None = None
    expires_after: datetime | None = None


#: An address as it is typed in full. Where a message goes to it, it is looked up by index and not as a part of others.
_WHOLE_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")

#: A message's id or how it begins: eight hexadecimal digits and more.
_BEGINNING_OF_AN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f-]{0,27})?")

#: A request-id is one word of some length; anything shorter would only make a search read every history.
_REQUEST_ID = re.compile(r"[!-~]{16,200}")

#: What is pasted along with an address or an id: blanks, characters without a width, the brackets of ``Jan <jan@…>``.
_AROUND = " \t\r\n\xa0\xad\u200b\u200e\u200f\u2060\ufeff<>"


def find(wanted: Filter, *, limit: int, after: str | None = None) -> list[Message]:
    """List matching messages, newest first, at most ``limit``; ``after`` is the id of the last one already seen.

    Ids sort by the time they were made, so the order needs no sorting however many messages there are.
    """
    where, values = _conditions(wanted)
    if after is not None:
        where.append(f"id < {db.param}")
        values.append(after)
    sql = f"SELECT * FROM message{_where(where)} ORDER BY id DESC LIMIT {db.param}"  # noqa: S608 - only placeholders
    with pooled_connection():
        return list(Message.raw(sql, *values, limit))


def first_recipients(ids: Sequence[str]) -> dict[str, str]:
    """Answer the address of the first recipient of each of these messages."""
    if not ids:
        return {}
    these = ", ".join([db.param] * len(ids))
    sql = f"SELECT message_id, address FROM recipient WHERE position = 0 AND message_id IN ({these})"  # noqa: S608
    with pooled_connection():
        return dict(db.execute_sql(sql, ids).fetchall())


def addresses(ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Answer the addresses of all recipients of each of these messages, in their order."""
    found: dict[str, list[str]] = {one: [] for one in ids}
    if ids:
        these = ", ".join([db.param] * len(ids))
        sql = f"SELECT message_id, address FROM recipient WHERE message_id IN ({these}) ORDER BY message_id, position"  # noqa: S608
        with pooled_connection():
            for message_id, address in db.execute_sql(sql, ids).fetchall():
                found[message_id].append(address)
    return {one: tuple(some) for one, some in found.items()}


def count(wanted: Filter) -> int:
    """Count the matching messages."""
    where, values = _conditions(wanted)
    with pooled_connection():
        return int(db.execute_sql(f"SELECT COUNT(*) FROM message{_where(where)}", values).fetchone()[0])  # noqa: S608


def count_by_status(wanted: Filter) -> dict[str, int]:
    """Count the matching messages in each status that has any, in one pass."""
    where, values = _conditions(wanted)
    sql = f"SELECT status, COUNT(*) FROM message{_where(where)} GROUP BY status"  # noqa: S608 - only placeholders
    with pooled_connection():
        return {status: int(number) for status, number in db.execute_sql(sql, values).fetchall()}


def find_ids(wanted: Filter, *, limit: int, after: str | None = None) -> list[str]:
    """List the ids of matching messages, oldest first: what an action on a whole filter works through."""
    where, values = _conditions(wanted)
    if after is not None:
        where.append(f"id > {db.param}")
        values.append(after)
    sql = f"SELECT id FROM message{_where(where)} ORDER BY id LIMIT {db.param}"  # noqa: S608 - only placeholders
    with pooled_connection():
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
    if wanted.import_id is not None:
        where.append(f"import_id = {db.param}")
        values.append(wanted.import_id)
    if wanted.search is not None:
        condition, searched = _search(wanted.search)
        where.append(condition)
        values += searched
    if wanted.recipient is not None:
        condition, address = _goes_to(wanted.recipient.strip())
        where.append(condition)
        values.append(address)
    if wanted.subject is not None:
        condition, part = _contains("subject", wanted.subject)
        where.append(condition)
        values.append(part)
    if wanted.priority is not None:
        where.append(f"priority = {db.param}")
        values.append(int(wanted.priority))
    if wanted.created_from is not None:
        where.append(f"created_on >= {db.param}")
        values.append(to_column(wanted.created_from))
    if wanted.created_to is not None:
        where.append(f"created_on < {db.param}")
        values.append(to_column(wanted.created_to))
    if wanted.expires_after is not None:
        where.append(f"(expires_on IS NULL OR expires_on > {db.param})")
        values.append(to_column(wanted.expires_after))
    if wanted.ids is not None:
        where.append(f"id IN ({', '.join([db.param] * len(wanted.ids))})" if wanted.ids else "1 = 0")
        values += wanted.ids
    if any("\x00" in value for value in values if isinstance(value, str)):
        return ["1 = 0"], []  # a character that no text in a database can hold
    return where, values


def _search(typed: str) -> tuple[str, list[object]]:
    """Say which messages the one search box means.

    A whole id or a whole address that has got mail is one look into an index. Everything else is a part of something:
    the messages are walked newest first, and the walk ends as soon as a page is full.
    """
    text = typed.strip(_AROUND)
    if not text:
        return "1 = 1", []
    if _is_message_id(text):
        return f"id = {db.param}", [text.lower()]
    if _WHOLE_ADDRESS.fullmatch(text) and _has_got_mail(text):
        condition, address = _goes_to(text)
        return condition, [address]
    parts = {column: _contains(column, text) for column in ("subject", "address", "name")}
    alternatives = [
        parts["subject"][0],
        "EXISTS (SELECT 1 FROM recipient WHERE message_id = message.id"  # noqa: S608 - only placeholders
        f" AND ({parts['address'][0]} OR {parts['name'][0]}))",
    ]
    values: list[object] = [part for _, part in parts.values()]
    if _BEGINNING_OF_AN_ID.fullmatch(text.lower()):
        alternatives.append(f"id LIKE {db.param}")
        values.append(text.lower() + "%")
    if _REQUEST_ID.fullmatch(text):
        # As the history writes the provider's and our own: "request_id": "…" and "client_request_id": "…".
        alternatives.append(f"attempt_log LIKE {db.param} ESCAPE '!'")
        values.append(f'%!_id": "{_literal(text)}"%')
    return "(" + " OR ".join(alternatives) + ")", values


def _is_message_id(text: str) -> bool:
    """Say whether this is a whole id of ours: they are made from the time, as no request-id is."""
    try:
        return len(text) == 36 and UUID(text).version == 7
    except ValueError:
        return False


def _has_got_mail(address: str) -> bool:
    condition, value = _is_address(address)
    with pooled_connection():
        sql = f"SELECT 1 FROM recipient WHERE {condition} LIMIT 1"  # noqa: S608 - only placeholders
        return db.execute_sql(sql, (value,)).fetchone() is not None


def _goes_to(address: str) -> tuple[str, str]:
    condition, value = _is_address(address)
    return f"id IN (SELECT message_id FROM recipient WHERE {condition})", value  # noqa: S608 - only placeholders


def _is_address(address: str) -> tuple[str, str]:
    """Compare an address in any case, as its index does."""
    if is_postgresql():
        return f"LOWER(address) = {db.param}", address.lower()
    return f"address = {db.param} COLLATE NOCASE", address


def _contains(column: str, text: str) -> tuple[str, str]:
    """Look for a part of a column, in any case."""
    pattern = "%" + _literal(text) + "%"
    if is_postgresql():
        return f"{column} ILIKE {db.param} ESCAPE '!'", pattern
    if text.isascii():  # SQLite's own comparison knows the case of these letters, and is far faster than ours
        return f"{column} LIKE {db.param} ESCAPE '!'", pattern
    return f"LOWER({column}) LIKE {db.param} ESCAPE '!'", pattern.lower()


def _where(conditions: list[str]) -> str:
    return " WHERE " + " AND ".join(conditions) if conditions else ""


def _literal(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
