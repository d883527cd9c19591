"""A message: the row that is the truth about it, with every move it can make.

Its states are in ``states.py``, its columns and the one door to its status in ``row.py``; the moves through that door
in ``claims.py``, ``results.py`` and ``decisions.py``. What other packages need of these is imported from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import peewee

from rqmail.models.base import BaseModel, pooled_connection
from rqmail.models.claims import REFUSED, Claim, ClaimMoves, Claims, ExternalRoom, UploadRoom
from rqmail.models.decisions import DecisionMoves
from rqmail.models.history import Attempt, Event, Route
from rqmail.models.results import ResultMoves
from rqmail.models.states import ENTERED_FROM, FINAL, MessageStatus, names
from rqmail.models.submitting import (
    LeftOut,
    NewKey,
    NewMessage,
    NewRecipient,
    Priority,
    RecipientKind,
    insert,
    insert_within,
)

__all__ = [
    "ENTERED_FROM",
    "FINAL",
    "REFUSED",
    "Attempt",
    "Claim",
    "Claims",
    "Event",
    "ExternalRoom",
    "LeftOut",
    "Message",
    "MessageContent",
    "MessageStatus",
    "NewKey",
    "NewMessage",
    "NewRecipient",
    "Priority",
    "Recipient",
    "RecipientKind",
    "Route",
    "UploadRoom",
]


class Message(ClaimMoves, ResultMoves, DecisionMoves):
    """One mail on its way; every change of ``status`` is one conditional UPDATE through the door of its row."""

    class Meta:
        """Every part of this class speaks of one table."""

        table_name = "message"

    @classmethod
    def submit(
        cls,
        batch: Sequence[NewMessage],
        now: datetime,
        by: str | None = None,
        *,
        import_id: str | None = None,
        campaign_id: int | None = None,
        keys: Sequence[NewKey] = (),
    ) -> list[str]:
        """Insert ``batch``, handed in by ``by``, as SCHEDULED, all or none, and answer the ids in order."""
        return insert(batch, now, by, import_id, campaign_id, keys)

    @classmethod
    def submit_within(cls, connection: Any, batch: Sequence[NewMessage], now: datetime, by: str | None = None) -> None:
        """Insert ``batch`` in the transaction that is open on a caller's own connection."""
        insert_within(connection, batch, now, by)

    # --- forgetting ----------------------------------------------------------------------------------------------

    @classmethod
    def final_before(cls, moment: datetime) -> Any:
        """Say, true or false and never null, whether a message came to its end before then."""
        undated = (
            cls.ended_on.is_null()
            & (cls.scheduled_on < moment)
            & (cls.attempted_on.is_null() | (cls.attempted_on < moment))
            & (cls.sent_on.is_null() | (cls.sent_on < moment))
        )
        dated = cls.ended_on.is_null(False) & (cls.ended_on < moment)
        # A campaign tells of each person what became of their mail: its messages go when it goes.
        alone = cls.campaign_id.is_null()
        return cls.status.in_(names(FINAL)) & (cls.created_on < moment) & (dated | undated) & alone

    @classmethod
    def count_final(cls, before: datetime) -> int:
        """Count the messages that came to their end before then; where nobody dated it, the last thing known counts."""
        with pooled_connection():
            return int(cls.select().where(cls.final_before(before)).count())

    @classmethod
    def delete_final(cls, before: datetime, *, limit: int) -> int:
        """Delete at most ``limit`` of them, with their content and recipients."""
        old = cls.select(cls.id).where(cls.final_before(before)).limit(limit)
        with pooled_connection():
            return int(cls.delete().where(cls.id.in_(old)).execute())


class MessageContent(BaseModel):
    """What a message says; apart from its row, so that a change of status does not rewrite the text."""

    message = peewee.ForeignKeyField(Message, primary_key=True, on_delete="CASCADE", backref="contents")
    text = peewee.TextField(null=True)
    html = peewee.TextField(null=True)
    #: The fields few messages have, as :class:`rqmail.models.content.Extras` writes them.
    extras = peewee.TextField(null=True)

    class Meta:
        """Name the table in full."""

        table_name = "message_content"


class Recipient(BaseModel):
    """One address a message goes to."""

    message = peewee.ForeignKeyField(Message, on_delete="CASCADE", backref="recipients")
    position = peewee.SmallIntegerField()
    kind = peewee.CharField(max_length=3)
    address = peewee.CharField(max_length=320)
    name = peewee.TextField(default="")

    class Meta:
        """A recipient is named by its message and its place there."""

        primary_key = peewee.CompositeKey("message", "position")
