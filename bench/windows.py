"""Calls counted in windows of time, wherever the window is laid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def most_within(seconds: float, moments: Sequence[float]) -> int:
    """Count the most of these sorted moments in any window of this length; its later end belongs to it."""
    return max((index + 1 - bisect_right(moments, moment - seconds) for index, moment in enumerate(moments)), default=0)


def shortest(number: int, moments: Sequence[float]) -> float | None:
    """Answer the shortest time in which so many of these sorted moments lie; ``None`` when there are fewer."""
    spans = (later - earlier for earlier, later in zip(moments, moments[number - 1 :], strict=False))
    return min(spans, default=None)
