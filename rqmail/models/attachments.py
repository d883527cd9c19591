"""Attached files: which message carries which, and the bytes of each, kept once per content and in pieces.

A content is taken in by its hash. It stays while a message refers to it, and for a while after it last came in: whoever
is about to store a message that refers to it has that long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee

from rqmail.models.base import (
    BaseModel,
    UtcDateTimeField,
    db,
    pooled_connection,
    rows_of_bytes,
    to_column,
    transaction,
)
from rqmail.models.content import AttachedFile
from rqmail.models.message import Message

#: Bytes of one piece: what is in memory at once when a file is stored or read.
PIECE_BYTES = 256 * 1024

#: A content that came in within this time is not written down as having come in again: a logo that every mail
#: carries would have all senders wait for one row.
_FRESH = timedelta(hours=1)


class AttachmentContent(BaseModel):
    """The bytes of a file, kept once: as pieces here, or at the address ``place``; ``kept_on`` is when it last came."""

    sha256 = peewee.CharField(max_length=64, primary_key=True)
    size = peewee.BigIntegerField()
    place = peewee.TextField(null=True)
    kept_on = UtcDateTimeField()

    class Meta:
        """Name the table in full."""

        table_name = "attachment_content"


class AttachmentPiece(BaseModel):
    """One piece of a content: all but the last have :data:`PIECE_BYTES`."""

    content = peewee.ForeignKeyField(AttachmentContent, column_name="sha256", on_delete="CASCADE")
    number = peewee.IntegerField()
    bytes = peewee.BlobField()

    class Meta:
        """Name the table in full; a piece is named by its content and its place there."""

        table_name = "attachment_piece"
        primary_key = peewee.CompositeKey("content", "number")


class MessageAttachment(BaseModel):
    """One file of a message; what :class:`~rqmail.models.content.AttachedFile` says of it."""

    message = peewee.ForeignKeyField(Message, on_delete="CASCADE", backref="attachments")
    position = peewee.SmallIntegerField()
    name = peewee.TextField()
    content_type = peewee.CharField(max_length=255)
    size = peewee.BigIntegerField()
    content = peewee.ForeignKeyField(AttachmentContent, column_name="sha256")
    is_inline = peewee.BooleanField()
    content_id = peewee.CharField(max_length=255, null=True)

    class Meta:
        """Name the table in full; a file is named by its message and its place there."""

        table_name = "message_attachment"
        primary_key = peewee.CompositeKey("message", "position")


@dataclass(frozen=True, slots=True)
class Kept:
    """A content that is kept: how large, and where if not in pieces in the database; of those the first is read along.

    ``first`` is empty where it was not read.
    """

    sha256: str
    size: int
    place: str | None
    first: bytes = b""


def came_in_again(sha256: str, now: datetime) -> bool:
    """Say whether the content is kept already; if so, it stays for a while from ``now`` on.

    One that is just being deleted is waited for, and then is not kept.
    """
    with pooled_connection():
        kept_on = AttachmentContent.select(AttachmentContent.kept_on).where(AttachmentContent.sha256 == sha256).scalar()
        if kept_on is None:
            return False
        if kept_on > now - _FRESH:
            return True
        statement = AttachmentContent.update(kept_on=now).where(AttachmentContent.sha256 == sha256)
        return bool(statement.execute())


def keep_in_pieces(sha256: str, size: int, pieces: Iterable[bytes], now: datetime) -> bool:
    """Store a content piece by piece, in one transaction; say whether it was new.

    Of two at once the second waits for the first. What ``pieces`` raises undoes all of it.
    """
    with transaction():
        if not _insert(sha256, size, None, now):
            return False
        sql = f"INSERT INTO attachment_piece (sha256, number, bytes) VALUES ({', '.join([db.param] * 3)})"  # noqa: S608
        for number, piece in enumerate(pieces):
            db.execute_sql(sql, (sha256, number, piece))
    return True


def keep_at(place: str, sha256: str, size: int, now: datetime) -> bool:
    """Write down that a content is kept at ``place``; say whether it was new."""
    with transaction():
        return _insert(sha256, size, place, now)


def find(sha256: str) -> Kept | None:
    """Answer what is known of a content, its first piece with it; ``None`` where it is not kept."""
    sql = (
        "SELECT size, place, bytes FROM attachment_content LEFT JOIN attachment_piece"  # noqa: S608 - only placeholders
        " ON attachment_piece.sha256 = attachment_content.sha256 AND number = 0"
        f" WHERE attachment_content.sha256 = {db.param}"
    )
    for size, place, first in rows_of_bytes(sql, (sha256,)):
        return Kept(sha256, size, place, first or b"")
    return None


def pieces(sha256: str, first: int, number: int) -> list[bytes]:
    """Answer at most ``number`` pieces of a content from the ``first`` on, up to one that is not there."""
    sql = (
        f"SELECT number, bytes FROM attachment_piece WHERE sha256 = {db.param}"  # noqa: S608 - only placeholders
        f" AND number >= {db.param} AND number < {db.param} ORDER BY number"
    )
    found = rows_of_bytes(sql, (sha256, first, first + number))
    return [piece for expected, (at, piece) in enumerate(found, first) if at == expected]


def delete_unreferenced(before: datetime, *, limit: int) -> list[Kept]:
    """Delete at most ``limit`` contents that no message refers to and that last came in before then; answer them.

    Safe beside an intake that is just storing the same content: it has moved ``kept_on`` on first, which the second
    look at the row, under its lock, sees.
    """
    unwanted = (
        f"kept_on < {db.param} AND NOT EXISTS"  # noqa: S608 - only names of ours
        " (SELECT 1 FROM message_attachment WHERE message_attachment.sha256 = attachment_content.sha256)"
    )
    moment = to_column(before)
    sql = (
        f"DELETE FROM attachment_content WHERE {unwanted} AND sha256 IN"  # noqa: S608 - only conditions of ours
        f" (SELECT sha256 FROM attachment_content WHERE {unwanted} ORDER BY kept_on LIMIT {db.param})"
        " RETURNING sha256, size, place"
    )
    with transaction():
        return [Kept(*row) for row in db.execute_sql(sql, (moment, moment, limit)).fetchall()]


def attached_to(ids: Sequence[str]) -> dict[str, list[AttachedFile]]:
    """Answer the files of these messages, in their order; messages without any are left out."""
    found: dict[str, list[AttachedFile]] = {}
    these = ", ".join([db.param] * len(ids)) or "NULL"
    sql = (
        "SELECT message_id, name, content_type, size, sha256, is_inline, content_id FROM message_attachment"  # noqa: S608
        f" WHERE message_id IN ({these}) ORDER BY message_id, position"
    )
    with pooled_connection():
        for message_id, name, content_type, size, sha256, is_inline, content_id in db.execute_sql(sql, ids).fetchall():
            one = AttachedFile(name, content_type, size, sha256, bool(is_inline), content_id)
            found.setdefault(message_id, []).append(one)
    return found


def _insert(sha256: str, size: int, place: str | None, now: datetime) -> bool:
    sql = (
        "INSERT INTO attachment_content (sha256, size, place, kept_on)"  # noqa: S608
        f" VALUES ({', '.join([db.param] * 4)}) ON CONFLICT (sha256) DO NOTHING RETURNING sha256"
    )
    return db.execute_sql(sql, (sha256, size, place, to_column(now))).fetchone() is not None
