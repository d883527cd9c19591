"""Imports: a file is checked as a whole, kept aside in parts, and only then becomes messages, a part a transaction.

Sending goes on meanwhile, an import can be undone while nothing of it has been sent, and one that its process left
behind is finished by whoever finds it: everything it needs is in the database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import IO

from rqmail.clock import Clock
from rqmail.intake.draft import Intake, is_due
from rqmail.intake.files import MAX_ERRORS_TOLD, FileCheck, Reading
from rqmail.intake.imported import Import, seen
from rqmail.intake.kept_aside import LEASE, KeptAside
from rqmail.intake.reports import BadRow, ImportReport, RowError
from rqmail.logs import event_log
from rqmail.models import importing
from rqmail.models.importing import ImportState
from rqmail.models.message import NewMessage

__all__ = ["Import", "ImportState", "Imports", "Recovered"]

log = event_log()

#: What was checked and never stored, and what is wrong with a refused file, is kept for so long.
KEPT_ASIDE = timedelta(days=7)

#: Errors and duplicates of a file that are remembered one by one; the rest is counted. The bad rows are all kept.
MOST_REMEMBERED = 1_000

#: Parts that one pass of recovery stores at most: a tick must not wait long behind it.
_PARTS_A_PASS = 10

Progress = Callable[[str, int, float], None]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one pass over the imports did: messages stored, checks forgotten that their process left behind."""

    stored: int = 0
    forgotten: int = 0


