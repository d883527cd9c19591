"""When one mailbox's mail will be through, found by letting the limiter's windows pass, over plain data alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rqmail.ratelimit.history import DAY_MS, SLOT_MS, UPLOAD_WINDOW_MS
from rqmail.ratelimit.pacing import Pacing, gap_ms

_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Lot:
    """Messages that are alike: none goes before ``not_before_ms``; a campaign's share of a mailbox is one as well.

    ``upload_bytes_each`` is what each of them uploads, on average.
    """

    messages: int
    recipients_each: int = 1
    not_before_ms: int = 0
    upload_bytes_each: int = 0


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a mailbox may send, and what still counts: moments in ms with the calls, recipients, bytes counted at them.

    Of fixed windows only what lies in the present minute and day counts.
    """

    per_minute: int
    recipients_per_day: int
    rolling: bool = True
    pacing: Pacing = "even"
    calls: tuple[tuple[int, int], ...] = ()
    recipients: tuple[tuple[int, int], ...] = ()
    paused_until_ms: int = 0
    upload_bytes: int = 150_000_000
    uploads: tuple[tuple[int, int], ...] = ()


class _Window:
    """One window: what was counted in it, by the moment at which that comes free."""

    def __init__(self, limit: int) -> None:
        self.room = limit
        self._frees: deque[tuple[int, int]] = deque()

    def count(self, amount: int, frees_ms: int) -> None:
        self.room -= amount
        if self._frees and self._frees[-1][0] == frees_ms:
            amount += self._frees.pop()[1]
        self._frees.append((frees_ms, amount))

    def pass_to(self, now_ms: int) -> None:
        while self._frees and self._frees[0][0] <= now_ms:
            self.room += self._frees.popleft()[1]

    def fits_at(self, amount: int) -> int:
        room = self.room
        for frees_ms, counted in self._frees:
            room += counted
            if room >= amount:
                return frees_ms
        raise ValueError(f"{amount} never fit")


def _minute_frees(at_ms: int, *, rolling: bool) -> int:
    return at_ms + _MINUTE if rolling else (at_ms // _MINUTE + 1) * _MINUTE


def _day_frees(at_ms: int, *, rolling: bool) -> int:
    # As the limiter does it: a recipient counts until the slot it was addressed in is a whole day past.
    return (at_ms // SLOT_MS + 1) * SLOT_MS + DAY_MS if rolling else (at_ms // DAY_MS + 1) * DAY_MS


def done_at_ms(budgets: Budgets, lots: Sequence[Lot], now_ms: int) -> int | None:
    """Answer when the last message of ``lots``, in the order in which they go, leaves; ``None`` when one never can."""
    done = _passed_ms(budgets, [replace(lot, upload_bytes_each=0) for lot in lots], now_ms)
    uploading = [lot for lot in lots if lot.upload_bytes_each]
    if not uploading or done is None:
        return done
    # Mail that uploads nothing goes past uploads that wait, so these take their time beside it.
    return max(done, _passed_ms(budgets, uploading, now_ms) or done)


def _passed_ms(budgets: Budgets, lots: Sequence[Lot], now_ms: int) -> int | None:
    uploads = _Window(budgets.upload_bytes)
    for at_ms, counted in budgets.uploads:
        uploads.count(counted, at_ms + UPLOAD_WINDOW_MS)
    minute, day, rolling = _Window(budgets.per_minute), _Window(budgets.recipients_per_day), budgets.rolling
    for at_ms, counted in budgets.calls:
        minute.count(counted, _minute_frees(at_ms, rolling=rolling))
    for at_ms, counted in budgets.recipients:
        day.count(counted, _day_frees(at_ms, rolling=rolling))
    gap = gap_ms(budgets.per_minute) if budgets.pacing == "even" else 0.0
    at = done = max(now_ms, budgets.paused_until_ms)
    began = at
    for lot in sorted(lots, key=lambda lot: max(began, lot.not_before_ms)):  # what is for later keeps nobody waiting
        if lot.messages and lot.recipients_each > budgets.recipients_per_day:
            return None
        at, left = max(at, lot.not_before_ms), lot.messages
        size = min(lot.upload_bytes_each, budgets.upload_bytes)
        while left:
            minute.pass_to(at)
            day.pass_to(at)
            uploads.pass_to(at)
            taken = min(left, minute.room, day.room // lot.recipients_each, uploads.room // size if size else left)
            if taken > 0:
                minute.count(taken, _minute_frees(at, rolling=rolling))
                day.count(taken * lot.recipients_each, _day_frees(at, rolling=rolling))
                if size:
                    uploads.count(taken * size, at + UPLOAD_WINDOW_MS)
                left -= taken
                done = at + round((taken - 1) * gap)
            elif minute.room < 1:
                at = minute.fits_at(1)
            elif day.room < lot.recipients_each:
                at = day.fits_at(lot.recipients_each)
            else:
                at = uploads.fits_at(size)
    return done
