"""The seam through which the limiter learns what was sent before its Redis was fresh."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias

#: A day of sending is remembered in slots of this many milliseconds, one more than fit a day.
SLOT_MS = 600_000
DAY_MS = 86_400_000
#: So long uploads count, from their end on.
UPLOAD_WINDOW_MS = 300_000
#: Calls younger than this are told one by one; it covers the rolling minute and the minute bucket.
_EXACT_MS = 120_000


class PastCall(NamedTuple):
    """A call that may have used budget: its moment (ms since 1970), its recipients, and the bytes it uploaded.

    One whose request may be running still is told at the moment until which it may, with the id of its reservation.
    """

    at_ms: int
    recipients: int
    reservation_id: str | None = None
    upload_bytes: int = 0


#: The fields of a :class:`PastCall`.
Told: TypeAlias = tuple[int, int] | tuple[int, int, str | None] | tuple[int, int, str | None, int]


class SendHistory(Protocol):
    """Knows every call that may have used budget, from a place that outlives Redis."""

    def __call__(self, mailbox_key: str, since_ms: int, now_ms: int) -> Iterable[Told]:
        """Answer each call in that time as the fields of a :class:`PastCall`, the last two optional, in any order.

        Calls older than two minutes (uploads: five) may be summed, told at a moment no earlier than the last of them.
        """
        ...


def since_ms(now_ms: int) -> int:
    """Answer how far back the rolling day looks."""
    return now_ms - DAY_MS - SLOT_MS


def condense(calls: Iterable[Told], now_ms: int, shift_ms: int = 0) -> list[PastCall]:
    """Sum what is older than two minutes (uploads: five) per slot, and put everything in order of time.

    ``shift_ms`` is added to every moment first.
    """
    told: list[PastCall] = []
    summed: dict[int, int] = defaultdict(int)
    for call in (PastCall(*fields) for fields in calls):
        at_ms = call.at_ms + shift_ms
        if at_ms > now_ms - (UPLOAD_WINDOW_MS if call.upload_bytes else _EXACT_MS):
            told.append(call._replace(at_ms=at_ms))
        else:
            summed[at_ms - at_ms % SLOT_MS] += call.recipients
    told += (PastCall(slot_ms, recipients) for slot_ms, recipients in summed.items())
    return sorted(told, key=lambda call: call.at_ms)
