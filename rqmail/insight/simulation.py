"""When one mailbox's mail will be through, found by letting the limiter's windows pass, over plain data alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from rqmail.ratelimit.history import DAY_MS, SLOT_MS, UPLOAD_WINDOW_MS
from rqmail.ratelimit.pacing import Pacing, gap_ms

_MINUTE = 60_000

#: Later than any moment there is.
_NEVER_MS = 2**62


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

    def ahead(self, now_ms: int) -> list[tuple[int, int]]:
        return [(frees_ms - now_ms, counted) for frees_ms, counted in self._frees]

    def copy(self) -> _Window:
        made = copy(self)
        made._frees = self._frees.copy()
        return made

    def shift(self, by_ms: int) -> None:
        self._frees = deque((frees_ms + by_ms, counted) for frees_ms, counted in self._frees)


@dataclass(frozen=True, slots=True)
class _Standing:
    """How the windows stood at one moment, and how many messages were left."""

    at: int
    left: int
    rooms: list[int]
    ahead: list[list[tuple[int, int]]]


class _Rounds:
    """Notices when the windows stand as they did whole slots or days before: everything repeats from there on.

    The standing to compare with is taken anew after twice as many steps each time, so a round of any length is found.
    """

    def __init__(self, whole_ms: int, windows: Sequence[_Window]) -> None:
        self._whole_ms = whole_ms
        self._windows = windows
        self._then: _Standing | None = None
        self._steps = 0
        self._renew_after = 16

    def over(self, at: int, left: int) -> tuple[int, int] | None:
        """Answer how long a round takes in ms and how many messages leave in it, once one is over."""
        then = self._then
        if (
            then is not None
            and (at - then.at) % self._whole_ms == 0
            and then.rooms == [window.room for window in self._windows]
            and then.ahead == [window.ahead(at) for window in self._windows]
        ):
            return at - then.at, then.left - left
        self._steps += 1
        if self._steps == self._renew_after:
            self._steps, self._renew_after = 0, 2 * self._renew_after
            ahead = [window.ahead(at) for window in self._windows]
            self._then = _Standing(at, left, [window.room for window in self._windows], ahead)
        return None


class Simulation:
    """One mailbox's windows, let pass over lots in the order in which they go.

    ``done_ms`` is when the last message so far left; ``None`` once one came that can never leave.
    """

    def __init__(self, budgets: Budgets, now_ms: int) -> None:
        self._budgets = budgets
        self._minute = _Window(budgets.per_minute)
        self._day = _Window(budgets.recipients_per_day)
        self._uploads = _Window(budgets.upload_bytes)
        for at_ms, counted in budgets.calls:
            self._minute.count(counted, self._minute_frees(at_ms))
        for at_ms, counted in budgets.recipients:
            self._day.count(counted, self._day_frees(at_ms))
        for at_ms, counted in budgets.uploads:
            self._uploads.count(counted, at_ms + UPLOAD_WINDOW_MS)
        self._gap_ms = gap_ms(budgets.per_minute) if budgets.pacing == "even" else 0.0
        self._at = max(now_ms, budgets.paused_until_ms)
        self._waited = False
        self.done_ms: int | None = self._at

    def copy(self) -> Simulation:
        """Answer the same standing, to go on from there in another way."""
        made = copy(self)
        made._minute, made._day, made._uploads = (window.copy() for window in self._windows)
        return made

    def send(self, lot: Lot, until_ms: int = _NEVER_MS) -> int:
        """Let a lot leave after all that came before, as far as it does so by ``until_ms``; answer how many stay."""
        if lot.messages and lot.recipients_each > self._budgets.recipients_per_day:
            self.done_ms = None
        if not lot.messages or self.done_ms is None:
            return lot.messages
        if lot.not_before_ms > self._at:
            self._at, self._waited = lot.not_before_ms, False
        left, size = lot.messages, min(lot.upload_bytes_each, self._budgets.upload_bytes)
        rounds = _Rounds(SLOT_MS if self._budgets.rolling else DAY_MS, self._windows)
        while left and self._at <= until_ms:
            for window in self._windows:
                window.pass_to(self._at)
            if found := rounds.over(self._at, left):
                left = self._repeat(*found, left, until_ms)
            uploads = self._uploads.room // size if size else left
            taken = min(left, self._minute.room, self._day.room // lot.recipients_each, uploads)
            if taken > 0:
                left = self._take(taken, lot.recipients_each, size, left, until_ms)
            else:
                self._waited = True
                self._at = self._next_room(lot.recipients_each, size)
        return left

    @property
    def _windows(self) -> tuple[_Window, _Window, _Window]:
        return self._minute, self._day, self._uploads

    def _next_room(self, recipients_each: int, size: int) -> int:
        if self._minute.room < 1:
            return self._minute.fits_at(1)
        if self._day.room < recipients_each:
            return self._day.fits_at(recipients_each)
        return self._uploads.fits_at(size)

    def _repeat(self, takes_ms: int, leave: int, left: int, until_ms: int) -> int:
        """Let whole rounds pass in which as many messages leave each; answer how many are left, one at least."""
        times = min((left - 1) // leave, max(0, until_ms - self._at) // takes_ms)
        self._at += times * takes_ms
        for window in self._windows:
            window.shift(times * takes_ms)
        return left - times * leave

    def _take(self, taken: int, recipients_each: int, size: int, left: int, until_ms: int) -> int:
        """Let so many leave now, and as many in each of the minutes that are like this one; answer what is left."""
        whole = self._minute.room == taken == self._budgets.per_minute
        self._count(taken, taken * recipients_each)
        if size:
            self._uploads.count(taken * size, self._at + UPLOAD_WINDOW_MS)
        left -= taken
        minutes = self._minutes_alike(taken, recipients_each, left, until_ms) if whole and not size else 0
        if minutes:
            self._waited = True
            self._at = self._minute_frees(self._at) + (minutes - 1) * _MINUTE
            self._minute.pass_to(self._at)
            self._count(taken, minutes * taken * recipients_each)
            left -= minutes * taken
        # Who need not wait for a place is not paced.
        self.done_ms = self._at + (round((taken - 1) * self._gap_ms) if self._waited else 0)
        return left

    def _minutes_alike(self, taken: int, recipients_each: int, left: int, until_ms: int) -> int:
        """Answer how many minutes are like one that was free and is full now, and free the day together with it."""
        following = self._minute_frees(self._at)
        together = -((following - min(self._slot_ends(self._at), until_ms + 1)) // _MINUTE)
        return max(0, min(together, left // taken, self._day.room // (taken * recipients_each)))

    def _count(self, calls: int, recipients: int) -> None:
        self._minute.count(calls, self._minute_frees(self._at))
        self._day.count(recipients, self._day_frees(self._at))

    def _minute_frees(self, at_ms: int) -> int:
        return at_ms + _MINUTE if self._budgets.rolling else (at_ms // _MINUTE + 1) * _MINUTE

    def _day_frees(self, at_ms: int) -> int:
        # As the limiter does it: a recipient counts until the slot it was addressed in is a whole day past.
        return self._slot_ends(at_ms) + (DAY_MS if self._budgets.rolling else 0)

    def _slot_ends(self, at_ms: int) -> int:
        whole = SLOT_MS if self._budgets.rolling else DAY_MS
        return (at_ms // whole + 1) * whole


def in_order(lots: Iterable[Lot], begins_ms: int) -> list[Lot]:
    """Sort lots as they go: those that may go when all begins as they come, what is for later keeps nobody waiting."""
    return sorted(lots, key=lambda lot: max(begins_ms, lot.not_before_ms))


def done_at_ms(budgets: Budgets, lots: Sequence[Lot], now_ms: int) -> int | None:
    """Answer when the last message of ``lots`` leaves; ``None`` when one never can."""
    done = _passed_ms(budgets, [replace(lot, upload_bytes_each=0) for lot in lots], now_ms)
    uploading = [lot for lot in lots if lot.upload_bytes_each]
    if not uploading or done is None:
        return done
    # Mail that uploads nothing goes past uploads that wait, so these take their time beside it.
    return max(done, _passed_ms(budgets, uploading, now_ms) or done)


def _passed_ms(budgets: Budgets, lots: Sequence[Lot], now_ms: int) -> int | None:
    simulation = Simulation(budgets, now_ms)
    for lot in in_order(lots, max(now_ms, budgets.paused_until_ms)):
        simulation.send(lot)
    return simulation.done_ms
