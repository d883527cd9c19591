"""When a backlog will be through, if its mailbox sends as much as its budgets admit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_NEVER = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for one mailbox's budget: messages, and their recipients together."""

    messages: int = 0
    recipients: int = 0

    def plus(self, messages: int, recipients: int) -> Backlog:
        """Answer this backlog and more."""
        return Backlog(self.messages + messages, self.recipients + recipients)


def backlog_done_on(
    backlog: Backlog,
    now: datetime,
    *,
    next_free_on: datetime | None,
    paused_until: datetime | None,
    calls: tuple[int, int],
    recipients: tuple[int, int],
) -> datetime | None:
    """Estimate when the last message leaves; ``None`` while a pause has no end in sight.

    ``calls`` (a minute) and ``recipients`` (a day) are each the limit and what remains of it now. Counted in whole
    windows: where the day's budget bites the answer is days away, because that is the truth.
    """
    start = max(now, paused_until or now)
    if start - now > _NEVER:
        return None
    first_free = max(start, next_free_on or start)
    days = _windows(backlog.recipients, *recipients)
    minutes = _windows(backlog.messages, *calls)
    if days:
        # The first recipients of a full day come free at next_free_on, the same number again a day after that.
        opened = first_free if recipients[1] == 0 else start + _DAY
        rest = backlog.messages - backlog.messages * min(1.0, recipients[1] / max(1, backlog.recipients))
        last_day = rest % max(1.0, backlog.messages * recipients[0] / max(1, backlog.recipients))
        return opened + (days - 1) * _DAY + (last_day // calls[0]) * _MINUTE
    if not minutes:
        return start
    opened = first_free if calls[1] == 0 else start + _MINUTE
    return opened + (minutes - 1) * _MINUTE


def _windows(wanted: int, limit: int, remaining: int) -> int:
    """How many further windows of ``limit`` are needed for what does not fit into what remains of this one."""
    return max(0, -((remaining - wanted) // limit))
