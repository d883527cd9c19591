"""Events: what happened to mail, written down for the webhooks that listen, in the transaction in which it happened.

Whether anybody listens is known without asking the database for :data:`LOOK_AGAIN_SECONDS`: an installation without
webhooks asks one small question in that time, whatever it sends.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from uuid_utils import uuid7

from rqmail.clock import monotonic, to_epoch_ms
from rqmail.models.base import db, from_column, pooled_connection, to_column
from rqmail.models.webhooks import EventType

#: How long a process goes by what it knows of who listens.
LOOK_AGAIN_SECONDS = 2.0

#: An event that is not taken is tried for so long.
TRIED_FOR = timedelta(days=3)

#: Messages or rows that one statement names at most.
_AT_ONCE = 500

#: Of the end of a message, by its status, which event tells.
OF_STATUS = {"SENT": EventType.SENT, "ERROR": EventType.FAILED, "EXPIRED": EventType.FAILED}


@dataclass(frozen=True, slots=True)
class _Listening:
    """Who listens to what, in which database, and until when (of the monotonic clock) that is believed."""

    database: object
    until: float
    by_type: Mapping[str, Sequence[str]]


_known: _Listening | None = None


def listeners(type_: EventType) -> Sequence[str]:
    """Answer the ids of the webhooks that are to be told of this."""
    global _known  # noqa: PLW0603 - what this process knows
    known = _known
    if known is None or known.database is not db.obj or monotonic() >= known.until:
        by_type: dict[str, list[str]] = {}
        with pooled_connection():
            for webhook_id, names in db.execute_sql("SELECT id, events FROM webhook WHERE enabled").fetchall():
                for name in names.split():
                    by_type.setdefault(name, []).append(webhook_id)
        known = _known = _Listening(db.obj, monotonic() + LOOK_AGAIN_SECONDS, by_type)
    return known.by_type.get(type_, ())


def look_again() -> None:
    """Forget who listens: that was changed."""
    global _known  # noqa: PLW0603 - what this process knows
    _known = None


def tell_of_messages(type_: EventType, ids: Sequence[str]) -> None:
    """Write down that these messages came to their end; in the transaction that ends them."""
    p = db.param
    for start in range(0, len(ids), _AT_ONCE):
        part = list(ids[start : start + _AT_ONCE])
        these = ", ".join([p] * len(part))
        to: dict[str, list[str]] = {}
        addresses = f"SELECT message_id, address FROM recipient WHERE message_id IN ({these}) ORDER BY position"  # noqa: S608
        for message_id, address in db.execute_sql(addresses, part).fetchall():
            to.setdefault(message_id, []).append(address)
        sql = f"""
            SELECT m.id, m.sender, m.status, m.last_error, m.attempts, c.name,
                   COALESCE(m.ended_on, m.attempted_on, m.created_on)
            FROM message m LEFT JOIN campaign c ON c.id = m.campaign_id WHERE m.id IN ({these})
        """  # noqa: S608 - only placeholders are put in
        told = []
        for message_id, sender, status, error, attempts, campaign, at in db.execute_sql(sql, part).fetchall():
            data = {
                "messageId": message_id,
                **_whose(sender),
                "campaign": campaign,
                "recipients": to.get(message_id, []),
                "status": status,
                "error": error,
                "attempts": attempts,
            }
            told.append((from_column(at), data))
        _write(type_, [(at, data) for at, data in told if at is not None])


def tell_of_bounce(message_id: str, address: str, *, code: str, detail: str, at: datetime, probable: bool) -> None:
    """Write down that mail to a recipient came back."""
    data = _of_message(message_id) | {"recipient": address, "code": code, "error": detail, "probable": probable}
    _write(EventType.BOUNCED, [(at, data)])


def tell_of_unsubscription(address: str, tenant: str | None, message_id: str | None, at: datetime) -> None:
    """Write down that somebody unsubscribed, from all mail or from a tenant's, by the link in a message."""
    if not listeners(EventType.UNSUBSCRIBED):
        return
    whose: dict[str, Any] = {"messageId": None, "mailbox": None, "tenant": None, "campaign": None}
    with pooled_connection():
        if message_id is not None:
            whose |= _of_message(message_id)
        _write(EventType.UNSUBSCRIBED, [(at, whose | {"tenant": tenant, "recipient": address})])


def tell_of_campaign(name: str, state: str, people: Mapping[str, int], at: datetime) -> None:
    """Write down that a campaign is over, and how many of its people are in which state."""
    _write(EventType.CAMPAIGN_FINISHED, [(at, {"campaign": name, "status": state, "people": people})])


def tell_of_pause(sender: str, reason: str, until: datetime | None, at: datetime, *, by: str | None = None) -> None:
    """Write down that a sender (``mailbox:KEY``, ``tenant:KEY``) is paused; ``until`` empty: until it is resumed.

    Mails under way together each bring their mailbox's pause about: one that nobody asked for is told once a minute.
    """
    if not listeners(EventType.MAILBOX_PAUSED):
        return
    data = _whose(sender) | {"reason": reason, "until": None if until is None else _iso(until), "by": by}
    with pooled_connection():
        _write(EventType.MAILBOX_PAUSED, [(at, data)], event_id=None if by else _id_of_pause(sender, at))


def _id_of_pause(sender: str, at: datetime) -> str:
    """Answer the one id that pauses of a sender have in one minute; it sorts as others do."""
    minute = to_epoch_ms(at) // 60_000 * 60_000
    return f"msg_{minute:012x}{hashlib.sha256(sender.encode()).hexdigest()[:20]}"


def new_id() -> str:
    """Make an id for an event; ids sort by time."""
    return f"msg_{uuid7().hex}"


def written(type_: str, at: datetime, data: Mapping[str, Any]) -> str:
    """Write an event as it is sent to its receivers."""
    return json.dumps({"type": type_, "timestamp": _iso(at), "data": data}, ensure_ascii=False, separators=(",", ":"))


def _write(
    type_: EventType, told: Sequence[tuple[datetime, Mapping[str, Any]]], *, event_id: str | None = None
) -> None:
    """Write events down for every webhook that listens, on the connection and in the transaction of the caller."""
    rows = []
    for at, data in told:
        own_id, payload = event_id or new_id(), written(type_, at, data)
        for webhook_id in listeners(type_):
            moment = to_column(at)
            rows.append((webhook_id, own_id, type_.value, payload, moment, moment, to_column(at + TRIED_FOR), 0))
    one = "(" + ", ".join([db.param] * 8) + ")"
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        sql = (
            "INSERT INTO webhook_delivery"  # noqa: S608 - only placeholders are put in
            " (webhook_id, event_id, type, payload, created_on, due_on, give_up_on, attempts)"
            f" VALUES {', '.join([one] * len(part))} ON CONFLICT DO NOTHING"
        )
        db.execute_sql(sql, [value for row in part for value in row])


def _of_message(message_id: str) -> dict[str, Any]:
    sql = (
        "SELECT m.sender, c.name FROM message m LEFT JOIN campaign c ON c.id = m.campaign_id"  # noqa: S608
        f" WHERE m.id = {db.param}"
    )
    row = db.execute_sql(sql, (message_id,)).fetchone()
    sender, campaign = (None, None) if row is None else row
    return {"messageId": message_id, **_whose(sender or ""), "campaign": campaign}


def _whose(sender: str) -> dict[str, str | None]:
    kind, _, key = sender.partition(":")
    return {"mailbox": key if kind == "mailbox" else None, "tenant": key if kind == "tenant" else None}


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
