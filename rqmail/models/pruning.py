"""How far our own copies are removed from Sent Items, mailbox by mailbox, and which copies may be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import peewee

from rqmail.models.base import BaseModel, UtcDateTimeField, db, pooled_connection, to_column, transaction
from rqmail.models.states import FINAL, IN


class SentPruning(BaseModel):
    """Where pruning of one mailbox stands; ``problem`` is why the last pass could not go on, if it could not."""

    mailbox = peewee.CharField(max_length=64, primary_key=True)
    next_on = UtcDateTimeField()
    pruned_on = UtcDateTimeField(null=True)
    #: Copies removed so far.
    removed = peewee.BigIntegerField()
    problem = peewee.TextField(null=True)

    @classmethod
    def of(cls, mailbox: str) -> SentPruning | None:
        """Answer where pruning of this mailbox stands; ``None`` before its first pass."""
        with pooled_connection():
            found: SentPruning | None = cls.get_or_none(cls.mailbox == mailbox)
        return found

    @classmethod
    def all(cls) -> dict[str, SentPruning]:
        """Answer where pruning stands, by mailbox."""
        with pooled_connection():
            return {row.mailbox: row for row in cls.select()}

    @classmethod
    def note(cls, mailbox: str, *, next_on: datetime, pruned_on: datetime, removed: int, problem: str | None) -> None:
        """Write down how a pass ended, and when the next one is due."""
        row = {"mailbox": mailbox, "next_on": next_on, "pruned_on": pruned_on, "removed": removed, "problem": problem}
        kept = [cls.next_on, cls.pruned_on, cls.problem]
        with transaction():
            cls.insert(**row).on_conflict(
                conflict_target=[cls.mailbox], preserve=kept, update={cls.removed: cls.removed + removed}
            ).execute()

    @classmethod
    def forget(cls, mailbox: str) -> None:
        """Begin anew: the mailbox is another one, is to be pruned otherwise, or is gone."""
        with transaction():
            cls.delete().where(cls.mailbox == mailbox).execute()


def settled_before(ids: Sequence[str], moment: datetime) -> set[str]:
    """Answer which of these messages are ours and came to their end before ``moment``."""
    if not ids:
        return set()
    sql = (
        f"SELECT id FROM message WHERE id IN ({', '.join([db.param] * len(ids))})"  # noqa: S608 - only placeholders
        f" AND status || '' IN ({IN[FINAL]}) AND ended_on < {db.param}"
    )
    with pooled_connection():
        return {row[0] for row in db.execute_sql(sql, [*ids, to_column(moment)]).fetchall()}
