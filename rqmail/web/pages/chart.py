"""The last hour as bars, minute by minute, drawn on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rqmail.metrics import Minute

#: The drawing's own units: a minute is this wide, the chart this high.
STEP = 10
HEIGHT = 100
_GAP = 2
_SERIES = ("failed", "deferred", "sent")  # from the bottom up: what went wrong stands on the ground line


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of one minute's bar."""

    series: str
    x: int
    y: float
    width: int
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """One minute: its numbers, and the parts of its bar from the bottom up."""

    minute: Minute
    x: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """The hour: what the top line stands for, the totals, and a column for every minute."""

    top: int
    sent: int
    deferred: int
    failed: int
    columns: tuple[Column, ...]
    begins: datetime | None

    @property
    def width(self) -> int:
        """Answer the width in the drawing's units."""
        return STEP * len(self.columns)


def draw(hour: Sequence[Minute]) -> Chart:
    """Lay out the hour so that its busiest minute fits under a round number."""
    top = round_up(max((m.sent + m.deferred + m.failed for m in hour), default=0))
    return Chart(
        top=top,
        sent=sum(m.sent for m in hour),
        deferred=sum(m.deferred for m in hour),
        failed=sum(m.failed for m in hour),
        columns=tuple(_column(minute, at * STEP, top) for at, minute in enumerate(hour)),
        begins=hour[0].at if hour else None,
    )


def round_up(number: int) -> int:
    """Answer the smallest round number (two equal steps of whole numbers) that is not smaller; 10 at least."""
    size = 1
    while True:
        for step in (10, 20, 30, 40, 60, 80):
            if step * size >= number:
                return step * size
        size *= 10


def _column(minute: Minute, x: int, top: int) -> Column:
    bars = []
    ground = float(HEIGHT)
    for series in _SERIES:
        height = HEIGHT * getattr(minute, series) / top
        if height:
            ground -= height
            bars.append(Bar(series, x + _GAP // 2, round(ground, 2), STEP - _GAP, round(height, 2)))
    return Column(minute, x, tuple(bars))
