"""What has gone out through a mailbox lately: the memory the limiter's windows are refilled from. Reads only."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from rqmail.clock import to_epoch_ms
from rqmail.models.base import db, pooled_connection, to_column


def attempt_name(message_id: str, claim: str | None) -> str | None:
    """Name one attempt at a message, ``None`` where nobody has claimed it; its reservation has that name too."""
    return None if claim is None else f"{message_id}:{claim}"


#: Moment (ms since 1970), recipients, attempt, bytes uploaded.
Told: TypeAlias = tuple[int, int, str | None, int]

#: What may have used budget, as the partial index says it; when, at the latest; and whose attempt it is.
_USED = "status IN ('SENDING', 'SENT', 'UNKNOWN')"
_WHEN = (
    "CASE status WHEN 'SENT' THEN COALESCE(sent_on, attempted_on)"
    " WHEN 'SENDING' THEN COALESCE(lease_until, attempted_on) ELSE attempted_on END"
)
_WHOSE = "CASE status WHEN 'SENDING' THEN claim END"


def sends_since(mailbox_key: str, since: datetime) -> list[Told]:
    """List every send through the mailbox that used budget since then.

    Each is told in milliseconds since 1970, recipients, attempt, and bytes uploaded; at the latest moment the provider
    may have taken it: what is being sent, at the end of its lease, and with the name of its attempt.
    """
    sql = (
        f"SELECT {_WHEN}, recipient_count, id, {_WHOSE}, upload_bytes FROM message WHERE {_USED}"  # noqa: S608
        f" AND mailbox_key = {db.param} AND attempted_on > {db.param} ORDER BY attempted_on"
    )
    return _told(sql, (mailbox_key, to_column(since)))


def external_since(entra_tenant: str, since: datetime, *, onmicrosoft: bool = False) -> list[Told]:
    """List every send to external recipients since then of all mailboxes of an Entra tenant, as :func:`sends_since`.

    With ``onmicrosoft`` only of those on ``*.onmicrosoft.com``. Where nobody counted the external ones, all recipients
    count.
    """
    first = f"SELECT mailbox_key FROM message WHERE {_USED} AND mailbox_key IS NOT NULL"  # noqa: S608
    sql = f"""
        WITH RECURSIVE known(mailbox) AS (
            SELECT * FROM ({first} ORDER BY mailbox_key LIMIT 1) AS one
            UNION ALL
            SELECT ({first} AND mailbox_key > known.mailbox ORDER BY mailbox_key LIMIT 1)
            FROM known WHERE known.mailbox IS NOT NULL
        )
        SELECT {_WHEN}, COALESCE(external_count, recipient_count), id, {_WHOSE}, 0
        FROM known JOIN message ON message.mailbox_key = known.mailbox
        WHERE {_USED} AND attempted_on > {db.param} AND COALESCE(LOWER(entra_tenant), '') = {db.param}
        AND COALESCE(external_count, 1) > 0 {"AND known.mailbox LIKE '%%.onmicrosoft.com'" if onmicrosoft else ""}
    """  # noqa: S608 - only constants and placeholders are put in
    return _told(sql, (to_column(since), entra_tenant))


def _told(sql: str, values: tuple[Any, ...]) -> list[Told]:
    with pooled_connection():
        rows = db.execute_sql(sql, values).fetchall()
    return [
        (
            to_epoch_ms(datetime.fromisoformat(at) if isinstance(at, str) else at),
            int(recipients),
            attempt_name(message_id, claim),
            int(uploads or 0),
        )
        for at, recipients, message_id, claim, uploads in rows
    ]
