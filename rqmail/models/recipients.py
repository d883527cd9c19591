"""What became of single recipients of a message: left out because they are suppressed, or bounced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import peewee

from rqmail.models.base import BaseModel, UtcDateTimeField, db, pooled_connection, to_column
from rqmail.models.message import Message
from rqmail.models.submitting import LeftOut


class RecipientResult(BaseModel):
    """One thing that became of a recipient: ``result`` is ``suppressed`` (``code`` says why) or ``bounced``."""

    message_id: str
    message = peewee.ForeignKeyField(Message, on_delete="CASCADE", backref="results")
    address = peewee.CharField(max_length=320)
    result = peewee.CharField(max_length=10)
    code = peewee.CharField(max_length=20, null=True)
    detail = peewee.TextField(null=True)
    at = UtcDateTimeField()
    probable = peewee.BooleanField(default=False)

    class Meta:
        """Each thing is told of a recipient once."""

        table_name = "recipient_result"
        primary_key = peewee.CompositeKey("message", "address", "result")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one recipient; ``probable`` where it was matched by less than our own mark."""

    address: str
    result: str
    code: str | None
    detail: str | None
    at: datetime
    probable: bool


def leave_out(message_id: str, left_out: Iterable[LeftOut], now: datetime) -> None:
    """Write down who was left out of a message; what is known already stays."""
    one = "(" + ", ".join([db.param] * 6) + ")"
    rows = [(message_id, out.address, "suppressed", out.reason, to_column(now), False) for out in left_out]
    sql = (
        f"INSERT INTO recipient_result (message_id, address, result, code, at, probable) VALUES"  # noqa: S608 - placeholders
        f" {', '.join([one] * len(rows))} ON CONFLICT DO NOTHING"
    )
    if rows:
        with pooled_connection():
            db.execute_sql(sql, [value for row in rows for value in row])


def take_back_in(message_id: str) -> None:
    """Forget who of a message's recipients was left out: it is about to be sent anew, and decided anew."""
    sql = (
        f"DELETE FROM recipient_result WHERE message_id = {db.param} AND result = 'suppressed'"  # noqa: S608 - placeholders
        f" AND address IN (SELECT address FROM recipient WHERE message_id = {db.param})"
    )
    with pooled_connection():
        db.execute_sql(sql, (message_id, message_id))


def results_of(ids: Sequence[str]) -> dict[str, list[Result]]:
    """Answer what became of recipients of these messages, oldest first; where nothing did, it is absent."""
    found: dict[str, list[Result]] = {}
    wanted = RecipientResult.select().where(RecipientResult.message.in_(list(ids)))
    with pooled_connection():
        for row in wanted.order_by(RecipientResult.at, RecipientResult.address):
            told = Result(row.address, row.result, row.code, row.detail, row.at, row.probable)
            found.setdefault(row.message_id, []).append(told)
    return found
