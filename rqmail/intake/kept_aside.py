"""What the check of a file keeps aside, in parts, until it is stored or somebody has seen what is wrong with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from uuid_utils import uuid7

from rqmail.clock import Clock
from rqmail.intake.draft import Intake
from rqmail.intake.imported import remembered
from rqmail.intake.reports import BadRow, ImportReport
from rqmail.models import importing
from rqmail.models.importing import ImportState
from rqmail.models.message import NewMessage

#: A part holds so many rows at most, and so many characters: this long SQLite's only writer is taken, and so much is
#: in memory.
PART_ROWS = 1_000
PART_CHARACTERS = 4_000_000

#: After so long without a part, whoever checked or stored an import is taken for dead.
LEASE = timedelta(minutes=10)


class KeptAside:
    """What a check keeps aside: all messages of a file, or, from the first bad row on, its bad rows only.

    A file without any is ``afterwards`` CHECKED, or on its way into the table (STORING) at once.
    """

    def __init__(
        self, clock: Clock, intake: Intake, who: str, file_name: str, sender: str, afterwards: ImportState
    ) -> None:
        self.id = str(uuid7())
        self._clock = clock
        self._intake = intake
        self._who = who
        self._file_name = file_name.replace("\x00", "")[:500].encode(errors="replace").decode()
        self._sender = sender
        self._afterwards = afterwards
        self._begun = False
        self._refused = False
        self._part: list[Any] = []
        self._characters = 0
        self._number = 0

    def add_message(self, message: NewMessage) -> None:
        """Keep a message, unless the file has a bad row."""
        if not self._refused:
            self._add(message, len(message.text or "") + len(message.html or ""))

    def add_bad_row(self, row: BadRow) -> None:
        """Keep a bad row; with the first one the messages kept so far are dropped."""
        if not self._refused:
            self._refused = True
            self._part, self._characters, self._number = [], 0, 0
            if self._begun:
                importing.drop_parts(self.id)
        error = row.error
        self._add((row.header, row.cells, error.row, error.field, error.message), sum(map(len, row.cells)))

    def end(self, report: ImportReport) -> ImportReport:
        """Write down what the check found; answer the report with the id of the import."""
        self._flush()
        state = ImportState.REFUSED if report.error_count else self._afterwards
        importing.end_check(
            self.id,
            state,
            rows=report.rows,
            expected=0 if report.error_count else report.rows - report.skipped - report.emptied,
            report=remembered(report),
            now=self._clock(),
            lease_until=self._clock() + LEASE,
        )
        return replace(report, import_id=self.id)

    def forget(self) -> None:
        """Drop everything: the check did not come to its end."""
        if self._begun:
            importing.forget(self.id)

    def _add(self, one: object, characters: int) -> None:
        self._part.append(one)
        self._characters += characters
        if len(self._part) >= PART_ROWS or self._characters >= PART_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if not self._part:
            return
        if not self._begun:
            now = self._clock()
            importing.begin(self.id, self._who, self._file_name, self._sender, now=now, lease_until=now + LEASE)
            self._begun = True
        self._number += 1
        if self._refused:
            importing.keep_bad_rows(self.id, self._number, self._part, lease_until=self._clock() + LEASE)
        else:
            self._intake.keep_files(self._part)
            importing.keep_messages(self.id, self._number, self._part, lease_until=self._clock() + LEASE)
        self._part, self._characters = [], 0
