"""A message that is handed in: what is known of it, and the INSERTs that write it with content, files, recipients."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from uuid_utils import uuid7

from rqmail.errors import InvalidInputError
from rqmail.models.base import db, is_postgresql, pooled_connection, to_column, transaction
from rqmail.models.content import NO_EXTRAS, AttachedFile, Extras
from rqmail.models.history import Event, line
from rqmail.models.states import MessageStatus

_as_json = json.JSONEncoder(ensure_ascii=False).encode


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
class LeftOut:
    """Somebody a message does not go to because the address is suppressed: why (``hard-bounce``, …), and since when."""

    address: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A checked message that is to be submitted; ``sender`` is as :class:`Message` stores it.

    The bytes of ``attachments`` are kept before the message is stored. Who was ``left_out`` is no recipient.
    """

    sender: str
    subject: str
    recipients: tuple[NewRecipient, ...]
    text: str | None = None
    html: str | None = None
    requested_on: datetime | None = None
    expires_on: datetime | None = None
    priority: Priority = Priority.NORMAL
    attachments: tuple[AttachedFile, ...] = ()
    extras: Extras = NO_EXTRAS
    left_out: tuple[LeftOut, ...] = ()
    id: str = field(default_factory=lambda: str(uuid7()))

    @property
    def upload_bytes(self) -> int | None:
        """How many bytes of files are uploaded by and large; ``None`` where all of it fits one request.

        The mailer knows to the byte, and its word is written down before the mail goes out.
        """
        if not self.attachments or self.extras.raw:
            return None
        in_base64 = [(one.size + 2) // 3 * 4 for one in self.attachments]
        bodies = sum(len(body.encode(errors="replace")) for body in (self.text, self.html) if body)
        around = _BYTES_EACH * (len(self.recipients) + len(self.attachments))
        if sum(in_base64) + bodies + around <= _ONE_REQUEST:
            return None
        sizes = zip(in_base64, self.attachments, strict=True)
        return sum(encoded if encoded + _BYTES_EACH <= _ONE_REQUEST else one.size for encoded, one in sizes)


@dataclass(frozen=True, slots=True)
class NewKey:
    """What makes the request for a message recognisable when it comes again: who sends it, and under which key."""

    caller: str
    key: str
    fingerprint: str
    message_id: str


#: Bytes of one request to Graph, and of a recipient or of what describes a file in it.
_ONE_REQUEST = 4 * 1024 * 1024
_BYTES_EACH = 200

#: Runs one statement with its values.
_Execute = Callable[[str, Sequence[Any]], object]

#: A table's name, its columns, and rows of them.
_Rows = tuple[str, str, Sequence[tuple[Any, ...]]]

#: What tells one database, and our tables in it, from others.
_WHICH = (
    "current_database()::text, extract(epoch FROM pg_postmaster_start_time())::text, to_regclass('message')::oid::text"
)

#: Answers a row within a transaction, as its second statement at the earliest; outside one each begins its own.
_IN_TRANSACTION = "SELECT 1 WHERE transaction_timestamp() < statement_timestamp()"


def insert(
    batch: Sequence[NewMessage],
    now: datetime,
    by: str | None = None,
    import_id: str | None = None,
    campaign_id: int | None = None,
    keys: Sequence[NewKey] = (),
) -> list[str]:
    """Insert ``batch``, handed in by ``by``, as SCHEDULED, all or none, and answer the ids in order.

    The content of a campaign's messages is not stored: it is rendered when they are sent. ``keys`` are written down
    with them; where one of these is there already, one of ``TAKEN_ERRORS`` is raised.
    """
    with pooled_connection() if is_postgresql() else transaction():  # there it is one statement
        _write(db.execute_sql, batch, now, by, import_id, campaign_id, keys)
    return [new.id for new in batch]


def insert_within(connection: Any, batch: Sequence[NewMessage], now: datetime, by: str | None = None) -> None:
    """Insert ``batch`` as :func:`insert` does, in the transaction that is open on a caller's ``connection``.

    It is a DB-API connection (psycopg's, or what Django and SQLAlchemy put around it) to the PostgreSQL database that
    holds our tables; raises ``InvalidInputError`` for any other.
    """
    allowed = "an open connection to the PostgreSQL database of RQMAIL_DATABASE_URL"
    if not is_postgresql() or not callable(getattr(connection, "cursor", None)):
        raise InvalidInputError("connection", type(connection).__name__, allowed)
    with pooled_connection():
        ours = tuple(db.execute_sql(f"SELECT {_WHICH}").fetchone())
    cursor = connection.cursor()
    try:
        cursor.execute(f"SELECT 1 WHERE ({_WHICH}) = (%s, %s, %s)", ours)
        if cursor.fetchone() is None:
            raise InvalidInputError("connection", "a connection to another database or schema", allowed)
        cursor.execute(_IN_TRANSACTION)
        if cursor.fetchone() is None:
            raise InvalidInputError("connection", "a connection without a transaction", "one with a transaction begun")
        _write(cursor.execute, batch, now, by)
    finally:
        cursor.close()


def _write(
    execute: _Execute,
    batch: Sequence[NewMessage],
    now: datetime,
    by: str | None,
    import_id: str | None = None,
    campaign_id: int | None = None,
    keys: Sequence[NewKey] = (),
) -> None:
    moment = to_column(now)
    history = "" if by is None else line(Event(now, "handed-in", by=by))
    rows = []
    for new in batch:
        requested = moment if new.requested_on is None else to_column(new.requested_on)
        expires = None if new.expires_on is None else to_column(new.expires_on)
        rows.append(
            (
                new.id,
                new.sender,
                MessageStatus.SCHEDULED.value,
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
                import_id,
                new.upload_bytes,
                campaign_id,
            )
        )
    insert_together(
        execute,
        (
            "message",
            "id, sender, status, priority, subject, recipient_count, created_on, requested_on, scheduled_on,"
            " expires_on, attempts, deferrals, attempt_log, import_id, upload_bytes, campaign_id",
            rows,
        ),
        (
            "message_content",
            "message_id, text, html, extras",
            [(new.id, new.text, new.html, new.extras.to_column()) for new in batch] if campaign_id is None else [],
        ),
        (
            "recipient",
            "message_id, position, kind, address, name",
            [
                (new.id, position, to.kind.value, to.address, to.name)
                for new in batch
                for position, to in enumerate(new.recipients)
            ],
        ),
        (
            "message_attachment",
            "message_id, position, name, content_type, size, sha256, is_inline, content_id",
            [
                (new.id, position, one.name, one.content_type, one.size, one.sha256, one.is_inline, one.content_id)
                for new in batch
                for position, one in enumerate(new.attachments)
            ],
        ),
        (
            "recipient_result",
            "message_id, address, result, code, at, probable",
            [(new.id, one.address, "suppressed", one.reason, moment, False) for new in batch for one in new.left_out],
        ),
        (
            "idempotency_key",
            "caller, key, fingerprint, message_ids, created_on",
            # In one order for everybody: two that write the same keys wait for each other, not each for the other.
            sorted((one.caller, one.key, one.fingerprint, _as_json([one.message_id]), moment) for one in keys),
        ),
    )


def insert_together(execute: _Execute, *tables: _Rows) -> None:
    """Insert rows of several tables (name, columns, rows): on PostgreSQL in one statement, else in one for each.

    PostgreSQL looks at foreign keys when the statement is done, so their order is free.
    """
    filled = [one for one in tables if one[2]]
    if not is_postgresql() or not filled:
        for table, columns, rows in filled:
            insert_rows(execute, table, columns, rows)
        return
    *others, last = [_from_json(table, columns) for table, columns, _ in filled]
    before = ", ".join(f"part{number} AS ({one})" for number, one in enumerate(others))
    execute(f"WITH {before} {last}" if before else last, [_json_of(columns, rows) for _, columns, rows in filled])


def insert_rows(execute: _Execute, table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert ``rows`` in as few statements as the database's limits allow."""
    if not rows:
        return
    if is_postgresql():
        execute(_from_json(table, columns), (_json_of(columns, rows),))
        return
    width = columns.count(",") + 1
    per_statement = 30_000 // width
    for start in range(0, len(rows), per_statement):
        part = rows[start : start + per_statement]
        one = "(" + ", ".join([db.param] * width) + ")"
        sql = f"INSERT INTO {table} ({columns}) VALUES {', '.join([one] * len(part))}"  # noqa: S608 - names are ours
        execute(sql, [value for row in part for value in row])


def _from_json(table: str, columns: str) -> str:
    """Write the statement that inserts rows given as one parameter, in JSON.

    To read a statement with a place for each value takes PostgreSQL longer than all the rest of an insert.
    """
    taken = f"SELECT {columns} FROM json_populate_recordset(NULL::{table}, {db.param}::json)"  # noqa: S608 - names are ours
    return f"INSERT INTO {table} ({columns}) {taken}"


def _json_of(columns: str, rows: Sequence[tuple[Any, ...]]) -> str:
    names = columns.split(", ")
    return _as_json([dict(zip(names, row, strict=True)) for row in rows])
