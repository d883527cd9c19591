"""How things are written on a terminal: tables, cells, moments, counts by reason."""

# rich is imported when something is drawn: a command that prints JSON needs none of it.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
    from rich.table import Table

#: Columns of a table that nobody looks at on a screen, unless the variable COLUMNS says otherwise.
_PIPE_WIDTH = 200

#: A column that may be folded is given at least so many places; with fewer it would be read letter by letter.
_FOLDED_WIDTH = 16


def console(*, stderr: bool = False) -> Console:
    """Make a console for tables; in a pipe it is as wide as ``COLUMNS`` says, or so wide that nothing is cut off."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    given = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() else int(given) if given.isdigit() and int(given) > 0 else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, emoji=False, markup=False)


class FittingTable:
    """A table that drops its less important columns where there is no room for all of them, and says which.

    A column in ``folds`` may be folded over several lines; every other one is shown whole or not at all.
    """

    def __init__(
        self, columns: Sequence[str], *, right: Sequence[str], folds: Sequence[str], drops: Sequence[str]
    ) -> None:
        self._columns = columns
        self._right = right
        self._folds = folds
        self._drops = drops
        self._rows: list[tuple[RenderableType, ...]] = []

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def add_row(self, *cells: RenderableType) -> None:
        """Add a row with a cell for every column."""
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        needed = [self._needed(at, console, options) for at in range(len(self._columns))]
        shown = list(range(len(self._columns)))
        for name in self._drops:
            if sum(needed[at] for at in shown) + 2 * (len(shown) - 1) <= options.max_width:
                break
            shown.remove(self._columns.index(name))
        yield self._drawn(shown)
        left_out = [name for at, name in enumerate(self._columns) if at not in shown]
        if left_out:
            yield Text(f"(no room for: {', '.join(left_out)}; a wider terminal or --json shows them)", style="dim")

    def _needed(self, at: int, console: Console, options: ConsoleOptions) -> int:
        """Answer how many columns of the terminal this column takes at least."""
        from rich.measure import Measurement

        cells: list[RenderableType] = [self._columns[at], *(row[at] for row in self._rows)]
        unlimited = options.update(max_width=10_000)
        widest = max(Measurement.get(console, unlimited, cell).maximum for cell in cells)
        return min(widest, _FOLDED_WIDTH) if self._columns[at] in self._folds else widest

    def _drawn(self, shown: list[int]) -> Table:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for name in (self._columns[at] for at in shown):
            justify: JustifyMethod = "right" if name in self._right else "left"
            made.add_column(name, justify=justify, overflow="fold", no_wrap=name not in self._folds)
        for row in self._rows:
            made.add_row(*(row[at] for at in shown))
        return made


def table(
    *columns: str, right: Sequence[str] = (), folds: Sequence[str] = (), drops: Sequence[str] = ()
) -> FittingTable:
    """Begin a plain table.

    ``right`` names the columns that hold numbers, ``folds`` those whose cells may go over several lines, ``drops``
    those that are left out where there is no room, the first of them first.
    """
    return FittingTable(columns, right=right, folds=folds, drops=drops)


def plain(value: object) -> str:
    """Write a cell: nothing for ``None``, and nothing that could steer a terminal."""
    text = "" if value is None else str(value)
    return "".join(character if character.isprintable() or category(character) == "Zs" else "�" for character in text)


def moment(value: datetime | None, now: datetime) -> str:
    """Write a moment in UTC (``Z``), as sentences and logs have it; the date only when it is another day."""
    if value is None:
        return ""
    utc = value.astimezone(UTC)
    if value - now > timedelta(days=366):
        return "until resumed"
    return f"{utc:%H:%M:%S}Z" if utc.date() == now.astimezone(UTC).date() else f"{utc:%Y-%m-%d %H:%M}Z"


def denied(reasons: Mapping[str, int] | None) -> str:
    """Write how often the limiter denied a mailbox, by reason, most first; nothing where it did not."""
    most_first = sorted((reasons or {}).items(), key=lambda one: -one[1])
    return ", ".join(f"{number:,} {reason}" for reason, number in most_first)
