"""The list a campaign goes to: a file with a column ``to``; every other column is data for the template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from rqmail.campaigns.template import GIVEN, field_name
from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import parse_addresses
from rqmail.intake.any_table import table_rows
from rqmail.intake.columns import ERROR_COLUMN, folded, hint, is_blank
from rqmail.text.addresses import same_person

#: The header is looked for in so many rows: above it there may be titles and blank lines.
_HEADER_WITHIN = 30

#: Errors, duplicates and empty fields of a list that are told one by one; the rest is counted.
MOST_TOLD = 1_000


@dataclass(frozen=True, slots=True)
class ListReading:
    """How a list is to be read, where it does not say it well enough itself; ``to`` is its column of addresses."""

    to: str = "to"
    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | None = None


#: A list is read as it says itself.
AS_IT_SAYS = ListReading()


@dataclass(frozen=True, slots=True)
class Person:
    """One good row: ``values`` are those of the list's fields, in their order."""

    row: int
    address: str
    person: str
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be used or is left out, and why; rows counted as a spreadsheet shows them."""

    row: int
    column: str
    message: str


@dataclass(slots=True)
class Audience:
    """What a list holds: its people once each, what is wrong with its rows, and which rows repeat a person."""

    fields: tuple[str, ...] = ()
    people: list[Person] = field(default_factory=list)
    rows: int = 0
    invalid: int = 0
    duplicates: int = 0
    problems: list[RowProblem] = field(default_factory=list)
    repeated: list[RowProblem] = field(default_factory=list)

    def empty_in(self, names: set[str]) -> dict[str, list[int]]:
        """Answer in which rows a field of these is empty; fields that never are, are left out."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.fields):
            if name in names:
                empty = [one.row for one in self.people if not one.values[position].strip()]
                if empty:
                    found[name] = empty[:MOST_TOLD]
        return found


def read_audience(file: IO[bytes], reading: ListReading = AS_IT_SAYS) -> Audience:
    """Read a list to its end; raises ``InvalidInputError`` when it cannot be read at all."""
    found = _table(file, reading)
    header = _header(found, reading)
    columns = [None if folded(cell) == folded(reading.to) else field_name(cell) for cell in header]
    _check(header, columns)
    kept = [position for position, name in enumerate(columns) if name not in {None, "", ERROR_COLUMN}]
    audience = Audience(tuple(columns[position] or "" for position in kept))
    to = columns.index(None)
    met: set[str] = set()
    for number, cells in found:
        if isinstance(cells, InvalidInputError):
            _refuse(audience, number, "row", str(cells))
        elif not is_blank(cells):
            _take(audience, met, number, cells, to, kept, len(columns))
    if not audience.rows:
        raise InvalidInputError("recipients", "", "at least one row below the header")
    return audience


def _take(
    audience: Audience, met: set[str], number: int, cells: Sequence[str], to: int, kept: Sequence[int], width: int
) -> None:
    if any(cell.strip() for cell in cells[width:]):
        return _refuse(audience, number, "row", f"{len(cells)} cells; the header has {width}")
    typed = cells[to] if to < len(cells) else ""
    try:
        addresses = list(parse_addresses(typed, "to"))
        if len(addresses) != 1:
            raise InvalidInputError("to", typed, "one mail address")
    except InvalidInputError as error:
        return _refuse(audience, number, "to", str(error))
    audience.rows += 1
    [one] = addresses
    person = same_person(one.address)
    if person in met:
        audience.duplicates += 1
        if len(audience.repeated) < MOST_TOLD:
            audience.repeated.append(RowProblem(number, "to", one.address))
        return None
    met.add(person)
    values = tuple(cells[position].replace("\x00", "") if position < len(cells) else "" for position in kept)
    audience.people.append(Person(number, one.address, person, one.name, values))
    return None


def _refuse(audience: Audience, number: int, column: str, why: str) -> None:
    audience.rows += 1
    audience.invalid += 1
    if len(audience.problems) < MOST_TOLD:
        audience.problems.append(RowProblem(number, column, why[:400]))


def _table(file: IO[bytes], reading: ListReading) -> Iterator[tuple[int, list[str] | InvalidInputError]]:
    def score(cells: list[str]) -> int:
        return len(cells) if any(folded(cell) == folded(reading.to) for cell in cells) else 0

    return table_rows(file, score, encoding=reading.encoding, delimiter=reading.delimiter, sheet=reading.sheet)


def _header(found: Iterator[tuple[int, list[str] | InvalidInputError]], reading: ListReading) -> list[str]:
    """Pass over titles and blank lines up to the row that has the column of addresses."""
    first: list[str] = []
    for _ in range(_HEADER_WITHIN):
        _, cells = next(found, (0, []))
        if isinstance(cells, InvalidInputError):
            raise InvalidInputError("header", "the first rows", cells.allowed)
        if any(folded(cell) == folded(reading.to) for cell in cells):
            while cells and not folded(cells[-1]):
                cells.pop()
            return list(cells)
        first = first or [cell for cell in cells if folded(cell)]
    raise InvalidInputError(
        "header",
        ", ".join(first)[:200],
        f"a column {reading.to!r} with the addresses (--column to=THEIRS names another){hint(reading.to, first)}",
    )


def _check(header: Sequence[str], columns: Sequence[str | None]) -> None:
    for cell, name in zip(header, columns, strict=True):
        if columns.count(name) > 1 and name:
            raise InvalidInputError("header", cell[:100], "each column once")
        if name in GIVEN:
            raise InvalidInputError("header", cell[:100], f"a name that is not one of {', '.join(GIVEN)}")
    if columns.count(None) != 1:
        raise InvalidInputError("header", ", ".join(header)[:200], "one column of addresses")
