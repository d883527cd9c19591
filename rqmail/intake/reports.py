"""What became of a file: what was found in it, row by row, and how much of it there is."""

from __future__ import annotations

from dataclasses import dataclass

from rqmail.intake.notices import NoticeCode


@dataclass(frozen=True, slots=True)
class RowError:
    """What is wrong in one row, rows counted as a spreadsheet or editor shows them."""

    row: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used, with the cells it has under the file's own header, and what is wrong."""

    header: tuple[str, ...]
    cells: tuple[str, ...]
    error: RowError


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A row all of whose recipients earlier rows have, and the first of them."""

    row: int
    address: str


@dataclass(frozen=True, slots=True)
class SuppressedRow:
    """Somebody a row's message does not go to, and why."""

    row: int
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class RowNotice:
    """Something about a row's message that is taken in all the same, but that one should know."""

    row: int
    field: str
    text: str
    code: NoticeCode
    about: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a file: nothing is stored unless ``error_count`` is 0; ``errors`` holds the first of them.

    ``encoding`` is what it was read in (empty for a spreadsheet), ``delimiter`` what stands between the cells of a CSV
    file, ``passed_over`` the rows above its header;
    ``duplicates`` counts rows all of whose recipients earlier rows have, ``skipped`` those left out for that, and
    ``duplicate_rows`` holds the first of them. ``suppressed`` counts recipients who are suppressed and get nothing,
    ``suppressed_rows`` holds the first of them, ``emptied`` counts rows left out for having no others. ``notices``
    counts what one should know, ``notice_rows`` holds the first. ``import_id`` names what was kept of it, if anything
    was.
    """

    rows: int
    stored: int
    error_count: int
    errors: tuple[RowError, ...]
    encoding: str = ""
    passed_over: tuple[str, ...] = ()
    duplicates: int = 0
    skipped: int = 0
    duplicate_rows: tuple[Duplicate, ...] = ()
    import_id: str | None = None
    delimiter: str = ""
    suppressed: int = 0
    emptied: int = 0
    suppressed_rows: tuple[SuppressedRow, ...] = ()
    notices: int = 0
    notice_rows: tuple[RowNotice, ...] = ()
