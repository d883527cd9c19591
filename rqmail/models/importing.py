"""Imports: files of messages that were checked, kept in parts, and become messages a part at a time.

A part is deleted in the transaction that inserts its messages, so each becomes messages exactly once, whoever goes on
with it and however often somebody dies over it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import peewee

from rqmail.errors import ConflictError, NotFoundError
from rqmail.models.base import BaseModel, UtcDateTimeField, db, pooled_connection, to_column, transaction
from rqmail.models.content import NO_EXTRAS, AttachedFile, extras_of
from rqmail.models.message import LeftOut, Message, MessageStatus, NewMessage, NewRecipient, Priority, RecipientKind


class ImportState(StrEnum):
    """Where an import is on its way."""

    CHECKING = "CHECKING"  #: its file is being read; nobody has been told of it
    CHECKED = "CHECKED"  #: every row is good and kept aside, none is a message yet
    REFUSED = "REFUSED"  #: a row is bad, so nothing is stored; what is wrong is kept for a while
    STORING = "STORING"  #: its parts become messages, one after another
    DONE = "DONE"
    UNDONE = "UNDONE"


_S = ImportState

#: What may be undone: a file somebody has been told is good, and whatever came of it.
_UNDOABLE = (_S.CHECKED, _S.STORING, _S.DONE)

#: Nothing becomes of these any more but what becomes of their messages.
_ENDED = (_S.REFUSED, _S.DONE, _S.UNDONE)


class MessageImport(BaseModel):
    """One file that was handed in; ``expected`` messages come of it, ``stored`` of them are there by now.

    ``report`` is JSON, what was found out about the file. Before ``lease_until`` whoever checks or stores it is alive.
    """

    id = peewee.CharField(max_length=36, primary_key=True)
    who = peewee.CharField(max_length=80)
    file_name = peewee.TextField()
    sender = peewee.CharField(max_length=80)
    state = peewee.CharField(max_length=10)
    row_count = peewee.IntegerField(default=0)
    expected = peewee.IntegerField(default=0)
    stored = peewee.IntegerField(default=0)
    report = peewee.TextField(default="{}")
    created_on = UtcDateTimeField()
    lease_until = UtcDateTimeField(null=True)
    ended_on = UtcDateTimeField(null=True)
    ended_by = peewee.CharField(max_length=80, null=True)

    class Meta:
        """Name the table in full."""

        table_name = "message_import"


class ImportPart(BaseModel):
    """A part of a file that is kept aside, packed: messages that are not stored yet, or the bad rows."""

    import_ = peewee.ForeignKeyField(MessageImport, column_name="import_id", on_delete="CASCADE")
    number = peewee.IntegerField()
    content = peewee.BlobField()

    class Meta:
        """Name the table in full; a part is named by its import and its place there."""

        table_name = "message_import_part"
        primary_key = peewee.CompositeKey("import_", "number")


# --- a file is checked ---------------------------------------------------------------------------------------------


def begin(import_id: str, who: str, file_name: str, sender: str, *, now: datetime, lease_until: datetime) -> None:
    """Write down that a file is being checked."""
    with pooled_connection():
        MessageImport.create(
            id=import_id,
            who=who,
            file_name=file_name,
            sender=sender,
            state=_S.CHECKING.value,
            created_on=now,
            lease_until=lease_until,
        )


def keep_messages(import_id: str, number: int, messages: Sequence[NewMessage], *, lease_until: datetime) -> None:
    """Keep a part of checked messages aside."""
    _keep(import_id, number, [_flat(message) for message in messages], lease_until)


def keep_bad_rows(import_id: str, number: int, rows: Sequence[Any], *, lease_until: datetime) -> None:
    """Keep a part of bad rows aside: JSON values, as :func:`bad_rows` answers them."""
    _keep(import_id, number, rows, lease_until)


def drop_bad_rows(moment: datetime) -> None:
    """Drop the bad rows of files that were refused before then; what was found out about them stays."""
    old = MessageImport.select(MessageImport.id).where(
        MessageImport.state == _S.REFUSED.value, MessageImport.created_on < moment
    )
    with pooled_connection():
        ImportPart.delete().where(ImportPart.import_.in_(old)).execute()


def drop_parts(import_id: str) -> None:
    """Drop what has been kept aside."""
    with pooled_connection():
        ImportPart.delete().where(ImportPart.import_ == import_id).execute()


def end_check(
    import_id: str, state: ImportState, *, rows: int, expected: int, report: Any, now: datetime, lease_until: datetime
) -> None:
    """Say what the check came to: CHECKED, STORING at once, or REFUSED."""
    ended = now if state is _S.REFUSED else None
    changed = _change(
        import_id,
        (_S.CHECKING,),
        state=state.value,
        row_count=rows,
        expected=expected,
        report=json.dumps(report),
        lease_until=lease_until,
        ended_on=ended,
    )
    if not changed:
        raise _vanished()


def forget(import_id: str) -> None:
    """Delete an import of which no message was made, with its parts."""
    with pooled_connection():
        MessageImport.delete().where(MessageImport.id == import_id).execute()


# --- its parts become messages -------------------------------------------------------------------------------------


def begin_storing(import_id: str, *, lease_until: datetime) -> None:
    """Let the parts of a CHECKED import become messages; raises ``ConflictError`` when it is anywhere else."""
    if not _change(import_id, (_S.CHECKED,), state=_S.STORING.value, lease_until=lease_until):
        raise ConflictError(f"the import is {find(import_id).state}: only one that is CHECKED can be stored")


def store_next(import_id: str, *, now: datetime, lease_until: datetime) -> list[NewMessage] | None:
    """Make the next part of a STORING import messages, and answer them: ``None`` when it is at its end, or undone.

    All of it is one transaction. The row of the import is taken first: storers and whoever undoes it wait for each
    other there.
    """
    with transaction():
        mine = db.execute_sql(
            f"UPDATE message_import SET lease_until = {db.param} WHERE id = {db.param} AND state = 'STORING'"  # noqa: S608
            " RETURNING sender, who",
            (to_column(lease_until), import_id),
        ).fetchone()
        if mine is None:
            return None
        sender, who = mine
        part = db.execute_sql(
            f"DELETE FROM message_import_part WHERE import_id = {db.param} AND number ="  # noqa: S608
            f" (SELECT MIN(number) FROM message_import_part WHERE import_id = {db.param}) RETURNING content",
            (import_id, import_id),
        ).fetchone()
        if part is None:
            _change(import_id, (_S.STORING,), state=_S.DONE.value, lease_until=None, ended_on=now)
            return None
        messages = [_message(sender, flat) for flat in _unpacked(part[0])]
        Message.submit(messages, now, who, import_id=import_id)
        MessageImport.update(stored=MessageImport.stored + len(messages)).where(MessageImport.id == import_id).execute()
    return messages


def undo(import_id: str, *, now: datetime, by: str) -> int:
    """Cancel every message of an import in one transaction, and answer how many they were.

    Raises ``ConflictError`` when one of them has gone further than to a queue: then nothing is changed.
    """
    with transaction():
        if not _change(import_id, _UNDOABLE, **_ended(now, by)):
            raise ConflictError(f"the import is {find(import_id).state}: there is nothing to undo")
        cancelled = Message.cancel_import(import_id, now, by)
        counts = count_by_status(import_id)
        begun = {
            status: number
            for status, number in counts.items()
            if status not in {MessageStatus.CANCELLED, MessageStatus.EXPIRED}
        }
        found = find(import_id)
        gone = found.stored - sum(counts.values())
        if gone > 0:
            begun["deleted"] = gone
        if begun:
            told = ", ".join(f"{number:,} {status}" for status, number in sorted(begun.items()))
            raise ConflictError(
                f"sending has begun: of {found.stored:,} messages {told}. What still waits can be cancelled"
            )
        drop_parts(import_id)
    return cancelled


def stop_storing(begun_before: datetime, now: datetime, by: str) -> list[str]:
    """Make no more messages of imports that were being stored when a backup was taken; answer their ids.

    What of the rest became messages after the backup, and was sent, nobody knows any more.
    """
    stopped = [one for one in being_stored(begun_before) if _change(one, [_S.STORING], **_ended(now, by))]
    for import_id in stopped:
        drop_parts(import_id)
    return stopped


def being_stored(begun_before: datetime) -> list[str]:
    """List the imports begun before then whose parts are still becoming messages."""
    with pooled_connection():
        found = MessageImport.select(MessageImport.id).where(
            peewee.SQL("state IN ('CHECKING', 'STORING')"),  # as the partial index says it
            MessageImport.state == _S.STORING.value,
            MessageImport.created_on <= begun_before,
        )
        return [one.id for one in found.order_by(MessageImport.id)]


# --- it is forgotten -----------------------------------------------------------------------------------------------


def count_forgettable(before: datetime) -> int:
    """Count the imports that ended before then, as did every message of them that there still is."""
    with pooled_connection():
        return int(MessageImport.select().where(_forgettable(before)).count())


def delete_forgettable(before: datetime, *, limit: int) -> int:
    """Delete at most ``limit`` of their records, with what was kept aside, and answer how many."""
    old = MessageImport.select(MessageImport.id).where(_forgettable(before)).limit(limit)
    with pooled_connection():
        return int(MessageImport.delete().where(MessageImport.id.in_(old)).execute())


def _forgettable(before: datetime) -> Any:
    kept = Message.select(peewee.SQL("1")).where(Message.import_id == MessageImport.id, ~Message.final_before(before))
    ended = MessageImport.state.in_([state.value for state in _ENDED]) & (MessageImport.ended_on < before)
    return ended & ~peewee.fn.EXISTS(kept)


# --- what is read of it --------------------------------------------------------------------------------------------


def find(import_id: str) -> MessageImport:
    """Answer an import; raises ``NotFoundError`` when there is none of this id."""
    with pooled_connection():
        found = MessageImport.get_or_none(MessageImport.id == import_id)
    if found is None:
        raise NotFoundError("import", import_id)
    row: MessageImport = found
    return row


def recent(*, limit: int, after: str | None = None) -> list[MessageImport]:
    """List imports whose check has ended, newest first; ``after`` is the id of the last one already seen."""
    wanted = MessageImport.select().where(MessageImport.state != _S.CHECKING.value)
    if after is not None:
        wanted = wanted.where(MessageImport.id < after)
    with pooled_connection():
        return list(wanted.order_by(MessageImport.id.desc()).limit(limit))


def left_behind(state: ImportState, now: datetime) -> list[str]:
    """List the imports in ``state`` (CHECKING or STORING) whose lease is over: whoever was at it is gone."""
    with pooled_connection():
        found = MessageImport.select(MessageImport.id).where(
            peewee.SQL("state IN ('CHECKING', 'STORING')"),  # as the partial index says it
            MessageImport.state == state.value,
            MessageImport.lease_until <= now,
        )
        return [one.id for one in found.order_by(MessageImport.id)]


def checked_before(moment: datetime) -> list[str]:
    """List the CHECKED imports, which nobody has had stored, that were begun before then."""
    with pooled_connection():
        found = MessageImport.select(MessageImport.id).where(
            MessageImport.state == _S.CHECKED.value, MessageImport.created_on < moment
        )
        return [one.id for one in found]


def count_by_status(import_id: str) -> dict[str, int]:
    """Count an import's messages in each status that has any."""
    sql = f"SELECT status, COUNT(*) FROM message WHERE import_id = {db.param} GROUP BY status"  # noqa: S608
    with pooled_connection():
        return {status: int(number) for status, number in db.execute_sql(sql, (import_id,)).fetchall()}


