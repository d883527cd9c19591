"""How a sender stands at one moment, as the API answers it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from rqmail.web.api.schema import ApiModel


class Window(ApiModel):
    """One limit: its value, where that comes from, and what is used of it in the calendar and the rolling window.

    What is used and what remains are null while Redis cannot tell.
    """

    limit: int
    source: Literal["default", "override"]
    used: int | None
    remaining: int | None
    bucket: int | None
    rolling: int | None


class ScopeNow(ApiModel):
    """External recipients in 24 hours that the mailboxes of an Entra tenant share: all, or those on onmicrosoft.com."""

    name: Literal["tenant", "onmicrosoft"]
    limit: int
    used: int | None
    remaining: int | None
    next_free_on: datetime | None


class BudgetNow(ApiModel):
    """What may still be sent; known is false while Redis cannot tell, and then mail goes out uncounted."""

    known: bool
    per_minute: Window
    recipients_per_day: Window
    in_flight: int | None
    in_flight_limit: int
    paused_until: datetime | None
    pause_reason: str | None
    next_free_on: datetime | None
    waits_for: Literal["minute", "day", "in_flight", "paused"] | None
    uploaded_bytes: int | None
    uploads_free_on: datetime | None
    upload_bytes_limit: int
    scopes: list[ScopeNow]


class TurnNow(ApiModel):
    """Whose turn it is: what the sender's mail waits for, and whether that ends only when a person does something."""

    code: str
    text: str
    needs_person: bool
    until: datetime | None
    by: str | None


class SenderNow(ApiModel):
    """How a sender stands: what waits and what for, in one sentence too; when it will be done; what budget is left."""

    key: str
    address: str | None
    state: Literal["ok", "near", "limited", "paused", "unknown"]
    messages: dict[str, int]
    waiting: int
    waiting_recipients: int
    deferred: int
    scheduled_later: int
    oldest_waiting_on: datetime | None
    next_on: datetime | None
    done_on: datetime | None
    explanation: str
    turn: TurnNow
    budget: BudgetNow | None
    paused_until: datetime | None
    pause_reason: str | None
    pause_cause: str | None
    paused_by: str | None
    denied_last_hour: dict[str, int] | None
