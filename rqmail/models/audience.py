"""The people of campaigns: each is a small row, and becomes a message when a mailbox has room.

That a person gets no second mail of a campaign is held by two keys: one row a person, and one message a row. A row is
taken in the transaction that makes its message, so whoever dies leaves both or neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

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
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.message import Message, NewMessage, NewRecipient, Priority, RecipientKind
from rqmail.models.submitting import insert_rows

#: Rows that are named in one statement.
_AT_ONCE = 500

_NEVER = datetime.min.replace(tzinfo=UTC)


class PersonState(StrEnum):
    """Where a person of a campaign is; who has a message is wherever that is."""

    WAITING = "WAITING"
    #: Had mail of another campaign lately.
    HELD = "HELD"
    TAKEN = "TAKEN"
    SUPPRESSED = "SUPPRESSED"


class CampaignRecipient(BaseModel):
    """One person of a campaign; ``person`` is what all spellings of the address have in common.

    ``number`` is the place in the list, ``data`` a JSON list of the values of the campaign's fields. ``sender`` is whom
    the person always hears from; empty where any member of the pool may write.
    """

    campaign = peewee.ForeignKeyField(Campaign, on_delete="CASCADE", backref="recipients")
    number = peewee.IntegerField()
    address = peewee.CharField(max_length=320)
    person = peewee.CharField(max_length=320)
    name = peewee.TextField(default="")
    data = peewee.TextField(default="[]")
    state = peewee.CharField(max_length=10, default=PersonState.WAITING.value)
    sender = peewee.CharField(max_length=80, default="")
    held_until = UtcDateTimeField(null=True)
    message_id = peewee.CharField(max_length=36, null=True)

    class Meta:
        """A person has a number in a campaign."""

        table_name = "campaign_recipient"
        primary_key = peewee.CompositeKey("campaign", "number")


@dataclass(frozen=True, slots=True)
class NewPerson:
    """One person of a list that was checked."""

    number: int
    address: str
    person: str
    name: str
    values: tuple[str, ...]
    sender: str = ""
    suppressed: bool = False


@dataclass(frozen=True, slots=True)
class Addressed:
    """Whom a message of a campaign is made for: what its text is rendered from.

    ``made_on`` is when the campaign was created: an id may be another's by now, where a draft was deleted.
    """

    campaign_id: int
    made_on: datetime
    number: int
    address: str
    name: str
    data: str


def add(campaign: Campaign, people: Iterable[NewPerson]) -> None:
    """Store people of a campaign that is being created, all or none of them."""
    rows = [
        (
            campaign.id,
            one.number,
            one.address,
            one.person,
            one.name,
            json.dumps(one.values, ensure_ascii=False, separators=(",", ":")),
            (PersonState.SUPPRESSED if one.suppressed else PersonState.WAITING).value,
            one.sender,
        )
        for one in people
    ]
    columns = "campaign_id, number, address, person, name, data, state, sender"
    with transaction():
        insert_rows(db.execute_sql, "campaign_recipient", columns, rows)


def copy(source: Campaign, target: Campaign) -> None:
    """Give a campaign that is being created the people of another, all of them waiting."""
    sql = f"""
        INSERT INTO campaign_recipient (campaign_id, number, address, person, name, data, state, sender)
        SELECT {db.param}, number, address, person, name, data, 'WAITING', sender
        FROM campaign_recipient WHERE campaign_id = {db.param}
    """  # noqa: S608 - only placeholders are put in
    with transaction():
        db.execute_sql(sql, (target.id, source.id))


def person_at(campaign: Campaign, number: int) -> CampaignRecipient | None:
    """Answer one person by their place among a campaign's people, 1 the first."""
    with pooled_connection():
        query = CampaignRecipient.select().where(CampaignRecipient.campaign == campaign.id)
        return query.order_by(CampaignRecipient.number).offset(number - 1).first()  # type: ignore[no-any-return]


# --- from the list to the mailboxes ---------------------------------------------------------------------------------


def let_wait_again(now: datetime) -> None:
    """Let the people wait again whose time of rest after another campaign's mail is over."""
    sql = f"""
        UPDATE campaign_recipient SET state = 'WAITING', held_until = NULL
        WHERE state = 'HELD' AND held_until <= {db.param}
        AND campaign_id IN (SELECT id FROM campaign WHERE ended_on IS NULL AND started_on IS NOT NULL)
    """  # noqa: S608 - only a placeholder is put in
    with pooled_connection():
        db.execute_sql(sql, (to_column(now),))


