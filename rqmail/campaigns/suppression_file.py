"""A file of addresses that are to get no mail: one a line, or a table with a column ``address``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import check_address
from rqmail.intake.any_table import table_rows
from rqmail.intake.moments import moment_of
from rqmail.models.suppression import Reason
from rqmail.text.addresses import same_person

#: What the column with the addresses is called, in this and other programs' exports, without blanks and hyphens.
_ADDRESS = frozenset({"address", "email", "to", "recipient", "emailaddress", "mail", "emailadres", "mailadresse"})
_OURS = ("reason", "since")
_BETWEEN = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class Listed:
    """One address of a file, as it is kept; without a reason or a moment of its own the import's holds."""

    row: int
    address: str
    reason: Reason | None
    since: datetime | None


def addresses_of(file: IO[bytes]) -> Iterator[Listed | tuple[int, InvalidInputError]]:
    """Read the addresses of a file, or for a row what is wrong with it.

    Columns that are none of ours are passed over. Raises ``InvalidInputError`` where no column has addresses.
    """
    found = table_rows(file, lambda cells: len(_columns(cells) or ()))
    columns: dict[str, int] | None = None
    for row, cells in found:
        if isinstance(cells, InvalidInputError):
            yield row, cells
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if columns is None:
            columns = _columns(cells)
            if columns is not None:
                continue
            columns = {"address": 0}
            if len(cells) > 1 and "@" not in cells[0]:
                raise InvalidInputError("header", ", ".join(cells[:5]), "a column named address, or addresses alone")
        try:
            yield _listed(row, cells, columns)
        except InvalidInputError as wrong:
            yield row, wrong


def reason_named(text: str, field: str = "reason") -> Reason:
    """Answer the reason of this name; raises ``InvalidInputError`` for any other."""
    try:
        return Reason(_BETWEEN.sub("-", text.strip().lower()))
    except ValueError:
        raise InvalidInputError(field, text, "one of " + ", ".join(Reason)) from None


def _columns(cells: list[str]) -> dict[str, int] | None:
    """Answer where our columns are, ``None`` for a row that is no header."""
    names = [_BETWEEN.sub("", cell.strip().lower()) for cell in cells]
    where = {name: names.index(name) for name in _OURS if name in names}
    address = next((place for place, name in enumerate(names) if name in _ADDRESS), None)
    return None if address is None else {"address": address, **where}


def _listed(row: int, cells: list[str], columns: dict[str, int]) -> Listed:
    def cell(name: str) -> str:
        place = columns.get(name)
        return cells[place].strip() if place is not None and place < len(cells) else ""

    reason, since = cell("reason"), cell("since")
    return Listed(
        row,
        same_person(check_address(cell("address"), "address")),
        reason_named(reason) if reason else None,
        moment_of("since", since) if since else None,
    )
