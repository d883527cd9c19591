"""What has gone out through a mailbox lately: the memory the limiter's windows are refilled from. Reads only."""

from __future__ import annotations

from datetime import datetime

from rqmail.clock import to_epoch_ms
from rqmail.models.base import db, pooled_connection, to_column


def attempt_name(message_id: str, claim: str | None) -> str | None:
    """Name one attempt at a message, ``None`` where nobody has claimed it; its reservation has that name too."""
    return None if claim is None else f"{message_id}:{claim}"


def sends_since(mailbox_key: str, since: datetime) -> list[tuple[int, int, str | None, int]]:
    """List every send through the mailbox that used budget since then.

    Each is told in milliseconds since 1970, recipients, attempt, and bytes uploaded; at the latest moment the provider
    may have taken it: what is being sent, at the end of its lease, and with the name of its attempt.
    """
    sql = (
        "SELECT CASE status WHEN 'SENT' THEN COALESCE(sent_on, attempted_on)"  # noqa: S608 - only placeholders are put in
        " WHEN 'SENDING' THEN COALESCE(lease_until, attempted_on) ELSE attempted_on END, recipient_count,"
        " id, CASE status WHEN 'SENDING' THEN claim END, upload_bytes FROM message"
        " WHERE status IN ('SENDING', 'SENT', 'UNKNOWN')"
        f" AND mailbox_key = {db.param} AND attempted_on > {db.param} ORDER BY attempted_on"
    )
    with pooled_connection():
        rows = db.execute_sql(sql, (mailbox_key, to_column(since))).fetchall()
    return [
        (
            to_epoch_ms(datetime.fromisoformat(at) if isinstance(at, str) else at),
            int(recipients),
            attempt_name(message_id, claim),
            int(uploads or 0),
        )
        for at, recipients, message_id, claim, uploads in rows
    ]