def in_line(campaign_ids: Sequence[int]) -> dict[tuple[int, str], int]:
    """Count the messages of these campaigns that wait in the mailboxes' lines, by campaign and sender."""
    if not campaign_ids:
        return {}
    sql = (
        "SELECT campaign_id, sender, COUNT(*) FROM message"  # noqa: S608 - only placeholders are put in
        f" WHERE campaign_id IN ({', '.join([db.param] * len(campaign_ids))})"
        " AND status = 'SCHEDULED' GROUP BY campaign_id, sender"
    )
    with pooled_connection():
        return {(row[0], row[1]): int(row[2]) for row in db.execute_sql(sql, list(campaign_ids)).fetchall()}


@dataclass(frozen=True)
class Taking:
    """How people become messages: whom they are not to go to, and what the subject of each is."""

    now: datetime
    suppressed: Callable[[Sequence[str]], set[str]]
    subject: Callable[[Campaign, Addressed], str]


def take(campaign_id: int, shares: Mapping[str, int], taking: Taking) -> int:
    """Make messages of the next people who wait, ``shares`` of them for each sender, and answer how many.

    Who is suppressed by now gets none; who had mail of another campaign lately waits until that is long enough ago.
    """
    with transaction():
        campaign = Campaign.get_or_none(Campaign.id == campaign_id, Campaign.state == CampaignState.RUNNING.value)
        if campaign is None:
            return 0
        if campaign.sticky:
            dealt = [(sender, row) for sender, share in shares.items() for row in _next(campaign, sender, share)]
        else:
            dealt = list(zip(_dealt(shares), _next(campaign, "", sum(shares.values())), strict=False))
        people = [row for _, row in dealt]
        left_out = _set_aside(campaign, people, taking)
        messages = [
            (
                row.number,
                NewMessage(
                    sender=sender,
                    subject=taking.subject(campaign, row.addressed),
                    recipients=(NewRecipient(RecipientKind.TO, row.addressed.address, row.addressed.name),),
                    expires_on=campaign.expires_on,
                    priority=Priority(campaign.priority),
                ),
            )
            for sender, row in dealt
            if row.number not in left_out
        ]
        Message.submit(
            [message for _, message in messages], taking.now, f"campaign:{campaign.name}", campaign_id=campaign_id
        )
        _mark_taken(campaign_id, [(number, message.id) for number, message in messages])
    return len(messages)


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    person: str
    addressed: Addressed


def _next(campaign: Campaign, sender: str, number: int) -> list[_Row]:
    """Fetch the first who wait, locked against whoever else takes people at this moment."""
    sql = (
        "SELECT number, person, address, name, data FROM campaign_recipient"  # noqa: S608 - only placeholders are put in
        f" WHERE campaign_id = {db.param} AND sender = {db.param} AND state = 'WAITING'"
        f" ORDER BY number LIMIT {db.param}"
    )
    if is_postgresql():
        sql += " FOR UPDATE SKIP LOCKED"
    rows = db.execute_sql(sql, (campaign.id, sender, number)).fetchall()
    return [_Row(row[0], row[1], Addressed(campaign.id, campaign.created_on, row[0], *row[2:])) for row in rows]


def _dealt(shares: Mapping[str, int]) -> Iterator[str]:
    """Deal out the senders in turn, each as often as its share."""
    left = {sender: share for sender, share in shares.items() if share > 0}
    while left:
        for sender in [*left]:
            yield sender
            left[sender] -= 1
            if left[sender] == 0:
                del left[sender]


def _set_aside(campaign: Campaign, people: Sequence[_Row], taking: Taking) -> set[int]:
    """Mark who gets no mail, or none yet, and answer their numbers."""
    suppressed = taking.suppressed([row.person for row in people])
    refused = {row.number for row in people if row.person in suppressed}
    _mark(campaign.id, refused, PersonState.SUPPRESSED, None)
    if campaign.not_within_hours is None:
        return refused
    rest = timedelta(hours=campaign.not_within_hours)
    lately = _written_to_lately([row.person for row in people], taking.now - rest)
    held = {}
    for row in people:
        if row.number not in refused and (last := lately.get(row.person)) is not None:
            held[row.number] = last + rest
    for until in set(held.values()):
        _mark(campaign.id, {number for number, moment in held.items() if moment == until}, PersonState.HELD, until)
    return refused | held.keys()


