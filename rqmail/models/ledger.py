"""What has gone out through a mailbox lately: the memory the limiter's windows are refilled from. Reads only."""

from __future__ import annotations

from datetime import datetime

from rqmail.clock import to_epoch_ms
from rqmail.models.base import borrowed, db, to_column


def sends_since(mailbox_key: str, since: datetime) -> list[tuple[int, int]]:
    """List every send through the mailbox that used budget since then: (milliseconds since 1970, recipients)."""
    sql = (
        "SELECT attempted_on, recipient_count FROM message"  # noqa: S608 - only placeholders are put in
        " WHERE status IN ('SENDING', 'SENT', 'UNKNOWN')"
        f" AND mailbox_key = {db.param} AND attempted_on > {db.param} ORDER BY attempted_on"
    )
    with borrowed():
        rows = db.execute_sql(sql, (mailbox_key, to_column(since))).fetchall()
    return [
        (to_epoch_ms(datetime.fromisoformat(at) if isinstance(at, str) else at), int(recipients))
        for at, recipients in rows
    ]
