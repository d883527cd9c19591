"""The audit: every change a person or program makes, written down in the transaction that makes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rqmail.clock import Clock
from rqmail.insight.jsonable import as_json
from rqmail.models.access import AuditEntry
from rqmail.models.base import pooled_connection, transaction

#: Under this name is written down what happened by itself, when its time had come.
BY_ITSELF = "rqmail"

#: Under this name is written down what was done on the command line.
COMMAND_LINE = "command line"


@dataclass(slots=True)
class Change:
    """What is being changed: whoever makes the change fills in how the thing was and how it is now.

    Both are values without secrets, such as the read side gives them; ``None`` where there was or is nothing.
    """

    before: object = None
    after: object = None


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One change that was made; ``before`` and ``after`` are JSON values."""

    id: str
    at: datetime
    who: str
    action: str
    subject: str
    before: Any
    after: Any


class Audit:
    """Writes down who changed what, and tells it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @contextmanager
    def change(self, who: str, action: str, subject: str) -> Iterator[Change]:
        """Make a change inside, and record it in the same transaction: both are kept, or neither.

        ``action`` is a verb with its noun (``mailbox.pause``), ``subject`` names the thing (``mailbox:news``).
        """
        with transaction():
            change = Change()
            yield change
            AuditEntry.create(
                at=self._clock(),
                who=who,
                action=action,
                subject=subject,
                state_before=_text(change.before),
                state_after=_text(change.after),
            )

    def lines(self, *, subject: str | None = None, limit: int = 50, after: str | None = None) -> list[AuditLine]:
        """List changes, newest first; ``after`` is the id of the last one already seen."""
        wanted = AuditEntry.select().order_by(AuditEntry.id.desc()).limit(limit)
        if subject is not None:
            wanted = wanted.where(AuditEntry.subject == subject)
        if after is not None:
            wanted = wanted.where(AuditEntry.id < after)
        with pooled_connection():
            return [
                AuditLine(
                    row.id, row.at, row.who, row.action, row.subject, _value(row.state_before), _value(row.state_after)
                )
                for row in wanted
            ]


def _text(state: object) -> str | None:
    return None if state is None else json.dumps(as_json(state), ensure_ascii=False)


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
