"""An import as people look at it, and how the report of its check is kept in the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rqmail.intake.reports import Duplicate, ImportReport, RowError, RowNotice, SuppressedRow
from rqmail.models.importing import ImportState, MessageImport


@dataclass(frozen=True, slots=True)
class Import:
    """An import as people look at it: ``expected`` messages come of its rows, ``stored`` of them are there.

    ``messages`` counts what became of those, by status.
    """

    id: str
    who: str
    file_name: str
    sender: str
    state: ImportState
    rows: int
    expected: int
    stored: int
    created_on: datetime
    ended_on: datetime | None
    ended_by: str | None
    report: ImportReport
    messages: dict[str, int]


def remembered(report: ImportReport) -> dict[str, Any]:
    """Write a report as the table keeps it, as JSON."""
    return {
        "errorCount": report.error_count,
        "errors": [(one.row, one.field, one.message) for one in report.errors],
        "encoding": report.encoding,
        "delimiter": report.delimiter,
        "passedOver": report.passed_over,
        "duplicates": report.duplicates,
        "skipped": report.skipped,
        "duplicateRows": [(one.row, one.address) for one in report.duplicate_rows],
        "suppressed": report.suppressed,
        "emptied": report.emptied,
        "suppressedRows": [(one.row, one.address, one.reason) for one in report.suppressed_rows],
        "notices": report.notices,
        "noticeRows": [(one.row, one.field, one.text, one.code, one.about) for one in report.notice_rows],
    }


def seen(row: MessageImport, messages: dict[str, int]) -> Import:
    """Read an import of the table; ``messages`` is what became of its messages."""
    known: dict[str, Any] = json.loads(row.report)
    report = ImportReport(
        row.row_count,
        row.stored,
        known.get("errorCount", 0),
        tuple(RowError(*one) for one in _listed(known, "errors")),
        known.get("encoding", ""),
        tuple(_listed(known, "passedOver")),
        known.get("duplicates", 0),
        known.get("skipped", 0),
        tuple(Duplicate(*one) for one in _listed(known, "duplicateRows")),
        row.id,
        known.get("delimiter", ""),
        known.get("suppressed", 0),
        known.get("emptied", 0),
        tuple(SuppressedRow(*one) for one in _listed(known, "suppressedRows")),
        known.get("notices", 0),
        tuple(RowNotice(*one) for one in _listed(known, "noticeRows")),
    )
    return Import(
        id=row.id,
        who=row.who,
        file_name=row.file_name,
        sender=row.sender,
        state=ImportState(row.state),
        rows=row.row_count,
        expected=row.expected,
        stored=row.stored,
        created_on=row.created_on,
        ended_on=row.ended_on,
        ended_by=row.ended_by,
        report=report,
        messages=messages,
    )


def _listed(known: dict[str, Any], name: str) -> Sequence[Any]:
    listed: Sequence[Any] = known.get(name, ())
    return listed
