"""CSV as spreadsheets open it: with a BOM, a delimiter of choice, and no cell that they would take for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rqmail.errors import InvalidInputError
from rqmail.text.formulas import harmless

#: What may stand between cells, by the names under which it can be asked for.
DELIMITERS = {",": ",", ";": ";", "|": "|", "tab": "\t", "\t": "\t"}

#: Tells a spreadsheet that the file is UTF-8.
_BOM = "\ufeff"


def delimiter_named(name: str) -> str:
    """Answer the delimiter that was asked for: a comma, a semicolon, a bar, or a tab (also as ``tab``)."""
    if name not in DELIMITERS:
        raise InvalidInputError("delimiter", name, "one of , ; | tab")
    return DELIMITERS[name]


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> Iterator[str]:
    """Write a header and rows as CSV, a line at a time, ``None`` as an empty cell; the first line begins with a BOM."""
    line = io.StringIO()
    writer = csv.writer(line, delimiter=delimiter)
    line.write(_BOM)
    for cells in chain([header], rows):
        writer.writerow("" if cell is None else harmless(str(cell)) for cell in cells)
        yield _taken(line)


def _taken(line: io.StringIO) -> str:
    text = line.getvalue()
    line.seek(0)
    line.truncate()
    return text
