"""Webhooks: the addresses that are told of what happens to mail, and the table of what each still has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import peewee

from rqmail.models.base import BaseModel, UtcDateTimeField, db, from_column, is_postgresql, pooled_connection, to_column


class EventType(StrEnum):
    """What a webhook may be told of."""

    SENT = "sent"
    FAILED = "failed"
    BOUNCED = "bounced"
    UNSUBSCRIBED = "unsubscribed"
    CAMPAIGN_FINISHED = "campaign-finished"
    MAILBOX_PAUSED = "mailbox-paused"


class Webhook(BaseModel):
    """One address that is told of ``events`` (names, separated by a space).

    ``failures`` counts the calls in a row that failed, the first of them at ``failing_since``; until ``held_until`` it
    is not called.
    """

    id = peewee.CharField(max_length=20, primary_key=True)
    url = peewee.TextField()
    events = peewee.TextField()
    secret_encrypted = peewee.TextField()
    enabled: Any = peewee.BooleanField(default=True)
    created_on = UtcDateTimeField()
    created_by = peewee.CharField(max_length=80)
    failures = peewee.IntegerField(default=0)
    failing_since = UtcDateTimeField(null=True)
    held_until = UtcDateTimeField(null=True)
    last_error = peewee.TextField(null=True)
    delivered_on = UtcDateTimeField(null=True)


class WebhookDelivery(BaseModel):
    """One event for one webhook: waiting while ``due_on`` is set, else delivered, else given up.

    ``status`` and ``error`` are what the last call came to.
    """

    webhook_id = peewee.CharField(max_length=20)
    event_id = peewee.CharField(max_length=40)
    type = peewee.CharField(max_length=20)
    payload = peewee.TextField()
    created_on = UtcDateTimeField()
    due_on = UtcDateTimeField(null=True)
    give_up_on = UtcDateTimeField()
    attempts = peewee.IntegerField(default=0)
    status = peewee.SmallIntegerField(null=True)
    error = peewee.TextField(null=True)
    delivered_on = UtcDateTimeField(null=True)

    class Meta:
        """A webhook is told of an event under that event's id."""

        table_name = "webhook_delivery"
        primary_key = peewee.CompositeKey("webhook_id", "event_id")


@dataclass(frozen=True, slots=True)
class Due:
    """An event that one pass has to deliver."""

    event_id: str
    type: str
    payload: str
    attempts: int
    give_up_on: datetime


def to_serve(now: datetime) -> list[Webhook]:
    """Answer the webhooks that have something due and may be called now, those that fail last."""
    waits = "EXISTS (SELECT 1 FROM webhook_delivery d WHERE d.webhook_id = t1.id AND d.due_on <= {})"
    moment = to_column(now)
    wanted = (
        Webhook.select()
        .where(Webhook.enabled & (Webhook.held_until.is_null() | (Webhook.held_until <= now)))
        .where(peewee.SQL(waits.format(db.param), [moment]))
        .order_by(Webhook.failures, Webhook.id)
    )
    with pooled_connection():
        return list(wanted)


def claim(webhook_id: str, now: datetime, *, until: datetime, limit: int) -> list[Due]:
    """Take at most ``limit`` deliveries that are due, for nobody else before ``until``; the oldest first."""
    lock = " FOR UPDATE SKIP LOCKED" if is_postgresql() else ""
    p = db.param
    sql = f"""
        UPDATE webhook_delivery SET due_on = {p} WHERE webhook_id = {p} AND event_id IN (
            SELECT event_id FROM webhook_delivery WHERE webhook_id = {p} AND due_on <= {p}
            ORDER BY due_on, event_id LIMIT {p}{lock})
        RETURNING event_id, type, payload, attempts, give_up_on
    """  # noqa: S608 - only placeholders are put in
    with pooled_connection():
        rows = db.execute_sql(sql, (to_column(until), webhook_id, webhook_id, to_column(now), limit)).fetchall()
    return sorted(
        (Due(row[0], row[1], row[2], row[3], from_column(row[4]) or now) for row in rows), key=lambda one: one.event_id
    )


def put_back(webhook_id: str, event_ids: Sequence[str], now: datetime) -> None:
    """Let deliveries that were claimed and not tried be due again."""
    one = (WebhookDelivery.webhook_id == webhook_id) & WebhookDelivery.event_id.in_(list(event_ids))
    if event_ids:
        with pooled_connection():
            WebhookDelivery.update(due_on=now).where(one & WebhookDelivery.due_on.is_null(False)).execute()


def note_delivered(webhook_id: str, event_id: str, status: int, now: datetime) -> None:
    """Write down that the receiver took an event."""
    _decide(webhook_id, event_id, due_on=None, status=status, error=None, delivered_on=now)


