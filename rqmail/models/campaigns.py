"""Campaigns: one text for many people. What a campaign is, which mailboxes it may use, and its states.

Its people are in ``audience.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import peewee

from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.models.base import BaseModel, UtcDateTimeField, db, pooled_connection, transaction
from rqmail.models.message import Priority


class CampaignState(StrEnum):
    """Where a campaign is on its way."""

    #: Its people are being stored; left behind by a process that died, it is deleted.
    CREATING = "CREATING"
    #: Everything is there, nothing is sent.
    DRAFT = "DRAFT"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"
    #: Of everybody in it is known what became of their mail.
    DONE = "DONE"


class Campaign(BaseModel):
    """A template with its settings; ``fields`` are the names of the list's columns as JSON, in their order.

    The template never changes. ``people`` is how many were to be written to when it was created. ``window`` is when it
    may send, as :class:`rqmail.campaigns.window.SendingWindow` writes it; ``extras`` as a message has them.
    """

    id = peewee.AutoField()
    name = peewee.CharField(max_length=80, unique=True)
    state = peewee.CharField(max_length=10, default=CampaignState.CREATING.value)
    subject = peewee.TextField()
    text = peewee.TextField(null=True)
    html = peewee.TextField(null=True)
    fields = peewee.TextField()
    extras = peewee.TextField(null=True)
    language = peewee.CharField(max_length=20)
    priority = peewee.SmallIntegerField(default=Priority.LOW.value)
    sticky: Any = peewee.BooleanField(default=False)
    unsubscribe: Any = peewee.BooleanField(default=False)
    window = peewee.TextField(null=True)
    #: Nobody is written to who had mail of another campaign within so many hours.
    not_within_hours = peewee.IntegerField(null=True)
    starts_on = UtcDateTimeField(null=True)
    expires_on = UtcDateTimeField(null=True)
    people = peewee.IntegerField(default=0)
    created_by = peewee.CharField(max_length=80)
    created_on = UtcDateTimeField()
    started_on = UtcDateTimeField(null=True)
    ended_on = UtcDateTimeField(null=True)

    @property
    def is_started(self) -> bool:
        """Whether any of its mail may have gone out."""
        return self.state not in {CampaignState.CREATING.value, CampaignState.DRAFT.value}


class CampaignMailbox(BaseModel):
    """A member of a campaign's pool: a sender through which its mail may go."""

    campaign = peewee.ForeignKeyField(Campaign, on_delete="CASCADE", backref="pool")
    sender = peewee.CharField(max_length=80)

    class Meta:
        """A sender is in a pool once."""

        table_name = "campaign_mailbox"
        primary_key = peewee.CompositeKey("campaign", "sender")


def find(name: str) -> Campaign:
    """Answer the campaign of this name, or of this id; raises ``NotFoundError`` when there is none."""
    with pooled_connection():
        found = Campaign.get_or_none(Campaign.name == name)
        if found is None and name.isascii() and name.isdigit() and len(name) < 10:
            found = Campaign.get_or_none(Campaign.id == int(name))
    if found is None or found.state == CampaignState.CREATING.value:
        raise NotFoundError("campaign", name)
    return found


def by_id(campaign_id: int) -> Campaign | None:
    """Answer the campaign a message belongs to; ``None`` when it is gone."""
    with pooled_connection():
        return Campaign.get_or_none(Campaign.id == campaign_id)


def all_campaigns(*, limit: int = 1_000, after: int | None = None) -> list[Campaign]:
    """List campaigns, the newest first; ``after`` is the id of the last one already seen."""
    query = Campaign.select().where(Campaign.state != CampaignState.CREATING.value)
    if after is not None:
        query = query.where(Campaign.id < after)
    with pooled_connection():
        return list(query.order_by(Campaign.id.desc()).limit(limit))


def open_campaigns() -> list[Campaign]:
    """List, without their texts, the campaigns that were started and are not over; cancelled ones until all settles."""
    columns = [field for field in Campaign._meta.sorted_fields if field.name not in {"text", "html", "fields"}]
    with pooled_connection():
        return list(
            Campaign.select(*columns)
            .where(peewee.SQL("ended_on IS NULL AND started_on IS NOT NULL"))  # as the partial index says it
            .order_by(Campaign.id)
        )


