"""Delivery: how far each tenant's message trace is read, and what became of mail at each of its recipients."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import peewee

from rqmail.models.base import (
    BaseModel,
    UtcDateTimeField,
    db,
    from_column,
    is_postgresql,
    pooled_connection,
    to_column,
    transaction,
)
from rqmail.models.message import Message

#: Addresses asked for in one statement.
_AT_ONCE = 200


class TraceReading(BaseModel):
    """Where reading of one Entra tenant's trace stands: whole up to ``read_to``.

    A period that is not read to its end goes on at ``next_link``. ``asked_on`` (JSON, seconds since 1970) is when it
    was asked lately; ``quiet`` counts the looks in a row that found nothing new, ``problem`` is why the last failed.
    """

    tenant = peewee.CharField(max_length=128, primary_key=True)
    read_to = UtcDateTimeField()
    looked_back_on = UtcDateTimeField(null=True)
    period_start = UtcDateTimeField(null=True)
    period_end = UtcDateTimeField(null=True)
    next_link = peewee.TextField(null=True)
    asked_on = peewee.TextField()
    next_on = UtcDateTimeField()
    quiet = peewee.IntegerField()
    problem = peewee.TextField(null=True)

    class Meta:
        """Name the table in full."""

        table_name = "trace_reading"


class RecipientDelivery(BaseModel):
    """What the trace says of a mail at one recipient, as :class:`Delivery` tells it."""

    message_id: str
    message = peewee.ForeignKeyField(Message, on_delete="CASCADE", backref="deliveries")
    address = peewee.CharField(max_length=320)
    status = peewee.CharField(max_length=12)
    received_on = UtcDateTimeField()
    noted_on = UtcDateTimeField()
    probable = peewee.BooleanField()

    class Meta:
        """The last state of each recipient is kept."""

        table_name = "recipient_delivery"
        primary_key = peewee.CompositeKey("message", "address")


@dataclass(slots=True)
class Reading:
    """Where reading of one tenant's trace stands, as :class:`TraceReading` keeps it."""

    tenant: str
    read_to: datetime
    looked_back_on: datetime | None = None
    period: tuple[datetime, datetime] | None = None
    next_link: str | None = None
    asked_on: list[float] = field(default_factory=list)
    next_on: datetime | None = None
    quiet: int = 0
    problem: str | None = None

    def keep(self, next_on: datetime) -> None:
        """Write down how far it is read, and when it is looked at again."""
        start, end = self.period or (None, None)
        row = {
            "read_to": self.read_to,
            "looked_back_on": self.looked_back_on,
            "period_start": start,
            "period_end": end,
            "next_link": self.next_link,
            "asked_on": json.dumps(self.asked_on),
            "next_on": next_on,
            "quiet": self.quiet,
            "problem": self.problem,
        }
        with transaction():
            TraceReading.insert(tenant=self.tenant, **row).on_conflict(
                conflict_target=[TraceReading.tenant], preserve=[getattr(TraceReading, name) for name in row]
            ).execute()


