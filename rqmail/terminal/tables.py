"""How things are written on a terminal: tables, cells, moments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

#: Columns of a table that nobody looks at on a screen.
_PIPE_WIDTH = 200


def console(*, stderr: bool = False) -> Console:
    """Make a console for tables; in a pipe it is wide, so that nothing is cut off."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False, emoji=False, markup=False
    )


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Begin a plain table; the columns named in ``right`` hold numbers."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def plain(value: object) -> str:
    """Write a cell: nothing for ``None``, and nothing that could steer a terminal."""
    text = "" if value is None else str(value)
    return "".join(character if character.isprintable() else "�" for character in text)


def moment(value: datetime | None, now: datetime) -> str:
    """Write a moment in local time, the date only when it is another day."""
    if value is None:
        return ""
    local = value.astimezone()
    if value - now > timedelta(days=366):
        return "until resumed"
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"
