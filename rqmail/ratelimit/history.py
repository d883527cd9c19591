"""The seam through which the limiter learns what was sent before its Redis was fresh."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

#: A day of sending is remembered in slots of this many milliseconds, one more than fit a day.
SLOT_MS = 600_000
DAY_MS = 86_400_000
#: Calls younger than this are told one by one; it covers the rolling minute and the minute bucket.
_EXACT_MS = 120_000


class SendHistory(Protocol):
    """Knows every call that may have used budget, from a place that outlives Redis."""

    def __call__(self, mailbox_key: str, since_ms: int, now_ms: int) -> Iterable[tuple[int, int]]:
        """Answer (moment in ms since 1970, recipients) of each call in that time, in any order.

        Calls older than two minutes may be summed, told at a moment no earlier than the last of them.
        """
        ...


def since_ms(now_ms: int) -> int:
    """Answer how far back the rolling day looks."""
    return now_ms - DAY_MS - SLOT_MS


def condense(calls: Iterable[tuple[int, int]], now_ms: int) -> list[tuple[int, int]]:
    """Sum what is older than two minutes per slot, and put everything in order of time."""
    told: list[tuple[int, int]] = []
    summed: dict[int, int] = defaultdict(int)
    for moment, recipients in calls:
        if moment > now_ms - _EXACT_MS:
            told.append((moment, recipients))
        else:
            summed[moment - moment % SLOT_MS] += recipients
    return sorted([*summed.items(), *told])
