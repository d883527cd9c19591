"""Who may send: system mailboxes with their own limits, and tenants with their own mail settings."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import peewee

from rqmail.models.base import BaseModel, UtcDateTimeField, pooled_connection

#: After so long a mailbox that took no property of ours is tried with it again: an administrator may have made room.
UNMARKED_FOR = timedelta(days=7)


class Provider(StrEnum):
    """Through whom a tenant's mail leaves."""

    MICROSOFT_GRAPH = "microsoft-graph"
    SENDGRID = "sendgrid"
    DEFAULT = "default"


class SentItems(StrEnum):
    """What becomes of the copies of sent mail in a mailbox's Sent Items."""

    KEEP = "keep"
    NONE = "none"
    PRUNE = "prune"


class SystemMailbox(BaseModel):
    """A mailbox of our own, always sending through Microsoft Graph; an empty limit means the default."""

    key = peewee.CharField(max_length=64, primary_key=True)
    address = peewee.CharField(max_length=320)
    rate_limit_per_minute = peewee.IntegerField(null=True)
    rate_limit_recipients_per_day = peewee.IntegerField(null=True)
    #: ``even`` or ``burst``; empty means as the setting says.
    pacing: Any = peewee.CharField(max_length=5, null=True)
    #: Bytes of one message as it is sent, at most; empty means as the setting says.
    max_message_bytes = peewee.BigIntegerField(null=True)
    #: ``keep``, ``none`` or ``prune``; empty means ``keep``.
    sent_items: Any = peewee.CharField(max_length=5, null=True)
    #: Days after its end that the copy of a message stays in Sent Items, where they are pruned.
    prune_after_days = peewee.IntegerField(null=True)
    #: Until when the two limits hold, if not for good, and what they are after that.
    limits_until = UtcDateTimeField(null=True)
    limits_after_per_minute = peewee.IntegerField(null=True)
    limits_after_recipients_per_day = peewee.IntegerField(null=True)
    #: A person's pause; it outlives the loss of Redis, where the limiter keeps its own pauses.
    paused_until = UtcDateTimeField(null=True)
    pause_reason = peewee.TextField(null=True)
    paused_by = peewee.CharField(max_length=80, null=True)
    created_on = UtcDateTimeField()
    changed_on = UtcDateTimeField()


class TenantMailSetting(BaseModel):
    """How one tenant's mail leaves; the two secrets are stored encrypted and never leave this row in the clear."""

    key = peewee.CharField(max_length=64, primary_key=True)
    provider = peewee.CharField(max_length=20, default=Provider.DEFAULT.value)
    address = peewee.CharField(max_length=320, null=True)
    graph_tenant_id = peewee.CharField(max_length=128, null=True)
    graph_client_id = peewee.CharField(max_length=128, null=True)
    graph_client_secret_encrypted = peewee.TextField(null=True)
    sendgrid_api_key_encrypted = peewee.TextField(null=True)
    sendgrid_from = peewee.CharField(max_length=320, null=True)
    #: Limits of the mailbox it sends from through Graph; empty means the default.
    rate_limit_per_minute = peewee.IntegerField(null=True)
    rate_limit_recipients_per_day = peewee.IntegerField(null=True)
    #: A person's pause, as a mailbox has one.
    paused_until = UtcDateTimeField(null=True)
    pause_reason = peewee.TextField(null=True)
    paused_by = peewee.CharField(max_length=80, null=True)
    created_on = UtcDateTimeField()
    changed_on = UtcDateTimeField()


class SenderCheck(BaseModel):
    """What the provider said about a sender when it was last asked; empty where that could not be told."""

    #: ``mailbox:KEY`` or ``tenant:KEY``.
    sender = peewee.CharField(max_length=80, primary_key=True)
    checked_on = UtcDateTimeField()
    exists_there: Any = peewee.BooleanField(null=True)
    may_send: Any = peewee.BooleanField(null=True)
    may_read: Any = peewee.BooleanField(null=True)
    may_write: Any = peewee.BooleanField(null=True)
    problem = peewee.TextField(null=True)
    #: ``answered``, ``not-known``, ``away`` or ``unconfigured``.
    outcome: Any = peewee.CharField(max_length=12)


class UnmarkedMailbox(BaseModel):
    """A mailbox, by the limiter's key, that can create no more named properties: its mail carries none of ours."""

    mailbox_key = peewee.CharField(max_length=320, primary_key=True)
    since = UtcDateTimeField()

    class Meta:
        """Name the table in full."""

        table_name = "unmarked_mailbox"


def unmarked_mailboxes(now: datetime) -> dict[str, datetime]:
    """Answer which mailboxes take no property of ours, and since when; after a week it is tried again."""
    with pooled_connection():
        rows = UnmarkedMailbox.select().where(UnmarkedMailbox.since > now - UNMARKED_FOR)
        return {row.mailbox_key: row.since for row in rows}


def takes_no_property(mailbox_key: str, now: datetime) -> None:
    """Remember that a mailbox takes no property of ours."""
    with pooled_connection():
        UnmarkedMailbox.insert(mailbox_key=mailbox_key, since=now).on_conflict(
            conflict_target=[UnmarkedMailbox.mailbox_key], preserve=[UnmarkedMailbox.since]
        ).execute()


def largest_message_bytes() -> int:
    """Answer the largest bound that any mailbox has of its own for one message; 0 where none has."""
    with pooled_connection():
        return SystemMailbox.select(peewee.fn.MAX(SystemMailbox.max_message_bytes)).scalar() or 0
