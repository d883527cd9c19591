"""Bad rows as a CSV file: what stood in them and what is wrong, ready to be mended and imported again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import TextIO

from rqmail.intake.columns import ERROR_COLUMN
from rqmail.intake.reports import BadRow
from rqmail.text.formulas import harmless


class BadRowsFile:
    """Writes bad rows, each with the cells it has under its file's own header, and an error column of ours."""

    def __init__(self, file: TextIO) -> None:
        self._writer = csv.writer(file)
        self._headed = False

    def write(self, bad: BadRow) -> None:
        """Write one row; an error column of an earlier round is replaced."""
        header = [name for name in bad.header if name.strip().lower() != ERROR_COLUMN]
        if not self._headed:
            self._writer.writerow([*map(harmless, header), ERROR_COLUMN])
            self._headed = True
        kept = [
            cell
            for position, cell in enumerate(bad.cells)
            if position >= len(bad.header) or bad.header[position].strip().lower() != ERROR_COLUMN
        ]
        told = f"row {bad.error.row}: {bad.error.message}"
        missing = [""] * (len(header) - len(kept))
        cells = [*kept[: len(header)], *missing, told, *kept[len(header) :]]
        # JSON knows half characters; and the file is opened in a spreadsheet, to be mended.
        self._writer.writerow([harmless(cell.encode(errors="replace").decode()) for cell in cells])


def as_csv(rows: Iterable[BadRow]) -> Iterator[str]:
    """Write bad rows as the text of a CSV file, a piece at a time."""
    yield "\ufeff"
    piece = io.StringIO(newline="")
    file = BadRowsFile(piece)
    for row in rows:
        file.write(row)
        yield piece.getvalue()
        piece.seek(0)
        piece.truncate()
