"""What messages say and to whom, fetched for many at once. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rqmail.models.attachments import attached_to
from rqmail.models.base import db, pooled_connection
from rqmail.models.content import NO_EXTRAS, AttachedFile, Extras, extras_of
from rqmail.models.message import NewRecipient, RecipientKind

_KINDS = {kind.value: kind for kind in RecipientKind}


@dataclass(slots=True)
class Contents:
    """The bodies of one message, its recipients and its files in order, and the fields few messages have.

    ``problem`` says why it cannot be sent: its bodies cannot be rendered; ``by_us`` is whether that is for a fault of
    ours that can be mended. ``subject`` is given where it is rendered, too.
    """

    text: str | None = None
    html: str | None = None
    recipients: list[NewRecipient] = field(default_factory=list)
    attachments: list[AttachedFile] = field(default_factory=list)
    extras: Extras = NO_EXTRAS
    problem: str | None = None
    by_us: bool = False
    subject: str | None = None


def load_contents(ids: Sequence[str]) -> dict[str, Contents]:
    """Fetch bodies, recipients and what is attached (not the bytes) of these messages in three statements.

    Left out is an unknown id, and a message whose rows were edited into something that cannot be read.
    """
    found: dict[str, Contents] = {}
    if not ids:
        return found
    these = f"message_id IN ({', '.join([db.param] * len(ids))})"
    with pooled_connection():
        bodies = db.execute_sql(f"SELECT message_id, text, html, extras FROM message_content WHERE {these}", ids)  # noqa: S608
        for message_id, text, html, column in bodies.fetchall():
            extras = extras_of(column)
            if extras is not None:
                found[message_id] = Contents(text, html, extras=extras)
        recipients = load_recipients(ids)
        for message_id in [*found]:
            if message_id in recipients:
                found[message_id].recipients = recipients[message_id]
            else:
                del found[message_id]
        for message_id, files in attached_to(ids).items():
            if message_id in found:
                found[message_id].attachments = files
    return found


def is_raw(message_id: str) -> bool:
    """Say whether a message is a mail in MIME form that is sent as it is."""
    with pooled_connection():
        found = db.execute_sql(f"SELECT extras FROM message_content WHERE message_id = {db.param}", (message_id,))  # noqa: S608
        row = found.fetchone()
    extras = None if row is None else extras_of(row[0])
    return extras is not None and extras.raw


def load_recipients(ids: Sequence[str]) -> dict[str, list[NewRecipient]]:
    """Fetch the recipients of these messages; left out is a message that has one which cannot be read."""
    if not ids:
        return {}
    these = f"message_id IN ({', '.join([db.param] * len(ids))})"
    sql = f"SELECT message_id, kind, address, name FROM recipient WHERE {these} ORDER BY message_id, position"  # noqa: S608
    found: dict[str, list[NewRecipient]] = {message_id: [] for message_id in ids}
    with pooled_connection():
        for message_id, kind, address, name in db.execute_sql(sql, ids).fetchall():
            if kind not in _KINDS:
                found.pop(message_id, None)
            elif message_id in found:
                found[message_id].append(NewRecipient(_KINDS[kind], address, name))
    return found