def kept_messages(import_id: str, number: int) -> list[NewMessage]:
    """Answer the messages of one part that is kept aside; none where there is no such part (any more)."""
    with pooled_connection():
        part = ImportPart.get_or_none(ImportPart.import_ == import_id, ImportPart.number == number)
        sender = find(import_id).sender
    return [] if part is None else [_message(sender, flat) for flat in _unpacked(part.content)]


def bad_rows(import_id: str, number: int) -> list[Any] | None:
    """Answer one part of a REFUSED import's bad rows; ``None`` past the last."""
    with pooled_connection():
        part = ImportPart.get_or_none(ImportPart.import_ == import_id, ImportPart.number == number)
    return None if part is None else _unpacked(part.content)


def _ended(now: datetime, by: str) -> dict[str, Any]:
    return {"state": _S.UNDONE.value, "lease_until": None, "ended_on": now, "ended_by": by}


def _change(import_id: str, from_: Sequence[ImportState], **changes: Any) -> bool:
    statement = MessageImport.update(**changes).where(
        MessageImport.id == import_id, MessageImport.state.in_([state.value for state in from_])
    )
    with pooled_connection():
        return bool(statement.execute())


def _vanished() -> ConflictError:
    return ConflictError("the check took so long that its import was taken for left behind; try again")


