"""One line of the results: what was measured, against what, and whether that is as good as it has to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure; ``ratio`` is ``ours`` over ``reference``, ``reached`` is ``None`` without a target."""

    bench: str
    what: str
    ours: float
    reference: float | None
    ratio: float | None
    target: str
    unit: str
    reached: bool | None
    note: str

    @classmethod
    def judged(
        cls,
        bench: str,
        what: str,
        ours: float,
        unit: str,
        *,
        reference: float | None = None,
        ratio: float | None = None,
        figure: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        note: str = "",
    ) -> Self:
        """Judge the ratio against its bound, or ``ours`` itself where there is no reference.

        ``ratio`` is given where it is the median of rounds rather than the quotient of the two figures shown, and
        ``figure`` where something else than these is judged.
        """
        if ratio is None and reference:
            ratio = ours / reference
        if figure is None:
            figure = ours if ratio is None else ratio
        reached = None
        if at_least is not None:
            reached = figure >= at_least
        elif at_most is not None:
            reached = figure <= at_most
        return cls(bench, what, ours, reference, ratio, _target(at_least, at_most), unit, reached, note)


def _target(at_least: float | None, at_most: float | None) -> str:
    if at_least is not None:
        return f"≥ {at_least:g}"
    return "" if at_most is None else f"≤ {at_most:g}"
