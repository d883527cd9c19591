"""Rows of a spreadsheet: .xlsx, .ods and .xls as they are, the first sheet or the one that was named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from difflib import get_close_matches
from typing import IO, Any

from rqmail.errors import InvalidInputError

_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


def is_sheet(file: IO[bytes]) -> bool:
    """Say whether a file is a spreadsheet, by its first bytes."""
    file.seek(0)
    return file.read(4) in _MAGIC


def sheet_rows(file: IO[bytes], name: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a sheet as text, numbered as the spreadsheet numbers them."""
    try:
        import python_calamine as calamine  # noqa: PLC0415 - an extra, and needed for spreadsheets alone
    except ModuleNotFoundError:
        raise InvalidInputError("file", "a spreadsheet", "CSV; for .xlsx and .ods install rqmail[sheets]") from None
    file.seek(0)
    try:
        workbook: Any = calamine.CalamineWorkbook.from_filelike(file)
        names = list(workbook.sheet_names)
        if name is not None and name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError("sheet", name, f"one of {', '.join(names)}{hint}")
        sheet = workbook.get_sheet_by_name(name) if name is not None else workbook.get_sheet_by_index(0)
        cells = sheet.to_python(skip_empty_area=False)
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001 - the library has an error for each kind of damage
        kind = type(error).__name__
        raise InvalidInputError("file", f"a spreadsheet that cannot be read ({kind})", ".xlsx, .ods or CSV") from None
    for number, row in enumerate(cells, start=1):
        yield number, [_text(cell) for cell in row]


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, (datetime, date)):
        return cell.isoformat()
    return str(cell)