def note_failed(webhook_id: str, event_id: str, status: int | None, error: str, due_on: datetime | None) -> None:
    """Write down why an event was not taken; it is due again at ``due_on``, or given up."""
    _decide(webhook_id, event_id, due_on=due_on, status=status, error=error)


def _decide(webhook_id: str, event_id: str, **columns: Any) -> None:
    one = (WebhookDelivery.webhook_id == webhook_id) & (WebhookDelivery.event_id == event_id)
    with pooled_connection():
        WebhookDelivery.update(attempts=WebhookDelivery.attempts + 1, **columns).where(one).execute()


def note_works(webhook_id: str, now: datetime) -> None:
    """Write down that a webhook takes what it is told."""
    works: dict[str, Any] = {"failures": 0, "failing_since": None, "held_until": None, "last_error": None}
    with pooled_connection():
        Webhook.update(delivered_on=now, **works).where(Webhook.id == webhook_id).execute()


def note_fails(webhook_id: str, error: str, now: datetime, *, held_until: datetime, disable: bool) -> None:
    """Write down that a webhook did not take what it was told, and until when it is left alone."""
    changes: dict[Any, Any] = {
        Webhook.failures: Webhook.failures + 1,
        Webhook.failing_since: peewee.fn.COALESCE(Webhook.failing_since, now),
        Webhook.held_until: held_until,
        Webhook.last_error: error,
    }
    if disable:
        changes[Webhook.enabled] = False
    with pooled_connection():
        Webhook.update(changes).where(Webhook.id == webhook_id).execute()


def give_up_expired(now: datetime) -> int:
    """Give up what could not be delivered for as long as it is tried; answer how many deliveries that were."""
    late = WebhookDelivery.due_on.is_null(False) & (WebhookDelivery.give_up_on <= now)
    with pooled_connection():
        return int(WebhookDelivery.update(due_on=None).where(late & (WebhookDelivery.due_on <= now)).execute())


def forget_done(before: datetime, *, limit: int) -> int:
    """Delete deliveries of before then on which nothing waits, and those of webhooks that are gone."""
    p = db.param
    sql = (
        "DELETE FROM webhook_delivery WHERE (webhook_id, event_id) IN"  # noqa: S608 - only placeholders are put in
        f" (SELECT webhook_id, event_id FROM webhook_delivery WHERE due_on IS NULL AND created_on < {p} LIMIT {p})"
    )
    gone = "DELETE FROM webhook_delivery WHERE due_on IS NOT NULL AND webhook_id NOT IN (SELECT id FROM webhook)"
    with pooled_connection():
        return int(db.execute_sql(sql, (to_column(before), limit)).rowcount) + int(db.execute_sql(gone).rowcount)


def again(webhook_id: str, now: datetime, *, give_up_on: datetime, event_ids: Sequence[str] | None) -> int:
    """Let deliveries be due anew: these, or every one that was given up or waits after a failure."""
    wanted = WebhookDelivery.webhook_id == webhook_id
    if event_ids is None:
        wanted &= WebhookDelivery.delivered_on.is_null() & ((WebhookDelivery.attempts > 0) | _given_up())
    else:
        wanted &= WebhookDelivery.event_id.in_(list(event_ids))
    columns: dict[str, Any] = {"due_on": now, "give_up_on": give_up_on, "attempts": 0, "delivered_on": None}
    with pooled_connection():
        Webhook.update(held_until=None).where(Webhook.id == webhook_id).execute()
        return int(WebhookDelivery.update(**columns).where(wanted).execute())


def deliveries(
    webhook_id: str, *, failed: bool = False, limit: int = 50, after: str | None = None
) -> list[WebhookDelivery]:
    """List what a webhook was or is to be told, newest first; with ``failed`` only what was not taken when tried."""
    wanted = WebhookDelivery.select().where(WebhookDelivery.webhook_id == webhook_id)
    if failed:
        failing = WebhookDelivery.delivered_on.is_null() & ((WebhookDelivery.attempts > 0) | _given_up())
        wanted = wanted.where(failing)
    if after is not None:
        wanted = wanted.where(WebhookDelivery.event_id < after)
    with pooled_connection():
        return list(wanted.order_by(WebhookDelivery.event_id.desc()).limit(limit))


def waiting() -> dict[str, int]:
    """Count what each webhook still has to be told."""
    sql = "SELECT webhook_id, COUNT(*) FROM webhook_delivery WHERE due_on IS NOT NULL GROUP BY webhook_id"
    with pooled_connection():
        return {row[0]: int(row[1]) for row in db.execute_sql(sql).fetchall()}


def _given_up() -> Any:
    return WebhookDelivery.due_on.is_null() & WebhookDelivery.delivered_on.is_null()
