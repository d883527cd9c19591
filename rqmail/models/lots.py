"""What waits of each sender, messages that are alike counted together. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rqmail.models.base import db, is_postgresql, pooled_connection, to_column


@dataclass(frozen=True, slots=True)
class WaitingLot:
    """Messages of one sender that are as urgent as each other and have as many recipients each.

    ``not_before`` is when the last of those that are due within one minute may go; ``None`` for what may go now. All of
    them upload files, ``upload_bytes_each`` on average, or none does.
    """

    sender: str
    priority: int
    recipients_each: int
    not_before: datetime | None
    messages: int
    upload_bytes_each: int = 0


def waiting_lots(senders: Sequence[str], now: datetime) -> list[WaitingLot]:
    """Count what these senders have waiting, the more urgent first; what is claimed already goes before all of it."""
    if not senders:
        return []
    these = f"sender IN ({', '.join([db.param] * len(senders))})"
    minute = "date_trunc('minute', scheduled_on)" if is_postgresql() else "substr(scheduled_on, 1, 16)"
    none = "CAST(NULL AS TIMESTAMPTZ)" if is_postgresql() else "NULL"
    uploads = "COALESCE(SUM(upload_bytes), 0)"
    sql = f"""
        SELECT sender, -1, recipient_count, {none}, COUNT(*), {uploads} FROM message
        WHERE status IN ('QUEUED', 'SENDING') AND status = 'QUEUED' AND {these}
        GROUP BY sender, recipient_count, upload_bytes IS NULL
        UNION ALL
        SELECT sender, priority, recipient_count, {none}, COUNT(*), {uploads} FROM message
        WHERE status = 'SCHEDULED' AND scheduled_on <= {db.param} AND {these}
        GROUP BY sender, priority, recipient_count, upload_bytes IS NULL
        UNION ALL
        SELECT sender, priority, recipient_count, MAX(scheduled_on), COUNT(*), {uploads} FROM message
        WHERE status = 'SCHEDULED' AND scheduled_on > {db.param} AND {these}
        GROUP BY sender, priority, recipient_count, upload_bytes IS NULL, {minute}
    """  # noqa: S608 - only placeholders and constants are put in
    moment = to_column(now)
    with pooled_connection():
        rows = db.execute_sql(sql, [*senders, moment, *senders, moment, *senders]).fetchall()
    lots = [
        WaitingLot(row[0], row[1], row[2], _moment(row[3]), int(row[4]), -(-int(row[5]) // int(row[4]))) for row in rows
    ]
    return sorted(lots, key=lambda lot: (lot.priority, lot.recipients_each))


def _moment(value: str | datetime | None) -> datetime | None:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return None if moment is None else moment.astimezone(UTC)
