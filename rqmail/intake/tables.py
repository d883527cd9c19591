"""Rows of a table: CSV as spreadsheets and databases write it, whatever stands between its cells."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import MAX_BODY_BYTES

DELIMITERS = ",;\t|"

#: A numbered row: its cells, or what is wrong with it.
Row = tuple[int, list[str] | InvalidInputError]

_SEP = re.compile(r'"?sep=([,;\t|:^~])"?\s*', re.IGNORECASE)
_BACKSLASHED = re.compile(r'\\(["\\])')
_LOOKED_AT = 30


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a table is written: what stands between its cells, and whether a quote in one has a backslash before it."""

    delimiter: str
    backslashed: bool = False


def find_dialect(
    lines: Callable[[], Iterator[str]], score: Callable[[list[str]], int], delimiter: str | None = None
) -> Dialect:
    """Find the dialect in which some of the first rows names most columns; ``score`` counts those of a row.

    A ``delimiter`` that is given is taken, whatever the file looks like.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter not in DELIMITERS):
        raise InvalidInputError("delimiter", delimiter, "a comma, a semicolon, a tab or |")
    beginning = list(islice(lines(), _LOOKED_AT))
    stated = _SEP.fullmatch(beginning[0]) if beginning else None
    tried = delimiter or (stated[1] if stated else DELIMITERS)
    dialects = [Dialect(delimiter) for delimiter in tried]
    best = max(dialects, key=lambda dialect: max((score(row) for row in _sound(rows(beginning, dialect))), default=0))
    if any('\\"' in line for line in lines()):
        backslashed = Dialect(best.delimiter, backslashed=True)
        if _is_broken(rows(lines(), best)) and not _is_broken(rows(lines(), backslashed)):
            return backslashed
    return best


def rows(lines: Iterable[str], dialect: Dialect) -> Iterator[Row]:
    """Read the rows, numbered as a spreadsheet numbers them; after one that cannot be read nothing follows.

    A row that was quoted whole (by a program that took it for one cell) is read once more; ``sep=;`` is no row.
    """
    if dialect.backslashed:
        lines = (_BACKSLASHED.sub(lambda sign: '""' if sign[1] == '"' else "\\", line) for line in lines)
    csv.field_size_limit(MAX_BODY_BYTES + 1)
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    number = 0
    while True:
        number += 1
        try:
            cells = next(reader)
            if number == 1 and _SEP.fullmatch(dialect.delimiter.join(cells)):
                continue
            if len(cells) == 1 and dialect.delimiter in cells[0]:
                cells = next(csv.reader(io.StringIO(cells[0], newline=""), delimiter=dialect.delimiter, strict=True))
        except StopIteration:
            return
        except csv.Error as error:
            allowed = f"well-formed CSV ({error}); nothing after it can be read"
            yield number, InvalidInputError("row", f"row {number}", allowed)
            return
        yield number, cells


def _sound(found: Iterable[Row]) -> Iterator[list[str]]:
    return (cells for _, cells in found if isinstance(cells, list))


def _is_broken(found: Iterable[Row]) -> bool:
    return any(isinstance(cells, InvalidInputError) for _, cells in found)