def readings() -> dict[str, Reading]:
    """Answer where reading stands, by tenant."""
    with pooled_connection():
        rows = list(TraceReading.select())
    return {
        row.tenant: Reading(
            row.tenant,
            row.read_to,
            row.looked_back_on,
            None if row.period_start is None or row.period_end is None else (row.period_start, row.period_end),
            row.next_link,
            json.loads(row.asked_on),
            row.next_on,
            row.quiet,
            row.problem,
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class Sent:
    """A mail that one of our mailboxes sent to one recipient."""

    message_id: str
    address: str
    mailbox: str
    subject: str
    attempted_on: datetime
    status: str


def sent_to(addresses: Collection[str], mailboxes: Collection[str], start: datetime, end: datetime) -> Iterator[Sent]:
    """Answer the mails to these addresses (in any case) whose last attempt, through these mailboxes, was in between."""
    folded = "LOWER(r.address) IN ({})" if is_postgresql() else "r.address COLLATE NOCASE IN ({})"
    through = ", ".join([db.param] * len(mailboxes))
    for some in _in_parts(sorted({address.lower() for address in addresses})):
        condition = folded.format(", ".join([db.param] * len(some)))
        sql = (
            "SELECT m.id, r.address, m.mailbox_key, m.subject, m.attempted_on, m.status FROM recipient r"  # noqa: S608
            f" JOIN message m ON m.id = r.message_id WHERE {condition} AND m.mailbox_key IN ({through})"
            f" AND m.attempted_on BETWEEN {db.param} AND {db.param}"
        )
        with pooled_connection():
            rows = db.execute_sql(sql, [*some, *mailboxes, to_column(start), to_column(end)]).fetchall()
        for message_id, address, mailbox, subject, attempted_on, status in rows:
            at = from_column(attempted_on)
            if at is not None:
                yield Sent(message_id, address, mailbox, subject, at, status)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the message trace says of a mail at one recipient.

    ``status`` is ``pending``, ``delivered``, ``expanded`` (to the members of a list), ``failed``, ``quarantined`` or
    ``spam``; ``received_on`` is when Exchange took the mail, ``noted_on`` when this was first read. It is ``probable``
    where the mail may be another one of ours.
    """

    address: str
    status: str
    received_on: datetime
    noted_on: datetime
    probable: bool


def note_delivery(message_id: str, told: Delivery) -> bool:
    """Write down what became of a mail at a recipient; answer whether that is new. An older trace changes nothing."""
    p = db.param
    sql = f"""
        INSERT INTO recipient_delivery (message_id, address, status, received_on, noted_on, probable)
        VALUES ({p}, {p}, {p}, {p}, {p}, {p})
        ON CONFLICT (message_id, address) DO UPDATE SET status = excluded.status,
        received_on = excluded.received_on, noted_on = excluded.noted_on, probable = excluded.probable
        WHERE excluded.received_on >= recipient_delivery.received_on
        AND (excluded.status <> recipient_delivery.status OR excluded.probable <> recipient_delivery.probable)
        RETURNING address
    """  # noqa: S608 - only placeholders are put in
    moments = (to_column(told.received_on), to_column(told.noted_on))
    with pooled_connection():
        values = (message_id, told.address, told.status, *moments, told.probable)
        return db.execute_sql(sql, values).fetchone() is not None


def note_deliveries(told: Mapping[tuple[str, str], Delivery]) -> list[tuple[str, str]]:
    """Write down what became of mails at recipients, by message and address; answer of which that is new."""
    known = deliveries_of(sorted({message_id for message_id, _ in told}))
    changed = {}
    for (message_id, address), one in told.items():
        before = known.get(message_id, {}).get(address)
        if before is None or (before.status, before.probable) != (one.status, one.probable):
            changed[message_id, address] = one
    if not changed:
        return []
    with transaction():
        return [key for key, one in changed.items() if note_delivery(key[0], one)]


def deliveries_of(ids: Sequence[str]) -> dict[str, dict[str, Delivery]]:
    """Answer what became of these messages by recipient; where nothing is known, it is absent."""
    found: dict[str, dict[str, Delivery]] = {}
    for some in _in_parts(ids):
        wanted = RecipientDelivery.select().where(RecipientDelivery.message.in_(list(some)))
        with pooled_connection():
            for row in wanted.order_by(RecipientDelivery.address):
                told = Delivery(row.address, row.status, row.received_on, row.noted_on, row.probable)
                found.setdefault(row.message_id, {})[row.address] = told
    return found


def certainly_traced(message_id: str) -> bool:
    """Say whether the trace certainly tells of a message: it was accepted, whatever became of it then."""
    told = deliveries_of([message_id]).get(message_id, {})
    return any(not one.probable for one in told.values())


def oldest_open(mailboxes: Collection[str], since: datetime, *, unknown: bool) -> datetime | None:
    """Answer when Exchange took the oldest mail through these mailboxes that is pending, not before ``since``.

    With ``unknown`` also when the oldest was attempted of which nobody knows whether it was accepted.
    """
    p, through = db.param, ", ".join([db.param] * len(mailboxes))
    parts = [
        "SELECT MIN(d.received_on) AS at FROM recipient_delivery d JOIN message m ON m.id = d.message_id"  # noqa: S608
        f" WHERE d.status = 'pending' AND d.received_on >= {p} AND m.mailbox_key IN ({through})"
    ]
    values = [to_column(since), *mailboxes]
    if unknown:
        parts.append(
            "SELECT MIN(attempted_on) AS at FROM message WHERE status = 'UNKNOWN'"  # noqa: S608 - placeholders
            f" AND attempted_on >= {p} AND mailbox_key IN ({through})"
        )
    with pooled_connection():
        found = [from_column(db.execute_sql(part, values).fetchone()[0]) for part in parts]
    return min((one for one in found if one is not None), default=None)


def _in_parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