def _written_to_lately(people: Sequence[str], since: datetime) -> dict[str, datetime]:
    """Answer which of these had mail of a campaign since then, or are about to get it, and when the last of it was."""
    found: dict[str, datetime] = {}
    for start in range(0, len(people), _AT_ONCE):
        some = list(people[start : start + _AT_ONCE])
        sql = f"""
            SELECT r.person, MAX(COALESCE(m.sent_on, m.attempted_on, m.created_on))
            FROM campaign_recipient r JOIN message m ON m.id = r.message_id
            WHERE r.person IN ({", ".join([db.param] * len(some))})
            AND m.status NOT IN ('ERROR', 'CANCELLED', 'EXPIRED')
            AND COALESCE(m.sent_on, m.attempted_on, m.created_on) > {db.param} GROUP BY r.person
        """  # noqa: S608 - only placeholders are put in
        for person, moment in db.execute_sql(sql, [*some, to_column(since)]).fetchall():
            if (last := from_column(moment)) is not None:
                found[person] = last
    return found


def _mark(campaign_id: int, numbers: set[int], state: PersonState, until: datetime | None) -> None:
    if numbers:
        CampaignRecipient.update(state=state.value, held_until=until).where(
            CampaignRecipient.campaign == campaign_id, CampaignRecipient.number.in_(sorted(numbers))
        ).execute()


def _mark_taken(campaign_id: int, made: Sequence[tuple[int, str]]) -> None:
    for start in range(0, len(made), _AT_ONCE):
        some = made[start : start + _AT_ONCE]
        cases = " ".join([f"WHEN {db.param} THEN {db.param}"] * len(some))
        db.execute_sql(
            f"UPDATE campaign_recipient SET state = 'TAKEN', message_id = CASE number {cases} END"  # noqa: S608
            f" WHERE campaign_id = {db.param} AND number IN ({', '.join([db.param] * len(some))})",
            [*(value for pair in some for value in pair), campaign_id, *(number for number, _ in some)],
        )


def take_back(campaign_id: int, sender: str | None = None) -> int:
    """Let the people wait again whose messages nobody has begun to send, and answer how many they are.

    Their messages are deleted: none of these ever went to a provider. With ``sender`` only those in its line.
    """
    p = db.param
    condition, values = f"campaign_id = {p}", [campaign_id]
    if sender is not None:
        condition, values = f"{condition} AND sender = {p}", [*values, sender]  # type: ignore[list-item]
    queued = f"SELECT id FROM message WHERE {condition} AND status = 'QUEUED'"  # noqa: S608 - only placeholders
    untouched = f"{condition} AND status = 'SCHEDULED' AND attempted_on IS NULL"
    with transaction():
        # Their job passes over what is queued no longer.
        ids = [row[0] for row in db.execute_sql(queued, values).fetchall()]
        for start in range(0, len(ids), _AT_ONCE):
            Message.put_back(ids[start : start + _AT_ONCE])
        deleted = [
            row[0]
            for row in db.execute_sql(f"DELETE FROM message WHERE {untouched} RETURNING id", values).fetchall()  # noqa: S608
        ]
        for start in range(0, len(deleted), _AT_ONCE):
            CampaignRecipient.update(state=PersonState.WAITING.value, message_id=None).where(
                CampaignRecipient.message_id.in_(deleted[start : start + _AT_ONCE])
            ).execute()
    return len(deleted)


def deal_anew(campaign: Campaign, sender_of: Callable[[str], str]) -> None:
    """Say anew whom everybody who still waits hears from: the members of the pool have changed."""
    with transaction():
        waiting = db.execute_sql(
            "SELECT number, person, sender FROM campaign_recipient"  # noqa: S608 - only a placeholder is put in
            f" WHERE campaign_id = {db.param} AND state IN ('WAITING', 'HELD')",
            (campaign.id,),
        ).fetchall()
        moves: dict[str, list[int]] = {}
        for number, person, former in waiting:
            if (sender := sender_of(person)) != former:
                moves.setdefault(sender, []).append(number)
        for sender, numbers in moves.items():
            for start in range(0, len(numbers), _AT_ONCE):
                CampaignRecipient.update(sender=sender).where(
                    CampaignRecipient.campaign == campaign.id,
                    CampaignRecipient.number.in_(numbers[start : start + _AT_ONCE]),
                ).execute()


# --- what its messages are rendered from ----------------------------------------------------------------------------


def addressed(message_ids: Sequence[str]) -> dict[str, Addressed]:
    """Answer for messages that belong to a campaign whom each is made for."""
    if not message_ids:
        return {}
    sql = (
        "SELECT message_id, campaign_id, created_on, number, address, r.name, data FROM campaign_recipient r"  # noqa: S608
        f" JOIN campaign c ON c.id = campaign_id WHERE message_id IN ({', '.join([db.param] * len(message_ids))})"
    )
    with pooled_connection():
        rows = db.execute_sql(sql, list(message_ids)).fetchall()
    return {row[0]: Addressed(row[1], from_column(row[2]) or _NEVER, *row[3:]) for row in rows}