class Imports:
    """Takes files of messages in; ``who`` is written down as the one who handed them in."""

    def __init__(self, clock: Clock, intake: Intake, *, who: str = "unknown") -> None:
        self._clock = clock
        self._intake = intake
        self._who = who

    def by(self, who: str) -> Imports:
        """Answer the same imports in somebody's name."""
        return Imports(self._clock, self._intake.by(who), who=who)

    def take(
        self,
        file: IO[bytes],
        sender: str,
        reading: Reading | None = None,
        *,
        name: str = "",
        dry_run: bool = False,
        skip_duplicates: bool = False,
        ignore_unsubscribed: bool = False,
        errors_told: int = MAX_ERRORS_TOLD,
        on_bad_row: Callable[[BadRow], None] = lambda _row: None,
        on_progress: Progress = lambda _stage, _rows, _share: None,
    ) -> ImportReport:
        """Store every row of ``file`` as a message from ``sender``, all or none; with ``dry_run`` it is only checked.

        ``on_progress`` hears ``check`` or ``store``, the rows so far and the share of the work, 0 to 1. Raises
        ``InvalidInputError`` when the file cannot be read at all.
        """
        aside = None if dry_run else KeptAside(self._clock, self._intake, self._who, name, sender, ImportState.STORING)
        check = FileCheck(
            self._intake.checks(), sender, reading or Reading(), skip_duplicates, ignore_unsubscribed, MOST_REMEMBERED
        )
        report = _told(_checked(check, file, aside, on_bad_row, on_progress), errors_told)
        if report.error_count or report.import_id is None:
            return report
        return replace(report, stored=self._store(report.import_id, on_progress))

    def check(
        self,
        file: IO[bytes],
        sender: str,
        reading: Reading | None = None,
        *,
        name: str = "",
        skip_duplicates: bool = False,
        ignore_unsubscribed: bool = False,
        errors_told: int = MAX_ERRORS_TOLD,
        on_progress: Progress = lambda _stage, _rows, _share: None,
    ) -> ImportReport:
        """Check every row of ``file``, and keep aside what :meth:`store` needs under the report's ``import_id``.

        The import is CHECKED then, or REFUSED with its bad rows when there is one.
        """
        aside = KeptAside(self._clock, self._intake, self._who, name, sender, ImportState.CHECKED)
        check = FileCheck(
            self._intake.checks(), sender, reading or Reading(), skip_duplicates, ignore_unsubscribed, MOST_REMEMBERED
        )
        return _told(_checked(check, file, aside, lambda _row: None, on_progress), errors_told)

    def store(self, import_id: str, on_progress: Progress = lambda _stage, _rows, _share: None) -> int:
        """Make a CHECKED import's rows messages, and answer how many have been by then: fewer when it was undone.

        Raises ``ConflictError`` for an import in another state.
        """
        importing.begin_storing(import_id, lease_until=self._clock() + LEASE)
        return self._store(import_id, on_progress)

    def store_in_background(self, import_id: str) -> None:
        """Begin to store a CHECKED import, and answer at once: :meth:`find` tells how far it is.

        Should this process end before, recovery goes on with it.
        """
        importing.begin_storing(import_id, lease_until=self._clock() + LEASE)

        def go_on() -> None:
            try:
                self._store(import_id)
            except Exception:
                log.exception("mail.import.failed", importId=import_id)

        threading.Thread(target=go_on, name="rqmail-import", daemon=True).start()

    def undo(self, import_id: str) -> int:
        """Cancel every message of an import, and answer how many they were.

        Raises ``ConflictError`` when one of them has been sent, or may have been: then nothing is changed.
        """
        return importing.undo(import_id, now=self._clock(), by=self._who)

    def find(self, import_id: str) -> Import:
        """Answer an import; raises ``NotFoundError`` when there is none of this id."""
        return seen(importing.find(import_id), importing.count_by_status(import_id))

    def recent(self, *, limit: int = 50, after: str | None = None) -> list[Import]:
        """List imports, newest first; ``after`` is the id of the last one already seen.

        Their ``messages`` are not counted: :meth:`find` does.
        """
        return [seen(row, {}) for row in importing.recent(limit=limit, after=after)]

    def first_messages(self, import_id: str, number: int = 5) -> list[NewMessage]:
        """Answer the first messages of a CHECKED import, as they will be stored."""
        return importing.kept_messages(import_id, 1)[:number]

    def bad_rows(self, import_id: str) -> Iterator[BadRow]:
        """Answer every bad row of a REFUSED import, a part in memory at a time; none of any other."""
        if importing.find(import_id).state != ImportState.REFUSED.value:
            return
        number = 1
        while (part := importing.bad_rows(import_id, number)) is not None:
            for header, cells, *error in part:
                yield BadRow(tuple(header), tuple(cells), RowError(*error))
            number += 1

    def recover(self) -> Recovered:
        """Go on with what its process left behind, and forget what nobody came back for; harmless beside another."""
        now = self._clock()
        forgotten = [
            *importing.left_behind(ImportState.CHECKING, now),
            *importing.checked_before(now - KEPT_ASIDE),
        ]
        for import_id in forgotten:
            importing.forget(import_id)
        importing.drop_bad_rows(now - KEPT_ASIDE)
        stored, parts = 0, _PARTS_A_PASS
        for import_id in importing.left_behind(ImportState.STORING, now):
            while parts and (more := self._store_part(import_id, left_behind=True)) is not None:
                stored, parts = stored + more, parts - 1
        recovered = Recovered(stored, len(forgotten))
        if recovered != Recovered():
            log.info("mail.import.recovered", stored=stored, forgotten=len(forgotten))
        return recovered

    def _store(self, import_id: str, on_progress: Progress = lambda _stage, _rows, _share: None) -> int:
        expected = importing.find(import_id).expected
        stored = 0
        while (more := self._store_part(import_id)) is not None:
            stored += more
            on_progress("store", stored, stored / max(1, expected))
        return importing.find(import_id).stored

    def _store_part(self, import_id: str, *, left_behind: bool = False) -> int | None:
        now = self._clock()
        messages = importing.store_next(import_id, now=now, lease_until=now if left_behind else now + LEASE)
        if messages is None:
            return None
        self._intake.announce(due=any(is_due(message, now) for message in messages))
        return len(messages)


def _checked(
    check: FileCheck,
    file: IO[bytes],
    aside: KeptAside | None,
    on_bad_row: Callable[[BadRow], None],
    on_progress: Progress,
) -> ImportReport:
    if aside is None:
        return check.run(file, lambda _message: None, on_bad_row, on_progress)

    def bad(row: BadRow) -> None:
        aside.add_bad_row(row)
        on_bad_row(row)

    try:
        return aside.end(check.run(file, aside.add_message, bad, on_progress))
    except BaseException:
        aside.forget()
        raise


def _told(report: ImportReport, number: int) -> ImportReport:
    return replace(
        report,
        errors=report.errors[:number],
        duplicate_rows=report.duplicate_rows[:number],
        suppressed_rows=report.suppressed_rows[:number],
        notice_rows=report.notice_rows[:number],
    )
