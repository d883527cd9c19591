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
    """The bodies of one message, its recipients and its files in order, and the fields few messages have."""

    text: str | None = None
    html: str | None = None
    recipients: list[NewRecipient] = field(default_factory=list)
    attachments: list[AttachedFile] = field(default_factory=list)
    extras: Extras = NO_EXTRAS


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
        recipients = db.execute_sql(
            f"SELECT message_id, kind, address, name FROM recipient WHERE {these} ORDER BY message_id, position",  # noqa: S608
            ids,
        )
        for message_id, kind, address, name in recipients.fetchall():
            if kind not in _KINDS:
                found.pop(message_id, None)
            elif message_id in found:
                found[message_id].recipients.append(NewRecipient(_KINDS[kind], address, name))
        for message_id, files in attached_to(ids).items():
            if message_id in found:
                found[message_id].attachments = files
    return found
