"""When a backlog will be through, if its mailbox sends as much as its budgets admit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from rqmail.insight.standing import Budget
from rqmail.ratelimit.pacing import Pacing, gap_ms

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_NONE = timedelta(0)
_NEVER = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for one mailbox's budget: messages, and their recipients together."""

    messages: int = 0
    recipients: int = 0

    def plus(self, messages: int, recipients: int) -> Backlog:
        """Answer this backlog and more."""
        return Backlog(self.messages + messages, self.recipients + recipients)


def done_within(
    budget: Budget, backlog: Backlog, now: datetime, *, paused_until: datetime | None, pacing: Pacing
) -> datetime | None:
    """Estimate when the last message leaves within a budget that is known, as :func:`backlog_done_on` does."""
    day, minute = budget.recipients_per_day, budget.per_minute
    return backlog_done_on(
        backlog,
        now,
        next_free_on=budget.next_free_on,
        paused_until=paused_until,
        calls=(minute.limit, minute.remaining or 0),
        recipients=(day.limit, day.remaining or 0),
        pacing=pacing,
    )


def backlog_done_on(
    backlog: Backlog,
    now: datetime,
    *,
    next_free_on: datetime | None,
    paused_until: datetime | None,
    calls: tuple[int, int],
    recipients: tuple[int, int],
    pacing: Pacing = "burst",
) -> datetime | None:
    """Estimate when the last message leaves; ``None`` while a pause has no end in sight.

    ``calls`` (a minute) and ``recipients`` (a day) are each the limit and what remains of it now. Counted in whole
    windows, and within a minute by ``pacing``: where the day's budget is used up the answer is days away, because that
    is the truth.
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
        a_day = max(1.0, backlog.messages * recipients[0] / max(1, backlog.recipients))
        last_day = rest % a_day or a_day
        in_minute = timedelta(milliseconds=gap_ms(calls[0])) * (last_day % calls[0]) if pacing == "even" else _NONE
        return opened + (days - 1) * _DAY + (last_day // calls[0]) * _MINUTE + in_minute
    if not minutes:
        return start
    if pacing == "even":
        return _evenly(backlog.messages, calls, start, first_free)
    opened = first_free if calls[1] == 0 else start + _MINUTE
    return opened + (minutes - 1) * _MINUTE


def _evenly(messages: int, calls: tuple[int, int], start: datetime, first_free: datetime) -> datetime:
    """Answer when the last of ``messages`` leaves where a minute's places are given out over the minute."""
    limit, left = calls
    gap = timedelta(milliseconds=gap_ms(limit))
    used = limit - left if left else 0
    place = used + messages - 1  # counted from where the minute that is running began
    began = start - used * gap if left else first_free
    return began + (place // limit) * _MINUTE + (place % limit) * gap


def _windows(wanted: int, limit: int, remaining: int) -> int:
    """How many further windows of ``limit`` are needed for what does not fit into what remains of this one."""
    return max(0, -((remaining - wanted) // limit))
