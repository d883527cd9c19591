"""A process of its own that reads one spreadsheet from its standard input, within bounds of memory and time.

A file of a few kilobytes may unpack to gigabytes, or name one cell in the last of a million rows: whatever its format,
it is this process that ends then. Run by :mod:`rqmail.intake.sheets` with the bytes of memory, the seconds of computing
and the sheet's name. It writes JSON, a line each: a list for every row, an object for what stands in the way, and
``null`` when the sheet is read to its end.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import date, datetime
from typing import Any


def main(memory: int, seconds: int, name: str | None) -> None:
    """Read one sheet, the first where no name is given."""
    import python_calamine as calamine  # noqa: PLC0415 - an extra, and needed for spreadsheets alone

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        workbook: Any = calamine.CalamineWorkbook.from_filelike(sys.stdin.buffer)
        names = list(workbook.sheet_names)
        if name is not None and name not in names:
            _tell({"sheets": names})
            return
        sheet = workbook.get_sheet_by_name(name) if name is not None else workbook.get_sheet_by_index(0)
        for _ in range(sheet.start[0] if sheet.start else 0):
            _tell([])
        for row in sheet.iter_rows():
            _tell([_text(cell) for cell in row])
    except MemoryError:
        _tell({"too_large": True})
        return
    except Exception as error:  # noqa: BLE001 - the library has an error for each kind of damage
        _tell({"damage": type(error).__name__})
        return
    _tell(None)


def _tell(told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, (datetime, date)):
        return cell.isoformat()
    return str(cell)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
