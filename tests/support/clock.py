"""Clocks that a test moves: one that stands still meanwhile, one of other processes that runs on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rqmail.clock import utc_now

#: Where every test begins: mid-minute and mid-morning, so that no window ends by accident.
START = datetime(2026, 3, 10, 9, 30, 20, 123456, tzinfo=UTC)


class MovableClock:
    """Called like ``utc_now``; answers the moment the test has set, and never runs by itself."""

    def __init__(self, start: datetime = START) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def advance(self, delta: timedelta | None = None, **units: float) -> datetime:
        """Move by a timedelta or by its units (``seconds=…``, ``hours=…``) and answer the new moment."""
        self.now += (delta or timedelta()) + timedelta(**units)
        return self.now

    def set(self, moment: datetime) -> datetime:
        """Move to an aware moment, forwards or backwards."""
        if moment.tzinfo is None:
            raise ValueError("a clock is set to an aware moment")
        self.now = moment
        return moment


@dataclass(frozen=True)
class ClockAhead:
    """The machine's clock, moved by what another process writes into a file."""

    file: Path

    def __call__(self) -> datetime:
        return utc_now() + timedelta(seconds=float(self.file.read_text() or 0))
