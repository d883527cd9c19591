"""CSV as spreadsheets open it: with a BOM, a delimiter of choice, and no cell that they would take for a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rqmail.errors import InvalidInputError

#: What may stand between cells, by the names under which it can be asked for.
DELIMITERS = {",": ",", ";": ";", "|": "|", "tab": "\t", "\t": "\t"}

#: Tells a spreadsheet that the file is UTF-8.
_BOM = "\ufeff"

#: Where a formula could begin: a cell, or what becomes one when the file is opened with another delimiter than it was
#: written with. Blanks and quotes before it do not matter to a spreadsheet; the wide signs are those of East Asia.
_FORMULA = re.compile(r'(^|[,;|\t\r\n])([ \xa0"]*)(?=[=+\-@＝＋－＠])')


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
        writer.writerow(harmless(cell) for cell in cells)
        yield _taken(line)


def harmless(value: object) -> str:
    """Write a cell so that no spreadsheet finds a formula in it, whichever delimiter it cuts the file at."""
    text = "" if value is None else str(value)
    guarded = _FORMULA.sub(r"\1\2'", text)
    return "'" + guarded if text[:1] in {"\t", "\r", "\n"} else guarded


def _taken(line: io.StringIO) -> str:
    text = line.getvalue()
    line.seek(0)
    line.truncate()
    return text
