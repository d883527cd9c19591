"""The rows of a table, whichever kind of file it is in: a spreadsheet, or text with something between the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

from rqmail.errors import InvalidInputError
from rqmail.intake.encodings import find_encoding, lines_of
from rqmail.intake.sheets import is_sheet, sheet_rows
from rqmail.intake.tables import find_dialect, rows


def table_rows(
    file: IO[bytes],
    score: Callable[[list[str]], int],
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
) -> Iterator[tuple[int, list[str] | InvalidInputError]]:
    """Read every row with its number, or what is wrong with it; ``score`` says how much a row looks like the header.

    What is not given is found out; a tab may be called ``tab``.
    """
    if is_sheet(file):
        yield from sheet_rows(file, sheet)
        return
    found = find_encoding(file, encoding)
    dialect = find_dialect(lambda: lines_of(file, found), score, "\t" if delimiter == "tab" else delimiter)
    yield from rows(lines_of(file, found), dialect)
