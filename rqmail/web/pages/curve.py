"""How much of a campaign was sent over time, and how it is expected to go on, as two lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

#: The drawing's own units.
WIDTH, HEIGHT = 600, 100

#: More corners than this nobody sees.
_CORNERS = 300


@dataclass(frozen=True, slots=True)
class Curve:
    """The lines as lists of points, and what the edges of the drawing stand for."""

    sent: str
    expected: str
    begins: datetime
    ends: datetime
    total: int


def draw(minutes: Sequence[tuple[datetime, int]], total: int, now: datetime, done_on: datetime | None) -> Curve | None:
    """Lay out what was sent minute by minute; from now to ``done_on`` it is expected to rise to ``total``."""
    if not minutes or total <= 0:
        return None
    begins = minutes[0][0]
    ahead = done_on is not None and done_on > now
    last = minutes[-1][0] + timedelta(minutes=1)
    ends = max(begins + timedelta(minutes=1), done_on if done_on is not None and ahead else last)
    span = (ends - begins).total_seconds()

    def point(at: datetime, number: int) -> str:
        x = WIDTH * min(1.0, max(0.0, (at - begins).total_seconds() / span))
        return f"{x:.1f},{HEIGHT * (1 - min(1.0, number / total)):.1f}"

    points, sent = [point(begins, 0)], 0
    every = max(1, len(minutes) // _CORNERS)
    for place, (at, number) in enumerate(minutes):
        sent += number
        if place % every == 0 or place == len(minutes) - 1:
            points.append(point(at + timedelta(minutes=1), sent))
    expected = f"{point(max(now, last), sent)} {point(ends, total)}" if ahead else ""
    return Curve(" ".join(points), expected, begins, ends, total)