# --- how a part is packed ------------------------------------------------------------------------------------------


def _keep(import_id: str, number: int, values: Sequence[Any], lease_until: datetime) -> None:
    packed = zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 1)
    with transaction():
        if not _change(import_id, (_S.CHECKING,), lease_until=lease_until):
            raise _vanished()
        ImportPart.insert(import_=import_id, number=number, content=packed).execute()


def _unpacked(content: bytes | memoryview) -> list[Any]:
    values: list[Any] = json.loads(zlib.decompress(bytes(content)))
    return values


def _flat(message: NewMessage) -> list[Any]:
    return [
        message.id,
        message.subject,
        [(to.kind.value, to.address, to.name) for to in message.recipients],
        message.text,
        message.html,
        None if message.requested_on is None else message.requested_on.isoformat(),
        None if message.expires_on is None else message.expires_on.isoformat(),
        int(message.priority),
        message.extras.to_column(),
        [
            (one.name, one.content_type, one.size, one.sha256, one.is_inline, one.content_id)
            for one in message.attachments
        ],
        [(one.address, one.reason, one.since.isoformat()) for one in message.left_out],
    ]


def _message(sender: str, flat: Sequence[Any]) -> NewMessage:
    message_id, subject, recipients, text, html, requested_on, expires_on, priority, *content = flat
    said: list[Any] = [None, [], []]
    said[: len(content)] = content  # a part that was kept aside by an earlier version says less
    extras, files, left_out = said
    return NewMessage(
        sender=sender,
        subject=subject,
        recipients=tuple(NewRecipient(_KINDS[kind], address, name) for kind, address, name in recipients),
        text=text,
        html=html,
        requested_on=None if requested_on is None else datetime.fromisoformat(requested_on),
        expires_on=None if expires_on is None else datetime.fromisoformat(expires_on),
        priority=Priority(priority),
        attachments=tuple(AttachedFile(*one) for one in files),
        extras=extras_of(extras) or NO_EXTRAS,
        left_out=tuple(LeftOut(address, why, datetime.fromisoformat(since)) for address, why, since in left_out),
        id=message_id,
    )


_KINDS = {kind.value: kind for kind in RecipientKind}
