"""How much mail there is, and where it stands: what the overview shows. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rqmail.models.base import db, pooled_connection, to_column
from rqmail.models.history import Route
from rqmail.models.states import MessageStatus

_WAITING = ("SCHEDULED", "QUEUED", "SENDING")


@dataclass(slots=True)
class SenderCounts:
    """One sender's messages at one moment.

    ``backlog`` is what was wanted by now and is not finished, ``backlog_recipients`` its recipients; ``later`` is what
    is not wanted yet. ``due`` of the backlog may be claimed now, ``put_off`` was moved to a later moment after a denial
    or a failure, ``reasons`` says why, as far as something did hold it up. ``least_upload`` is what the smallest upload
    that is due has in bytes.
    """

    by_status: dict[str, int] = field(default_factory=dict)
    backlog: int = 0
    backlog_recipients: int = 0
    due: int = 0
    put_off: int = 0
    later: int = 0
    oldest: datetime | None = None
    least_upload: int | None = None
    next_on: datetime | None = None
    reasons: dict[str, int] = field(default_factory=dict)


def open_by_sender(now: datetime) -> dict[str, SenderCounts]:
    """Count every sender's messages that wait, are being sent or need a decision; the past is not walked."""
    figures = f"""
        COUNT(*),
        SUM(CASE WHEN requested_on <= {db.param} THEN 1 ELSE 0 END),
        SUM(CASE WHEN requested_on <= {db.param} THEN recipient_count ELSE 0 END),
        SUM(CASE WHEN scheduled_on <= {db.param} THEN 1 ELSE 0 END),
        MIN(requested_on), MIN(scheduled_on), MIN(CASE WHEN scheduled_on <= {db.param} THEN upload_bytes END)
    """
    # The conditions are written as those of the partial indexes are.
    counted = f"""
        SELECT sender, status, {figures} FROM message WHERE status = 'SCHEDULED' GROUP BY sender, status
        UNION ALL
        SELECT sender, status, {figures} FROM message
        WHERE status IN ('QUEUED', 'SENDING', 'UNKNOWN') GROUP BY sender, status
    """  # noqa: S608 - only placeholders are put in
    reasons = """
        SELECT sender, waiting_for, COUNT(*) FROM message
        WHERE status = 'SCHEDULED' AND waiting_for IS NOT NULL GROUP BY sender, waiting_for
    """
    found: defaultdict[str, SenderCounts] = defaultdict(SenderCounts)
    with pooled_connection():
        rows = db.execute_sql(counted, [to_column(now)] * 8).fetchall()
        held_up = db.execute_sql(reasons).fetchall()
    for sender, status, total, wanted, recipients, due, oldest, next_on, upload in rows:
        counts = found[sender]
        counts.by_status[status] = int(total)
        if status not in _WAITING:
            continue
        counts.backlog += int(wanted)
        counts.backlog_recipients += int(recipients)
        counts.later += int(total) - int(wanted)
        if int(wanted):
            counts.oldest = _earlier(counts.oldest, _moment(oldest))
        if status == MessageStatus.SCHEDULED.value:
            counts.due = int(due)
            counts.put_off = max(0, int(wanted) - int(due))
            counts.next_on = _moment(next_on)
            counts.least_upload = upload
    for sender, reason, total in held_up:
        found[sender].reasons[reason] = int(total)
    return dict(found)


def ended_by_sender() -> dict[str, dict[str, int]]:
    """Count every sender's messages that came to their end, by status: walks all of them."""
    sql = """
        SELECT sender, status, COUNT(*) FROM message
        WHERE status IN ('SENT', 'ERROR', 'CANCELLED', 'EXPIRED') GROUP BY sender, status
    """
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with pooled_connection():
        for sender, status, total in db.execute_sql(sql).fetchall():
            found[sender][status] = int(total)
    return dict(found)


def statuses_of(ids: Sequence[str]) -> dict[str, str]:
    """Answer the status of each of these messages; an unknown id is left out."""
    if not ids:
        return {}
    sql = f"SELECT id, status FROM message WHERE id IN ({', '.join([db.param] * len(ids))})"  # noqa: S608
    with pooled_connection():
        return dict(db.execute_sql(sql, ids).fetchall())


def open_messages(sender: str) -> int:
    """Count a sender's messages that wait, are being sent, or need a decision."""
    sql = (
        "SELECT COUNT(*) FROM message"  # noqa: S608 - only placeholders are put in
        f" WHERE sender = {db.param} AND status IN ('SCHEDULED', 'QUEUED', 'SENDING', 'UNKNOWN')"
    )
    with pooled_connection():
        return int(db.execute_sql(sql, (sender,)).fetchone()[0])


def unknown_by_route(sender: str) -> dict[Route | None, int]:
    """Count a sender's messages of unknown outcome by what they went through (``None`` where nobody wrote it down)."""
    sql = (
        "SELECT provider, mailbox_key, entra_tenant, app_id, COUNT(*) FROM message"  # noqa: S608 - only placeholders
        f" WHERE status IN ('QUEUED', 'SENDING', 'UNKNOWN') AND status = 'UNKNOWN' AND sender = {db.param}"
        " GROUP BY provider, mailbox_key, entra_tenant, app_id"
    )
    found: defaultdict[Route | None, int] = defaultdict(int)
    with pooled_connection():
        for provider, mailbox_key, entra_tenant, app_id, number in db.execute_sql(sql, (sender,)).fetchall():
            known = provider is not None and mailbox_key is not None
            found[Route(provider, mailbox_key, entra_tenant, app_id) if known else None] += int(number)
    return dict(found)


def _moment(value: datetime | str | None) -> datetime | None:
    if value is None:
        return None
    return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)
