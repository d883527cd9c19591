"""Files of messages, checked as a whole before anything is stored: spreadsheets, CSV, JSON."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from rqmail.errors import InvalidInputError
from rqmail.intake.carried import NO_FOLDER, fields_of_row
from rqmail.intake.columns import (
    COLUMN_OF,
    COLUMNS,
    ERROR_COLUMN,
    HEADER,
    Naming,
    folded,
    is_blank,
    naming_of,
    values_of,
)
from rqmail.intake.documents import json_rows
from rqmail.intake.draft import Checked, Checks, Draft
from rqmail.intake.encodings import find_encoding, lines_of
from rqmail.intake.moments import LocalTime, local_time
from rqmail.intake.reports import BadRow, Duplicate, ImportReport, RowError, RowNotice, SuppressedRow
from rqmail.intake.sheets import SHEET_BYTES, is_sheet, sheet_rows
from rqmail.intake.suppressed import AllSuppressedError
from rqmail.intake.tables import find_dialect, rows
from rqmail.models.message import LeftOut, NewMessage
from rqmail.text.addresses import same_person
from rqmail.text.formulas import restored

Format = Literal["csv", "jsonl"]

#: A row: its number, its cells, and the draft it is or what is wrong with it.
_Row = tuple[int, tuple[str, ...], Draft | InvalidInputError]

#: Rows checked at once, at most, and characters in their cells.
_ROWS_AT_ONCE = 250
_CHARACTERS_AT_ONCE = 500_000

#: How many errors of a file are told in full; the rest is counted.
MAX_ERRORS_TOLD = 20

#: The header is looked for in so many rows: above it there may be titles and blank lines.
_HEADER_WITHIN = 30


#: How JSON begins, whatever its file is called: standard input has no name. No header of a table does.
_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"')


@dataclass(frozen=True)
class Reading:
    """How a file is to be read, where it does not say it well enough itself; a spreadsheet in so much memory.

    ``attachments_dir`` is where the files are that its rows name; without one none may be named.
    """

    format: Format = "csv"
    encoding: str | None = None
    sheet: str | None = None
    naming: Naming = field(default_factory=Naming)
    local_time: LocalTime = field(default_factory=LocalTime)
    delimiter: str | None = None
    sheet_bytes: int = SHEET_BYTES
    attachments_dir: Path | None = None


def reading_of(
    name: str,
    *,
    format_: Format | None,
    encoding: str | None,
    sheet: str | None,
    columns: Sequence[str],
    ignore_other_columns: bool,
    timezone: str | None,
    date_format: str | None,
    delimiter: str | None,
    sheet_bytes: int = SHEET_BYTES,
    attachments_dir: Path | None = None,
) -> Reading:
    """Answer how the file ``name`` is to be read, as it is typed: columns as ``to=E-mail``, a delimiter as ``tab``.

    Raises ``InvalidInputError`` naming what cannot be used.
    """
    return Reading(
        format_ or format_of(name),
        encoding,
        sheet,
        naming_of(columns, ignore_others=ignore_other_columns),
        local_time(timezone, date_format),
        "\t" if delimiter == "tab" else delimiter,
        sheet_bytes,
        attachments_dir,
    )


@dataclass(slots=True)
class _Source:
    """A file being read: what was found out about it on the way."""

    file: IO[bytes]
    sender: str
    reading: Reading
    ignore_unsubscribed: bool = False
    encoding: str = ""
    delimiter: str = ""
    header: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()

    def drafts(self) -> Iterator[tuple[int, tuple[str, ...], Draft | InvalidInputError]]:
        """Read every row as a draft, or as what is wrong with it; from the beginning at each call."""
        if is_sheet(self.file):
            yield from self._table(sheet_rows(self.file, self.reading.sheet, self.reading.sheet_bytes))
            return
        self.encoding = self.encoding or find_encoding(self.file, self.reading.encoding)
        if self.reading.format == "jsonl" or _JSON.match("".join(islice(self._lines(), 4))):
            self.header = tuple(self.reading.naming.theirs.get(name, name) for name in COLUMNS)
            for row, found in json_rows(self._lines, self.reading.naming):
                cells = () if isinstance(found, InvalidInputError) else _cells(found)
                yield row, cells, self._draft(found)
            return
        dialect = find_dialect(self._lines, self.reading.naming.known, self.reading.delimiter)
        self.delimiter = dialect.delimiter
        yield from self._table(rows(self._lines(), dialect))

    def _lines(self) -> Iterator[str]:
        return lines_of(self.file, self.encoding)

    def _table(self, found: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, tuple[str, ...], Any]]:
        names = self._find_header(found)
        # A file of bad rows that was mended: what was written for spreadsheets is read back as it was.
        is_ours = any(folded(cell) == ERROR_COLUMN for cell in self.header)
        for row, read in found:
            cells = [restored(cell) for cell in read] if is_ours and not isinstance(read, InvalidInputError) else read
            if isinstance(cells, InvalidInputError):
                yield row, (), cells
            elif not is_blank(cells):
                try:
                    values: dict[str, str] | InvalidInputError = values_of(names, cells)
                except InvalidInputError as error:
                    values = error
                yield row, tuple(cells), self._draft(values)

    def _find_header(self, found: Iterator[tuple[int, Any]]) -> list[str | None]:
        """Pass over blank lines and titles up to the row that names columns, and read it."""
        looked_at: list[list[str]] = []
        for _, cells in found:
            if isinstance(cells, InvalidInputError):
                raise InvalidInputError("header", "the first rows", cells.allowed)
            looked_at.append(cells)
            if self.reading.naming.known(cells) >= 2 or len(looked_at) == _HEADER_WITHIN:
                break
        best = max(looked_at, key=self.reading.naming.known, default=[])
        if not self.reading.naming.known(best):
            best = next((cells for cells in looked_at if not is_blank(cells)), [])
        above = looked_at[: next((i for i, cells in enumerate(looked_at) if cells is best), 0)]
        self.header = tuple(best)
        self.passed_over = tuple(" ".join(filter(None, cells)).strip()[:200] for cells in above)
        names = self.reading.naming.read(best)
        if "attachments" in names and self.reading.attachments_dir is None:
            raise InvalidInputError("header", "attachments", NO_FOLDER)
        return names

    def _draft(self, values: dict[str, Any] | InvalidInputError) -> Draft | InvalidInputError:
        if isinstance(values, InvalidInputError):
            return values
        try:
            for name in ("at", "expires"):
                if values.get(name):
                    values[name] = self.reading.local_time.read(name, values[name])
            fields = fields_of_row(values, self.reading.attachments_dir)
            return Draft(self.sender, ignore_unsubscribed=self.ignore_unsubscribed, **fields)
        except InvalidInputError as error:
            return error


@dataclass(slots=True)
class FileCheck:
    """Reads a file once and checks every row; what becomes of the good and the bad ones is its caller's.

    CSV and JSON lines are streamed: memory hardly grows with them.
    """

    checks: Checks
    sender: str
    reading: Reading
    skip_duplicates: bool = False
    ignore_unsubscribed: bool = False
    told: int = MAX_ERRORS_TOLD

    def run(
        self,
        file: IO[bytes],
        on_good_row: Callable[[NewMessage], None],
        on_bad_row: Callable[[BadRow], None],
        on_progress: Callable[[str, int, float], None],
    ) -> ImportReport:
        """Read the file to its end; raises ``InvalidInputError`` when it cannot be read at all."""
        self.checks.require_sender(self.sender)
        source = _Source(file, self.sender, self.reading, self.ignore_unsubscribed)
        size = max(1, file.seek(0, io.SEEK_END))
        count, error_count = 0, 0
        errors: list[RowError] = []
        duplicates: list[Duplicate] = []
        people = _People()
        suppressed = _Suppressed(self.told)
        notices: list[RowNotice] = []
        notice_count = 0
        for row, cells, found in self._checked(source.drafts()):
            count += 1
            if count % 1000 == 0:
                on_progress("check", count, min(1.0, file.tell() / size))
            if isinstance(found, AllSuppressedError):
                suppressed.note(row, found.left_out)
                suppressed.emptied += 1
                continue
            if isinstance(found, InvalidInputError):
                error_count += 1
                field = COLUMN_OF.get(found.field, found.field)
                wrong = RowError(row, field, _short(str(InvalidInputError(field, found.value, found.allowed))))
                if len(errors) < self.told:
                    errors.append(wrong)
                on_bad_row(BadRow(source.header, cells, wrong))
                continue
            message = found.message
            suppressed.note(row, message.left_out)
            for one in found.all_notices():
                notice_count += 1
                if len(notices) < self.told:
                    notices.append(RowNotice(row, one.field, one.text, one.code, one.about))
            repeated = people.repeat(message)
            if repeated and len(duplicates) < self.told:
                duplicates.append(Duplicate(row, message.recipients[0].address))
            if not (repeated and self.skip_duplicates):
                on_good_row(message)
        if not count:
            raise InvalidInputError("file", "", "at least one row below the header")
        return ImportReport(
            count, 0, error_count, tuple(errors), source.encoding, source.passed_over, people.repeated,
            people.repeated if self.skip_duplicates else 0, tuple(duplicates), delimiter=source.delimiter,
            suppressed=suppressed.number, emptied=suppressed.emptied, suppressed_rows=tuple(suppressed.first),
            notices=notice_count, notice_rows=tuple(notices),
        )  # fmt: skip

    def _checked(self, found: Iterator[_Row]) -> Iterator[tuple[int, tuple[str, ...], Checked | InvalidInputError]]:
        """Check rows some at a time: who is suppressed is asked once for all of them."""
        for part in _parts(found):
            checked = self.checks.check_all([draft for _, _, draft in part])
            yield from ((row, cells, one) for (row, cells, _), one in zip(part, checked, strict=True))


def format_of(name: str) -> Format:
    """Tell the format of a file by its name: ``.jsonl``, ``.ndjson`` and ``.json`` hold JSON, all others a table."""
    return "jsonl" if Path(name).suffix.lower() in {".jsonl", ".ndjson", ".json"} else "csv"


def drafts(file: IO[bytes], sender: str, reading: Reading | None = None) -> Iterator[Draft]:
    """Read a file's rows as drafts, unchecked; raises ``InvalidInputError`` at the first that cannot be read."""
    return (_sound(draft) for _, _, draft in _Source(file, sender, reading or Reading()).drafts())


