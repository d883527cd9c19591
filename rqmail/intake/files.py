"""Files of messages: CSV with a header row, or JSON lines; checked as a whole before anything is stored."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import MAX_BODY_BYTES, Draft, Intake

Format = Literal["csv", "jsonl"]

#: What a row may say; ``to``, ``subject`` and one of ``text`` and ``html`` must be there.
COLUMNS = ("to", "subject", "text", "html", "cc", "bcc", "at", "priority", "expires")
_REQUIRED = ("to", "subject")
_DELIMITERS = ",;\t"
_UTF8 = "UTF-8 (in Excel: save as “CSV UTF-8”)"

#: How many errors of a file are told in full; the rest is counted.
MAX_ERRORS_TOLD = 20


@dataclass(frozen=True, slots=True)
class RowError:
    """What is wrong in one row, rows counted as a spreadsheet or editor shows them."""

    row: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a file: nothing is stored unless ``error_count`` is 0; ``errors`` holds the first of them."""

    rows: int
    stored: int
    error_count: int
    errors: tuple[RowError, ...]


def import_messages(
    intake: Intake,
    file: IO[bytes],
    sender: str,
    *,
    format_: Format = "csv",
    dry_run: bool = False,
    on_progress: Callable[[str, int], None] = lambda _stage, _rows: None,
) -> ImportReport:
    """Store every row of ``file`` (which can be read twice) as a message from ``sender``, all or none.

    The file is streamed: memory does not grow with it. ``on_progress`` hears ``check`` or ``store``, and the rows so
    far. Raises ``InvalidInputError`` when the file as a whole cannot be read.
    """
    checks = intake.checks()
    checks.require_sender(sender)
    rows, error_count = 0, 0
    errors: list[RowError] = []
    for row, draft in _drafts(file, sender, format_):
        rows += 1
        if rows % 1000 == 0:
            on_progress("check", rows)
        try:
            if isinstance(draft, InvalidInputError):
                raise draft
            checks.check(draft)
        except InvalidInputError as error:
            error_count += 1
            if len(errors) < MAX_ERRORS_TOLD:
                errors.append(RowError(row, error.field, _short(str(error))))
    if not rows:
        raise InvalidInputError("file", "", "at least one row below the header")
    if error_count or dry_run:
        return ImportReport(rows, 0, error_count, tuple(errors))
    stored = 0

    def count(more: int) -> None:
        nonlocal stored
        stored += more
        on_progress("store", stored)

    file.seek(0)
    intake.store((checks.check(_sound(draft)).message for _, draft in _drafts(file, sender, format_)), count)
    return ImportReport(rows, stored, 0, ())


def format_of(name: str) -> Format:
    """Tell the format of a file by its name: ``.jsonl``, ``.ndjson`` and ``.json`` hold JSON lines, all others CSV."""
    return "jsonl" if Path(name).suffix.lower() in {".jsonl", ".ndjson", ".json"} else "csv"


def drafts(file: IO[bytes], sender: str, format_: Format = "csv") -> Iterator[Draft]:
    """Read a file's rows as drafts, unchecked; raises ``InvalidInputError`` at the first that cannot be read."""
    return (_sound(draft) for _, draft in _drafts(file, sender, format_))


def _short(message: str) -> str:
    return message if len(message) <= 400 else message[:200] + " … " + message[-199:]


def _sound(draft: Draft | InvalidInputError) -> Draft:
    if isinstance(draft, InvalidInputError):
        raise draft  # the file was changed between the two readings
    return draft


def _drafts(file: IO[bytes], sender: str, format_: Format) -> Iterator[tuple[int, Draft | InvalidInputError]]:
    lines = _decoded(file)
    for row, values in _json_rows(lines) if format_ == "jsonl" else _csv_rows(lines):
        if isinstance(values, InvalidInputError):
            yield row, values
        else:
            yield row, Draft(sender, **values)


def _decoded(file: IO[bytes]) -> Iterator[str]:
    """Decode line by line, so that a byte that is no UTF-8 is reported with its line."""
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInputError("file", f"byte 0x{line[error.start]:02x} in line {number}", _UTF8) from None
        if number == 1:
            text = text.removeprefix("\ufeff")
        if "\x00" in text:
            raise InvalidInputError("file", f"a NUL byte in line {number}", _UTF8)
        yield text


# --- CSV -----------------------------------------------------------------------------------------------------------


def _csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any] | InvalidInputError]]:
    header_line = next(lines, "")
    delimiter, names = _header(header_line)
    width = len(names)
    csv.field_size_limit(MAX_BODY_BYTES + 1)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    row = 1
    while True:
        row += 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # After a quote that is never closed nothing that follows can be told apart.
            yield row, InvalidInputError("row", f"row {row}", f"well-formed CSV ({error})")
            return
        if not any(values):
            continue
        if len(values) != width:
            yield row, InvalidInputError("row", f"{len(values)} columns", f"{width} columns, as in the header")
        else:
            cells = zip(names, values, strict=True)
            yield row, {name: cell for name, cell in cells if cell or name in _REQUIRED}  # an empty cell says nothing


def _header(line: str) -> tuple[str, list[str]]:
    """Find the delimiter with which the header reads best, and the columns it names."""
    readings = []
    for delimiter in _DELIMITERS:
        try:
            cells = next(csv.reader([line], delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        readings.append((delimiter, [cell.strip().lower() for cell in cells]))
    if not readings or not line.strip():
        raise InvalidInputError("header", line.strip(), "a first row that names the columns: " + ", ".join(COLUMNS))
    delimiter, names = max(readings, key=lambda reading: len(set(reading[1]) & set(COLUMNS)))
    for name in names:
        if name not in COLUMNS:
            raise InvalidInputError("header", name, "columns named " + ", ".join(COLUMNS))
        if names.count(name) > 1:
            raise InvalidInputError("header", name, "each column once")
    _require_columns("header", names)
    return delimiter, names


def _require_columns(field: str, names: Iterable[str]) -> None:
    present = set(names)
    missing = [name for name in _REQUIRED if name not in present]
    if not present & {"text", "html"}:
        missing.append("text or html")
    if missing:
        raise InvalidInputError(field, ", ".join(sorted(present)), "with a column " + " and a column ".join(missing))


# --- JSON lines ----------------------------------------------------------------------------------------------------


def _json_rows(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any] | InvalidInputError]]:
    for row, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield row, _json_row(line)
        except InvalidInputError as error:
            yield row, error


def _json_row(line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("row", line.strip()[:60], f"one JSON object a line ({error})") from None
    if not isinstance(values, dict):
        raise InvalidInputError("row", line.strip()[:60], "one JSON object a line")
    for name, value in values.items():
        if name not in COLUMNS:
            raise InvalidInputError(name, value, "fields named " + ", ".join(COLUMNS))
        if not (value is None or isinstance(value, str) or (name in _ADDRESSED and _is_list_of_text(value))):
            raise InvalidInputError(name, value, "text, or a list of texts" if name in _ADDRESSED else "text")
    return {name: value for name, value in values.items() if value is not None} | {
        name: values.get(name) or "" for name in _REQUIRED
    }


_ADDRESSED = frozenset({"to", "cc", "bcc"})


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(item, str) for item in value)
