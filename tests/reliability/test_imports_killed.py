"""Killed at any step of an import or its undoing: all of it in the end, or nothing, and the import is known."""

from __future__ import annotations

import io
import signal

import pytest

from reliability.dying import IMPORTED, IMPORTED_ROWS, Moment, die_at
from reliability.running import RunningClock
from rqmail.intake.draft import Intake
from rqmail.intake.importing import Imports, ImportState
from rqmail.models.importing import ImportPart, MessageImport
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageContent, Recipient

#: Every step of an import in order, and the function before or after which the process is gone.
CHECKING = {
    "nothing written": Moment("importer", "before", "rqmail.models.importing:begin"),
    "begun": Moment("importer", "after", "rqmail.models.importing:begin"),
    "a part kept, not committed": Moment("importer", "before", "rqmail.models.importing:ImportPart.insert"),
    "a part kept": Moment("importer", "after", "rqmail.models.importing:keep_messages"),
    "before it is said to be good": Moment("importer", "before", "rqmail.models.importing:end_check"),
}
STORING = {
    "good": Moment("importer", "after", "rqmail.models.importing:end_check"),
    "a part stored, not committed": Moment("importer", "after", "rqmail.models.message:Message.submit"),
    "a part stored": Moment("importer", "after", "rqmail.models.importing:store_next"),
    "before it is announced": Moment("importer", "before", "rqmail.intake.draft:Intake.announce"),
    "all stored": Moment("importer", "after", "rqmail.intake.importing:Imports._store"),
}


@pytest.fixture
def clock():
    return RunningClock()


@pytest.fixture
def imports(database, clock):
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return Imports(clock, Intake(clock, lambda: None))


@pytest.fixture
def killed(database, redis_url):
    """Let a process of its own live until the moment at which it is killed."""
    environment = {"RQMAIL_DATABASE_URL": database.url, "RQMAIL_REDIS_URL": redis_url}

    def killed(moment):
        assert die_at(moment, environment) == -signal.SIGKILL

    return killed


def count():
    return tuple(table.select().count() for table in (Message, MessageContent, Recipient))


@pytest.mark.parametrize("moment", CHECKING.values(), ids=CHECKING)
def test_killed_while_the_file_is_checked_nothing_of_it_is_left(imports, clock, killed, moment):
    killed(moment)
    assert count() == (0, 0, 0)
    clock.advance(minutes=11)
    imports.recover()
    assert (MessageImport.select().count(), ImportPart.select().count(), count()) == (0, 0, (0, 0, 0))


@pytest.mark.parametrize("moment", STORING.values(), ids=STORING)
def test_killed_while_it_is_stored_an_import_is_finished_by_recovery(imports, clock, killed, moment):
    killed(moment)
    [known] = imports.recent()
    assert known.stored == Message.select().count()
    clock.advance(minutes=11)
    imports.recover()
    found = imports.find(known.id)
    assert (found.state, found.stored, found.messages) == (
        ImportState.DONE,
        IMPORTED_ROWS,
        {"SCHEDULED": IMPORTED_ROWS},
    )
    assert count() == (IMPORTED_ROWS, IMPORTED_ROWS, IMPORTED_ROWS)
    assert ImportPart.select().count() == 0


@pytest.mark.parametrize(
    ("where", "when", "state", "status"),
    [
        ("rqmail.models.message:Message.cancel_import", "after", ImportState.DONE, "SCHEDULED"),
        ("rqmail.administration.changes:Changes.undo_import", "after", ImportState.UNDONE, "CANCELLED"),
    ],
    ids=["not committed", "committed"],
)
def test_killed_while_it_is_undone_an_import_is_as_before_or_undone_whole(imports, killed, where, when, state, status):
    report = imports.take(io.BytesIO(IMPORTED), "mailbox:news")
    killed(Moment("undoer", when, where))
    found = imports.find(report.import_id)
    assert (found.state, found.messages) == (state, {status: IMPORTED_ROWS})