def _parts(found: Iterator[_Row]) -> Iterator[list[_Row]]:
    """Cut the rows into parts, of few enough rows and characters that memory does not feel them."""
    part: list[_Row] = []
    characters = 0
    for row in found:
        part.append(row)
        characters += sum(map(len, row[1]))
        if len(part) >= _ROWS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield part
            part, characters = [], 0
    if part:
        yield part


class _Suppressed:
    """Who is suppressed in a file: their number, the first of them, and how many rows are for nobody else."""

    def __init__(self, told: int) -> None:
        self._told = told
        self.first: list[SuppressedRow] = []
        self.number = 0
        self.emptied = 0

    def note(self, row: int, left_out: Sequence[LeftOut]) -> None:
        """Note who was left out of a row's message."""
        self.number += len(left_out)
        for one in left_out[: max(0, self._told - len(self.first))]:
            self.first.append(SuppressedRow(row, one.address, one.reason))


class _People:
    """Who was met so far in a file: a few bytes each, whatever the length of the addresses."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self.repeated = 0

    def repeat(self, message: NewMessage) -> bool:
        """Note the recipients of a row; say whether every one of them has been met before."""
        before = len(self._met)
        self._met.update(hash(same_person(to.address)) for to in message.recipients)
        repeated = len(self._met) == before
        self.repeated += repeated
        return repeated


def _cells(values: dict[str, Any]) -> tuple[str, ...]:
    """Answer the cells of an object; its headers, each of which might be a column, stand behind them."""
    listed = (values.get(name) or "" for name in COLUMNS)
    headers = (f"{name}: {value}" for name, value in values.items() if name.startswith(HEADER))
    return (*(value if isinstance(value, str) else "; ".join(value) for value in listed), *headers)


def _short(message: str) -> str:
    return message if len(message) <= 400 else message[:200] + " … " + message[-199:]


def _sound(draft: Draft | InvalidInputError) -> Draft:
    if isinstance(draft, InvalidInputError):
        raise draft
    return draft
