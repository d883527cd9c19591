"""What is remembered of a message: its attempts, what each went through, and what else happened; a line each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rqmail.models.base import to_column

#: Characters of a history after which waits are no longer added to it.
LONGEST_HISTORY = 32_000

_as_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Route:
    """What a send goes through: the limiter's key of the mailbox, the provider, and at Microsoft the app that asks.

    It belongs to the attempt: whatever the settings say later, what became of a send is looked up there. ``copied`` is
    whether the provider keeps a copy in Sent Items, without which absence proves nothing; ``marked`` whether the mail
    carries the property by which it is found.
    """

    provider: str
    mailbox_key: str
    entra_tenant: str | None = None
    app_id: str | None = None
    copied: bool = True
    marked: bool = True

    @property
    def place(self) -> Route:
        """The mailbox and the way into it alone, whatever is found there."""
        return Route(self.provider, self.mailbox_key, self.entra_tenant, self.app_id)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call to a provider and how it ended, as kept in the message's history."""

    at: str
    outcome: str
    duration_ms: int
    provider: str | None = None
    mailbox_key: str | None = None
    entra_tenant: str | None = None
    app_id: str | None = None
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    client_request_id: str | None = None
    detail: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a message beside its attempts: ``what`` (``waited``, ``cancelled``, …), by whom if by anybody.

    ``waiting_for`` and ``until`` are told of a wait: for what, and until when at first.
    """

    at: datetime
    what: str
    by: str | None = None
    detail: str | None = None
    waiting_for: str | None = None
    until: datetime | None = None


def event(now: datetime | None, what: str, by: str | None = None) -> Event | None:
    """Say what happened; nothing where nobody says when."""
    return None if now is None else Event(now, what, by=by)


def iso(moment: datetime) -> str:
    """Write a moment as the history does."""
    return to_column(moment).replace(" ", "T")


def line(told: Attempt | Event) -> str:
    """Write an attempt or an event as a line of the history; what is not known is left out."""
    entry = {
        name: iso(value) if isinstance(value, datetime) else value
        for name in told.__slots__
        if (value := getattr(told, name)) is not None
    }
    return _as_json(entry) + "\n"


def entries(history: str) -> list[dict[str, Any]]:
    """Read the lines of a history; one that cannot be read is left out."""
    read = []
    for text in history.splitlines():
        try:
            entry = json.loads(text)
        except ValueError:
            continue
        if isinstance(entry, dict):
            read.append(entry)
    return read
