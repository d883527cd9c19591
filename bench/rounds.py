"""Rounds: what is compared takes turns, so that a busy machine is busy for both."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compared:
    """The medians of both figures, and the median of their ratio in each round."""

    ours: float
    reference: float
    ratio: float


def in_turns(rounds: int, ours: Callable[[], float], reference: Callable[[], float]) -> Compared:
    """Measure both in every round, the one that begins changing each time."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            theirs = reference()
            mine = ours()
        else:
            mine = ours()
            theirs = reference()
        pairs.append((mine, theirs))
    return Compared(
        statistics.median(mine for mine, _ in pairs),
        statistics.median(theirs for _, theirs in pairs),
        statistics.median(mine / theirs for mine, theirs in pairs),
    )
