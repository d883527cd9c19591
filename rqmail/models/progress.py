"""What became of campaigns: how many people are where, and of each person what is known. Reads, and what ends one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rqmail.models import events
from rqmail.models.base import db, from_column, is_postgresql, pooled_connection, to_column, transaction
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.suppression import INSTALLATION
from rqmail.models.webhooks import EventType


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one person's mail.

    ``status`` is that of the message; of who has none, ``WAITING``, ``HELD`` or ``SUPPRESSED``. ``mailbox`` is the key
    of the one that writes to them, ``bounced`` the code with which the mail came back, ``unsubscribed_on`` since when
    the person wants none any more, ``delivery`` what the message trace says, where that is read.
    """

    number: int
    address: str
    name: str
    status: str
    message_id: str | None = None
    mailbox: str | None = None
    sent_on: datetime | None = None
    error: str | None = None
    bounced: str | None = None
    unsubscribed_on: datetime | None = None
    delivery: str | None = None


_STATUS = "CASE WHEN r.message_id IS NULL THEN r.state ELSE COALESCE(m.status, 'CANCELLED') END"


def counts(campaign_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Count the people of these campaigns: by state while they have no message, by the message's status then."""
    found: dict[int, dict[str, int]] = {one: {} for one in campaign_ids}
    if not campaign_ids:
        return found
    these = f"campaign_id IN ({', '.join([db.param] * len(campaign_ids))})"
    sql = f"""
        SELECT campaign_id, state, COUNT(*) FROM campaign_recipient
        WHERE {these} AND state <> 'TAKEN' GROUP BY campaign_id, state
        UNION ALL
        SELECT campaign_id, status, COUNT(*) FROM message WHERE {these} GROUP BY campaign_id, status
    """  # noqa: S608 - only placeholders are put in
    with pooled_connection():
        for campaign_id, status, number in db.execute_sql(sql, [*campaign_ids, *campaign_ids]).fetchall():
            found[campaign_id][status] = int(number)
    return found


def bounces(campaign_ids: Sequence[int]) -> dict[int, int]:
    """Count for each of these campaigns the people whose mail came back."""
    if not campaign_ids:
        return {}
    sql = (
        "SELECT m.campaign_id, COUNT(DISTINCT r.message_id) FROM recipient_result r"  # noqa: S608 - placeholders
        " JOIN message m ON m.id = r.message_id"
        f" WHERE m.campaign_id IN ({', '.join([db.param] * len(campaign_ids))}) AND r.result = 'bounced'"
        " GROUP BY m.campaign_id"
    )
    with pooled_connection():
        return {row[0]: int(row[1]) for row in db.execute_sql(sql, list(campaign_ids)).fetchall()}


def delivered(campaign_ids: Sequence[int]) -> dict[int, int]:
    """Count for each of these campaigns the people whose mail the trace says was delivered."""
    if not campaign_ids:
        return {}
    sql = (
        "SELECT m.campaign_id, COUNT(DISTINCT d.message_id) FROM recipient_delivery d"  # noqa: S608 - placeholders
        " JOIN message m ON m.id = d.message_id"
        f" WHERE m.campaign_id IN ({', '.join([db.param] * len(campaign_ids))}) AND d.status = 'delivered'"
        " GROUP BY m.campaign_id"
    )
    with pooled_connection():
        return {row[0]: int(row[1]) for row in db.execute_sql(sql, list(campaign_ids)).fetchall()}


def counts_of_senders(campaign: Campaign) -> dict[str, dict[str, int]]:
    """Count a campaign's messages by sender and status."""
    sql = (
        "SELECT sender, status, COUNT(*) FROM message"  # noqa: S608 - only a placeholder is put in
        f" WHERE campaign_id = {db.param} GROUP BY sender, status"
    )
    found: dict[str, dict[str, int]] = {}
    with pooled_connection():
        for sender, status, number in db.execute_sql(sql, (campaign.id,)).fetchall():
            found.setdefault(sender, {})[status] = int(number)
    return found


def errors(campaign: Campaign, *, limit: int = 20) -> list[tuple[str, int]]:
    """Answer why mail of a campaign failed, and how often, the most frequent first."""
    sql = f"""
        SELECT COALESCE(last_error, ''), COUNT(*) FROM message
        WHERE campaign_id = {db.param} AND status = 'ERROR' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {db.param}
    """  # noqa: S608 - only placeholders are put in
    with pooled_connection():
        return [(row[0], int(row[1])) for row in db.execute_sql(sql, (campaign.id, limit)).fetchall()]


def sent_by_minute(campaign: Campaign) -> list[tuple[datetime, int]]:
    """Count a campaign's sent mail by minute, in order of time."""
    minute = "date_trunc('minute', sent_on)" if is_postgresql() else "substr(sent_on, 1, 16)"
    sql = (
        f"SELECT {minute}, COUNT(*) FROM message WHERE campaign_id = {db.param}"  # noqa: S608
        " AND status = 'SENT' AND sent_on IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    with pooled_connection():
        rows = db.execute_sql(sql, (campaign.id,)).fetchall()
    return [(_moment(row[0]), int(row[1])) for row in rows]


def count_sent(campaign: Campaign, since: datetime) -> int:
    """Count what a campaign sent since then."""
    sql = (
        f"SELECT COUNT(*) FROM message WHERE campaign_id = {db.param} AND status = 'SENT'"  # noqa: S608
        f" AND sent_on >= {db.param}"
    )
    with pooled_connection():
        return int(db.execute_sql(sql, (campaign.id, to_column(since))).fetchone()[0])


def _moment(value: str | datetime) -> datetime:
    return datetime.fromisoformat(f"{value}:00+00:00") if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which people are asked for: of a status, with a piece of the address or name, or who failed for one reason."""

    status: str | None = None
    part: str = ""
    error: str | None = None


def outcomes(campaign: Campaign, wanted: Wanted = Wanted(), *, after: int = 0, limit: int = 1_000) -> list[Outcome]:
    """Answer what became of the people after this place in the list, in its order."""
    p = db.param
    conditions = [f"r.campaign_id = {p}", f"r.number > {p}"]
    values: list[object] = [campaign.id, after]
    for condition, value in (
        (f"{_STATUS} = {p}", wanted.status),
        (f"LOWER(r.address || ' ' || r.name) LIKE {p} ESCAPE '!'", _like(wanted.part)),
        (f"COALESCE(m.last_error, '') = {p}", wanted.error),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    sql = f"""
        SELECT r.number, r.address, r.name, {_STATUS}, r.message_id,
               m.sender, m.sent_on, m.last_error,
               (SELECT MAX(b.code) FROM recipient_result b WHERE b.message_id = r.message_id AND b.result = 'bounced'),
               (SELECT s.unsubscribed_on FROM suppression s WHERE s.address = r.person AND s.scope = '{INSTALLATION}'),
               d.status
        FROM campaign_recipient r LEFT JOIN message m ON m.id = r.message_id
        LEFT JOIN recipient_delivery d ON d.message_id = r.message_id
        WHERE {" AND ".join(conditions)} ORDER BY r.number LIMIT {p}
    """  # noqa: S608 - only placeholders are put in
    with pooled_connection():
        rows = db.execute_sql(sql, [*values, limit]).fetchall()
    return [
        Outcome(
            number,
            address,
            name,
            status,
            message_id,
            _key(sender),
            from_column(sent_on),
            error,
            bounced,
            from_column(left),
            delivery,
        )
        for number, address, name, status, message_id, sender, sent_on, error, bounced, left, delivery in rows
    ]


def _key(sender: str | None) -> str | None:
    return None if sender is None else sender.partition(":")[2] or sender


def _like(part: str) -> str | None:
    if not part:
        return None
    return "%" + "".join(f"!{sign}" if sign in "!%_" else sign for sign in part.lower()) + "%"


def failed_messages(campaign: Campaign, *, limit: int) -> list[str]:
    """Answer ids of messages of a campaign that ended in ERROR, or that a person discarded."""
    sql = (
        "SELECT id FROM message"  # noqa: S608 - only placeholders are put in
        f" WHERE campaign_id = {db.param} AND status IN ('ERROR', 'CANCELLED') ORDER BY id LIMIT {db.param}"
    )
    with pooled_connection():
        return [row[0] for row in db.execute_sql(sql, (campaign.id, limit)).fetchall()]


#: Of nobody in it anything more is to be expected.
_SETTLED = """
    NOT EXISTS (SELECT 1 FROM message m WHERE m.campaign_id = campaign.id
                AND m.status IN ('SCHEDULED', 'QUEUED', 'SENDING', 'UNKNOWN'))
"""
_NOBODY_WAITS = """
    NOT EXISTS (SELECT 1 FROM campaign_recipient r WHERE r.campaign_id = campaign.id AND r.state = 'WAITING')
    AND NOT EXISTS (SELECT 1 FROM campaign_recipient r WHERE r.campaign_id = campaign.id AND r.state = 'HELD')
"""


def end_those_done(now: datetime) -> list[str]:
    """Close what is over: a running campaign is DONE with its last mail, or when it has expired; answer the names."""
    p = db.param
    sql = f"""
        UPDATE campaign SET state = CASE state WHEN 'CANCELLED' THEN state ELSE 'DONE' END, ended_on = {p}
        WHERE ended_on IS NULL AND started_on IS NOT NULL AND {_SETTLED}
        AND (state = 'CANCELLED' OR (state = 'RUNNING' AND (expires_on <= {p} OR ({_NOBODY_WAITS}))))
        RETURNING id, name, state
    """  # noqa: S608 - only placeholders and constants are put in
    with transaction():
        ended = db.execute_sql(sql, (to_column(now), to_column(now))).fetchall()
        if ended and events.listeners(EventType.CAMPAIGN_FINISHED):
            people = counts([row[0] for row in ended])
            for campaign_id, name, state in ended:
                events.tell_of_campaign(name, state, people[campaign_id], now)
    return [row[1] for row in ended]


def count_ended(before: datetime) -> int:
    """Count the campaigns that ended before then."""
    with pooled_connection():
        sql = f"SELECT COUNT(*) FROM campaign WHERE ended_on < {db.param}"  # noqa: S608 - only a placeholder is put in
        return int(db.execute_sql(sql, (to_column(before),)).fetchone()[0])


def forget_ended(before: datetime, *, limit: int) -> int:
    """Delete the messages of campaigns that ended before then, then the campaigns; at most ``limit`` rows at once."""
    p = db.param
    with pooled_connection():
        ended = [
            row[0]
            for row in db.execute_sql(
                f"SELECT id FROM campaign WHERE ended_on < {p} ORDER BY ended_on LIMIT 10",  # noqa: S608
                (to_column(before),),
            ).fetchall()
        ]
        deleted = 0
        for campaign_id in ended:
            deleted += _delete_part(campaign_id, limit - deleted)
            if deleted >= limit:
                break
        return deleted


def _delete_part(campaign_id: int, limit: int) -> int:
    p = db.param
    for table, key in (("message", "id"), ("campaign_recipient", "number")):
        which = f"campaign_id = {p} AND {key} IN (SELECT {key} FROM {table} WHERE campaign_id = {p} LIMIT {p})"  # noqa: S608
        gone = db.execute_sql(f"DELETE FROM {table} WHERE {which}", (campaign_id, campaign_id, limit)).rowcount  # noqa: S608
        if gone:
            return int(gone)
    Campaign.delete().where(Campaign.id == campaign_id).execute()
    return 1


def is_over(campaign: Campaign) -> bool:
    """Whether nothing of a campaign will be sent any more."""
    return campaign.state in {CampaignState.DONE.value, CampaignState.CANCELLED.value}


def last_sent(campaign: Campaign) -> datetime | None:
    """Answer when the last mail of a campaign was sent."""
    sql = f"SELECT MAX(sent_on) FROM message WHERE campaign_id = {db.param} AND status = 'SENT'"  # noqa: S608
    with pooled_connection():
        return from_column(db.execute_sql(sql, (campaign.id,)).fetchone()[0])