def senders_of(campaign_ids: Sequence[int]) -> dict[int, list[str]]:
    """Answer the senders of these campaigns' pools."""
    pools: dict[int, list[str]] = {one: [] for one in campaign_ids}
    with pooled_connection():
        sql = (
            "SELECT campaign_id, sender FROM campaign_mailbox"  # noqa: S608 - only placeholders are put in
            f" WHERE campaign_id IN ({', '.join([db.param] * len(campaign_ids)) or 'NULL'}) ORDER BY sender"
        )
        for campaign_id, sender in db.execute_sql(sql, list(campaign_ids)).fetchall():
            pools[campaign_id].append(sender)
    return pools


def open_with(sender: str) -> list[str]:
    """Answer the names of the campaigns that are not over and have this sender in their pool."""
    over = [CampaignState.DONE.value, CampaignState.CANCELLED.value]
    with pooled_connection():
        members = CampaignMailbox.select(CampaignMailbox.campaign).where(CampaignMailbox.sender == sender)
        found = Campaign.select(Campaign.name).where(Campaign.id.in_(members), Campaign.state.not_in(over))
        return [one.name for one in found.order_by(Campaign.id)]


def settings_of(campaign: Campaign) -> dict[str, Any]:
    """Answer what another campaign needs to be the same, but for its people and its moments."""
    own = {"id", "name", "state", "created_by", "created_on", "starts_on", "expires_on", "started_on", "ended_on"}
    return {one.name: getattr(campaign, one.name) for one in Campaign._meta.sorted_fields if one.name not in own}


def begin(values: dict[str, Any], senders: Sequence[str]) -> Campaign:
    """Store a campaign whose people are yet to come; raises ``InvalidInputError`` for a name that is taken."""
    with transaction():
        if Campaign.get_or_none(Campaign.name == values["name"]) is not None:
            raise InvalidInputError("name", values["name"], "a name that no other campaign has")
        campaign: Campaign = Campaign.create(**values)
        _put_in_pool(campaign, senders)
    return campaign


def forget_unfinished(before: datetime) -> int:
    """Delete campaigns whose creation was cut off before then."""
    with pooled_connection():
        return int(
            Campaign.delete()
            .where(Campaign.state == CampaignState.CREATING.value, Campaign.created_on < before)
            .execute()
        )


def move(campaign: Campaign, to: CampaignState, from_: Sequence[CampaignState], **changes: Any) -> bool:
    """Change a campaign's state; ``False`` where it is there already.

    Raises ``ConflictError`` where it is in none from which that is possible.
    """
    statement = Campaign.update(state=to.value, **changes).where(
        Campaign.id == campaign.id, Campaign.state.in_([one.value for one in from_])
    )
    with pooled_connection():
        if statement.execute():
            return True
        now = by_id(campaign.id)
    if now is not None and now.state == to.value:
        return False
    allowed = " or ".join(one.value for one in from_)
    raise ConflictError(
        f"Campaign {campaign.name!r} is {now.state if now else 'gone'}; it has to be {allowed} for that."
    )


def change(campaign: Campaign, senders: Sequence[str] | None, **changes: Any) -> None:
    """Change a campaign's settings, or the members of its pool; raises ``ConflictError`` for one that is over."""
    over = [CampaignState.DONE.value, CampaignState.CANCELLED.value]
    with transaction():
        current = Campaign.select(Campaign.state).where(Campaign.id == campaign.id).scalar()
        if current is None or current in over:
            raise ConflictError(f"Campaign {campaign.name!r} is {current or 'gone'}: there is nothing more to change.")
        if changes:
            Campaign.update(**changes).where(Campaign.id == campaign.id).execute()
        if senders is not None:
            CampaignMailbox.delete().where(CampaignMailbox.campaign == campaign.id).execute()
            _put_in_pool(campaign, senders)


def delete(campaign: Campaign) -> None:
    """Delete a campaign that was never started, with its people."""
    early = [CampaignState.DRAFT.value, CampaignState.CREATING.value]
    statement = Campaign.delete().where(Campaign.id == campaign.id, Campaign.state.in_(early))
    with pooled_connection():
        if not statement.execute():
            raise ConflictError(f"Campaign {campaign.name!r} was started: it can be cancelled, not deleted.")


def _put_in_pool(campaign: Campaign, senders: Sequence[str]) -> None:
    CampaignMailbox.insert_many([{"campaign": campaign.id, "sender": sender} for sender in senders]).execute()
