"""How much of a mailbox's mail comes back: a rate by which providers judge who sends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rqmail.models.bounces import BounceReading, bounced_since, recipients_since

#: What is counted: reports come for days after a mail.
COUNTED = timedelta(days=7)

#: Above this share of recipients, others' servers begin to refuse a sender; below so many it says nothing.
TOO_MANY = 0.05
_AT_LEAST = 20


@dataclass(frozen=True, slots=True)
class Bouncing:
    """What came back of the mail to ``recipients`` in the last seven days, through one mailbox.

    ``rate`` is a share, 0 to 1, ``None`` without recipients; above 0.05 it is a ``warning``. ``problem`` is why reports
    cannot be read, ``read_to`` up to when they are; ``None`` before the first look.
    """

    mailbox: str
    recipients: int
    bounced: int
    rate: float | None
    level: Literal["ok", "warning"]
    read_to: datetime | None
    problem: str | None

    @property
    def percent(self) -> float:
        """The rate in percent, to one place."""
        return round(100 * (self.rate or 0), 1)


def bouncing(mailboxes: Collection[str], now: datetime) -> dict[str, Bouncing]:
    """Answer what came back through each of these mailboxes, by the key of its budget."""
    return _told(mailboxes, bounced_since(now - COUNTED), now)


def too_many_back(now: datetime) -> dict[str, Bouncing]:
    """Answer of which mailboxes so much comes back that it is a warning, by the key of the budget."""
    back = bounced_since(now - COUNTED)
    # Fewer can be no warning: what went out is counted of few mailboxes.
    found = _told([key for key, number in back.items() if number > TOO_MANY * _AT_LEAST], back, now)
    return {key: one for key, one in found.items() if one.level == "warning"}


def _told(mailboxes: Collection[str], back: Mapping[str, int], now: datetime) -> dict[str, Bouncing]:
    sent, reading = recipients_since(mailboxes, now - COUNTED), BounceReading.all()
    found = {}
    for mailbox in mailboxes:
        recipients, bounced = sent.get(mailbox, 0), back.get(mailbox, 0)
        rate = min(1.0, bounced / recipients) if recipients else None
        too_many = rate is not None and rate > TOO_MANY and recipients >= _AT_LEAST
        row = reading.get(mailbox)
        found[mailbox] = Bouncing(
            mailbox,
            recipients,
            bounced,
            rate,
            "warning" if too_many else "ok",
            None if row is None else row.read_to,
            None if row is None else row.problem,
        )
    return found
