"""Bounces: how far each mailbox's reports are read, which message a report tells of, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee

from rqmail.models import events
from rqmail.models.base import BaseModel, UtcDateTimeField, db, is_postgresql, pooled_connection, to_column, transaction
from rqmail.models.webhooks import EventType
from rqmail.text.addresses import same_person

#: A report comes within so many days: servers give up before that.
_COMES_WITHIN = timedelta(days=7)

#: Messages to one address that a report without a mark may be of.
_CANDIDATES = 20


class BounceReading(BaseModel):
    """Where reading of one mailbox stands: up to ``read_to``, at that very moment the items ``last_ids`` (JSON).

    ``quiet`` counts the looks in a row that found nothing; ``problem`` is why the last one could not be made.
    """

    mailbox = peewee.CharField(max_length=320, primary_key=True)
    read_to = UtcDateTimeField()
    last_ids = peewee.TextField()
    next_on = UtcDateTimeField()
    quiet = peewee.IntegerField()
    problem = peewee.TextField(null=True)

    class Meta:
        """Name the table in full."""

        table_name = "bounce_reading"

    @classmethod
    def all(cls) -> dict[str, BounceReading]:
        """Answer where reading stands, by mailbox."""
        with pooled_connection():
            return {row.mailbox: row for row in cls.select()}

    @classmethod
    def note(
        cls,
        mailbox: str,
        *,
        read_to: datetime,
        last_ids: Sequence[str],
        next_on: datetime,
        quiet: int,
        problem: str | None,
    ) -> None:
        """Write down how far a mailbox is read, and when it is looked at again."""
        row = {"read_to": read_to, "last_ids": json.dumps(last_ids), "next_on": next_on, "quiet": quiet}
        kept = [cls.read_to, cls.last_ids, cls.next_on, cls.quiet, cls.problem]
        with transaction():
            cls.insert(mailbox=mailbox, problem=problem, **row).on_conflict(
                conflict_target=[cls.mailbox], preserve=kept
            ).execute()


@dataclass(frozen=True, slots=True)
class Bounced:
    """A message that a report tells of: whose it was, and to whom it went."""

    message_id: str
    sender: str
    recipients: tuple[str, ...]


def has_sent(mailbox: str, now: datetime) -> bool:
    """Say whether mail went out through a mailbox so lately that reports about it may still come."""
    sql = (
        "SELECT 1 FROM message WHERE status IN ('SENDING', 'SENT', 'UNKNOWN')"  # noqa: S608 - placeholders
        f" AND mailbox_key = {db.param} AND attempted_on > {db.param} LIMIT 1"
    )
    with pooled_connection():
        return db.execute_sql(sql, (mailbox, to_column(now - _COMES_WITHIN))).fetchone() is not None


def of_message(message_id: str, mailbox: str) -> Bounced | None:
    """Answer the message of this id that went out through ``mailbox``, ``None`` for any other."""
    sql = (
        f"SELECT id, sender FROM message WHERE id = {db.param} AND mailbox_key = {db.param}"  # noqa: S608 - placeholders
        " AND attempted_on IS NOT NULL"
    )
    with pooled_connection():
        row = db.execute_sql(sql, (message_id, mailbox)).fetchone()
        return None if row is None else _bounced(row[0], row[1])


def probably_of(address: str, subject: str, mailbox: str, received_on: datetime) -> Bounced | None:
    """Answer the last message through ``mailbox`` to this address whose subject stands in ``subject``."""
    condition = f"LOWER(address) = {db.param}" if is_postgresql() else f"address = {db.param} COLLATE NOCASE"
    sql = (
        "SELECT m.id, m.sender, m.subject FROM recipient r JOIN message m ON m.id = r.message_id"  # noqa: S608 - placeholders
        f" WHERE {condition} AND m.mailbox_key = {db.param} AND m.attempted_on BETWEEN {db.param} AND {db.param}"
        f" ORDER BY m.attempted_on DESC LIMIT {_CANDIDATES}"
    )
    values = (address.lower(), mailbox, to_column(received_on - _COMES_WITHIN), to_column(received_on))
    with pooled_connection():
        for message_id, sender, sent_subject in db.execute_sql(sql, values).fetchall():
            if sent_subject.strip() and sent_subject.strip().lower() in subject.lower():
                return _bounced(message_id, sender)
    return None


def note_bounce(message_id: str, address: str, *, code: str, detail: str, at: datetime, probable: bool) -> bool:
    """Write down that a recipient of a message bounced; answer whether that is new."""
    sql = (
        "INSERT INTO recipient_result (message_id, address, result, code, detail, at, probable)"  # noqa: S608 - placeholders
        f" VALUES ({', '.join([db.param] * 7)}) ON CONFLICT DO NOTHING RETURNING address"
    )
    values = (message_id, address, "bounced", code[:20], detail, to_column(at), probable)
    with transaction():
        is_new = db.execute_sql(sql, values).fetchone() is not None
        if is_new and events.listeners(EventType.BOUNCED):
            events.tell_of_bounce(message_id, address, code=code, detail=detail, at=at, probable=probable)
    return is_new


def certain_bounce(message_id: str) -> str | None:
    """Answer with which code a recipient of a message certainly bounced, ``None`` where none did."""
    sql = (
        f"SELECT code FROM recipient_result WHERE message_id = {db.param} AND result = 'bounced'"  # noqa: S608 - placeholders
        f" AND probable = {db.param} LIMIT 1"
    )
    with pooled_connection():
        row = db.execute_sql(sql, (message_id, False)).fetchone()
    return None if row is None else row[0]


def bounced_since(since: datetime) -> dict[str, int]:
    """Count the recipients that bounced since then, by the mailbox their mail went through."""
    sql = (
        "SELECT m.mailbox_key, COUNT(*) FROM recipient_result r JOIN message m ON m.id = r.message_id"  # noqa: S608 - placeholders
        f" WHERE r.result = 'bounced' AND r.at > {db.param} GROUP BY m.mailbox_key"
    )
    with pooled_connection():
        return {key: int(number) for key, number in db.execute_sql(sql, (to_column(since),)).fetchall() if key}


def recipients_since(mailboxes: Collection[str], since: datetime) -> dict[str, int]:
    """Count the recipients that mail through each of these mailboxes went to since then."""
    sql = (
        "SELECT COALESCE(SUM(recipient_count), 0) FROM message WHERE status IN ('SENDING', 'SENT', 'UNKNOWN')"  # noqa: S608
        f" AND mailbox_key = {db.param} AND attempted_on > {db.param}"
    )
    with pooled_connection():
        return {key: int(db.execute_sql(sql, (key, to_column(since))).fetchone()[0]) for key in mailboxes}


def among(addresses: Collection[str], recipients: Sequence[str]) -> str | None:
    """Answer the recipient that a report means by one of these addresses; the only one, whatever it is called there."""
    meant = {same_person(address) for address in addresses}
    found = next((one for one in recipients if same_person(one) in meant), None)
    return recipients[0] if found is None and len(recipients) == 1 else found


def _bounced(message_id: str, sender: str) -> Bounced:
    sql = f"SELECT address FROM recipient WHERE message_id = {db.param} ORDER BY position"  # noqa: S608 - placeholders
    addresses = tuple(row[0] for row in db.execute_sql(sql, (message_id,)).fetchall())
    return Bounced(message_id, sender, addresses)
