"""Imports: checked as a whole, stored a part at a time, undone while nothing has been sent, finished by recovery."""

import io
import sqlite3
from datetime import timedelta

import psycopg
import pytest

from rqmail.errors import ConflictError, NotFoundError
from rqmail.intake.draft import Intake
from rqmail.intake.importing import KEPT_ASIDE, Imports, ImportState
from rqmail.models import importing
from rqmail.models.contents import load_contents
from rqmail.models.importing import ImportPart, MessageImport
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus
from support.messages import submitted
from support.statements import plan, recorded, walks

SENDER = "mailbox:news"
PART_ROWS = 500
S = MessageStatus


@pytest.fixture
def nudges():
    return []


@pytest.fixture
def imports(database, clock, nudges, monkeypatch):
    monkeypatch.setattr("rqmail.intake.kept_aside.PART_ROWS", PART_ROWS)
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return Imports(clock, Intake(clock, lambda: nudges.append(1))).by("sanne")


def file_of(rows, head="to,subject,text\n"):
    lines = rows if isinstance(rows, list) else [f"a{n}@x.nl,Hoi {n},dag" for n in range(rows)]
    return io.BytesIO((head + "\n".join(lines) + "\n").encode())


def state(import_id):
    return importing.find(import_id).state


def test_another_process_writes_between_the_parts_of_an_import(database, imports, clock):
    [other] = submitted()
    db_file = database.url.removeprefix("sqlite:///")
    seen = []

    def write(stage, rows, _share):
        if database.kind == "sqlite":
            connection = sqlite3.connect(db_file, timeout=0, isolation_level=None)
        else:
            connection = psycopg.connect(database.url, autocommit=True, options="-c lock_timeout=1ms")
        connection.execute(f"UPDATE message SET attempts = attempts + 1 WHERE id = '{other}'")
        stored = connection.execute("SELECT COUNT(*) FROM message WHERE import_id IS NOT NULL").fetchone()[0]
        connection.close()
        seen.append((stage, rows, stored))

    report = imports.take(file_of(2 * PART_ROWS + 1), SENDER, on_progress=write)
    assert report.stored == 2 * PART_ROWS + 1
    assert seen == [
        ("check", 1000, 0),
        *(("store", n, n) for n in (PART_ROWS, 2 * PART_ROWS, 2 * PART_ROWS + 1)),
    ]  # fmt: skip
    assert ImportPart.select().count() == 0


def test_what_is_stored_says_everything_the_file_says_in_its_order_and_who_handed_it_in(imports, nudges):
    head = "to,cc,subject,text,html,at,priority,expires\n"
    report = imports.take(
        file_of(["Jörg <j@x.de>,c@x.nl,Één,t,<p>x</p>,2026-05-01T00:00Z,low,2027-01-01T00:00Z",
                 "b@x.nl,,twee,t,,,high,"], head), SENDER, name="list.csv",
    )  # fmt: skip
    first, second = Message.select().order_by(Message.id)
    assert (first.subject, first.recipient_count, first.import_id) == ("Één", 2, report.import_id)
    assert (first.requested_on.isoformat(), first.expires_on.isoformat()) == (
        "2026-05-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00",
    )  # fmt: skip
    assert [(to.kind.value, to.name, to.address) for to in load_contents([first.id])[first.id].recipients] == [
        ("to", "Jörg", "j@x.de"), ("cc", "", "c@x.nl"),
    ]  # fmt: skip
    assert (first.events[0]["what"], first.events[0]["by"]) == ("handed-in", "sanne")
    assert (second.subject, nudges) == ("twee", [1])
    found = imports.find(report.import_id)
    assert (found.who, found.file_name, found.state, found.stored) == ("sanne", "list.csv", ImportState.DONE, 2)
    assert found.messages == {"SCHEDULED": 2}
    assert [one.id for one in imports.recent()] == [report.import_id]


def test_a_checked_file_waits_until_it_is_stored_and_its_first_messages_can_be_seen(imports):
    report = imports.check(file_of(7), SENDER)
    assert Message.select().count() == 0
    assert imports.find(report.import_id).state == ImportState.CHECKED
    assert [message.subject for message in imports.first_messages(report.import_id, 2)] == ["Hoi 0", "Hoi 1"]
    assert imports.store(report.import_id) == 7
    with pytest.raises(ConflictError, match="DONE"):
        imports.store(report.import_id)
    assert Message.select().count() == 7


def test_a_file_is_stored_in_the_background_and_its_progress_can_be_asked(imports, monkeypatch):
    report = imports.check(file_of(3), SENDER)
    monkeypatch.setattr("threading.Thread.start", lambda thread: thread.run())
    imports.store_in_background(report.import_id)
    found = imports.find(report.import_id)
    assert (found.state, found.stored, found.expected) == (ImportState.DONE, 3, 3)


def test_of_a_file_with_a_bad_row_nothing_is_kept_but_every_bad_row(imports):
    rows = [f"a{n}@x.nl,s,t" for n in range(PART_ROWS + 5)] + ["jan,s,t"] * (PART_ROWS + 5) + ["a@x.nl,s,t"]
    report = imports.take(file_of(rows), SENDER)
    assert (report.stored, report.error_count, Message.select().count()) == (0, PART_ROWS + 5, 0)
    bad = list(imports.bad_rows(report.import_id))
    assert len(bad) == PART_ROWS + 5
    assert (bad[-1].header, bad[-1].cells, bad[-1].error.row) == (
        ("to", "subject", "text"), ("jan", "s", "t"), 2 * PART_ROWS + 11,
    )  # fmt: skip
    found = imports.find(report.import_id)
    assert (found.state, found.report.error_count, len(found.report.errors)) == (
        "REFUSED",
        PART_ROWS + 5,
        PART_ROWS + 5,
    )
    with pytest.raises(ConflictError, match="REFUSED"):
        imports.undo(report.import_id)


def test_a_dry_run_and_a_file_that_cannot_be_read_leave_nothing_behind(imports):
    assert imports.take(file_of(3), SENDER, dry_run=True).import_id is None
    with pytest.raises(Exception, match="header"):
        imports.take(io.BytesIO(b"%PDF-1.4 \xff\xfe"), SENDER)
    assert (MessageImport.select().count(), ImportPart.select().count()) == (0, 0)


def test_duplicates_are_told_by_their_rows(imports):
    report = imports.take(file_of(["a@x.nl,1,t", "b@x.nl,2,t", "A@x.nl,3,t"]), SENDER, skip_duplicates=True)
    assert [(one.row, one.address) for one in report.duplicate_rows] == [(4, "A@x.nl")]
    assert (report.stored, imports.find(report.import_id).report.duplicate_rows) == (2, report.duplicate_rows)


# --- undoing -------------------------------------------------------------------------------------------------------


def test_an_import_is_undone_while_nothing_of_it_has_been_sent(imports, clock):
    [other] = submitted()
    report = imports.take(file_of(3), SENDER)
    clock.advance(seconds=1)
    [queued] = Message.claim_due(
        SENDER, 1, now=clock(), calls=2, recipients=None, job_id="job-1", lease=timedelta(minutes=1)
    )[1:]
    assert imports.undo(report.import_id) == 3
    assert Message.get_by_id(other).status != S.CANCELLED
    found = imports.find(report.import_id)
    assert (found.state, found.ended_by, found.messages) == (ImportState.UNDONE, "sanne", {"CANCELLED": 3})
    assert Message.get_by_id(queued.id).events[-1]["detail"] == "Its import was undone."
    with pytest.raises(ConflictError, match="UNDONE"):
        imports.undo(report.import_id)


@pytest.mark.parametrize("status", [S.SENDING, S.SENT, S.ERROR, S.UNKNOWN])
def test_once_sending_has_begun_an_undo_is_refused_and_changes_nothing(imports, status):
    report = imports.take(file_of(3), SENDER)
    first = Message.select().order_by(Message.id).first()
    Message.update(status=status.value).where(Message.id == first.id).execute()
    with pytest.raises(ConflictError, match=f"sending has begun: of 3 messages 1 {status}"):
        imports.undo(report.import_id)
    assert imports.find(report.import_id).messages == {"SCHEDULED": 2, status.value: 1}
    assert state(report.import_id) == ImportState.DONE


def test_messages_that_were_sent_and_deleted_since_keep_an_import_from_being_undone(imports):
    report = imports.take(file_of(3), SENDER)
    Message.delete().where(Message.id == Message.select().first().id).execute()
    with pytest.raises(ConflictError, match="1 deleted"):
        imports.undo(report.import_id)


def test_what_a_person_cancelled_does_not_keep_an_import_from_being_undone(imports, clock):
    report = imports.take(file_of(3), SENDER)
    Message.cancel([Message.select().first().id], clock(), "jan")
    assert imports.undo(report.import_id) == 2


def test_an_import_that_is_undone_while_it_is_stored_stops_there(imports):
    report = imports.check(file_of(3 * PART_ROWS), SENDER)

    def undo(_stage, stored, _share):
        if stored == PART_ROWS:
            assert imports.undo(report.import_id) == PART_ROWS

    assert imports.store(report.import_id, undo) == PART_ROWS
    assert imports.find(report.import_id).messages == {"CANCELLED": PART_ROWS}
    assert ImportPart.select().count() == 0


def test_an_import_that_nobody_knows_is_named(imports):
    for ask in (imports.find, imports.undo, imports.store, lambda one: list(imports.bad_rows(one))):
        with pytest.raises(NotFoundError, match="nothing"):
            ask("nothing")


# --- left behind ---------------------------------------------------------------------------------------------------


def left_behind_after(imports, parts):
    """An import whose process ended when so many parts had been stored."""
    report = imports.check(file_of(2 * PART_ROWS + 3), SENDER)

    def die(_stage, stored, _share):
        if stored == parts * PART_ROWS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imports.store(report.import_id, die)
    return report.import_id


def test_recovery_finishes_what_its_process_left_behind_and_leaves_alone_who_is_at_it(imports, clock):
    import_id = left_behind_after(imports, 1)
    assert imports.recover().stored == 0
    clock.advance(minutes=11)
    assert imports.recover().stored == PART_ROWS + 3
    found = imports.find(import_id)
    assert (found.state, found.messages) == (ImportState.DONE, {"SCHEDULED": 2 * PART_ROWS + 3})
    subjects = [row.subject for row in Message.select().order_by(Message.id)]
    assert subjects == [f"Hoi {n}" for n in range(2 * PART_ROWS + 3)]


def test_recovery_stores_no_more_in_a_pass_than_a_tick_can_wait_for(imports, clock, monkeypatch):
    monkeypatch.setattr("rqmail.intake.importing._PARTS_A_PASS", 1)
    import_id = left_behind_after(imports, 1)
    clock.advance(minutes=11)
    assert [imports.recover().stored for _ in range(3)] == [PART_ROWS, 3, 0]
    assert imports.find(import_id).state == ImportState.DONE


def test_two_that_store_the_same_import_store_each_message_once(imports, clock):
    report = imports.check(file_of(2 * PART_ROWS + 3), SENDER)
    clock.advance(minutes=11)

    def another(_stage, stored, _share):
        if stored == PART_ROWS:
            clock.advance(minutes=11)
            imports.recover()

    imports.store(report.import_id, another)
    assert imports.find(report.import_id).messages == {"SCHEDULED": 2 * PART_ROWS + 3}


def test_a_check_that_its_process_left_behind_is_forgotten(imports, clock, monkeypatch):
    monkeypatch.setattr(importing, "forget", lambda _id: None)  # as if the process were gone by then
    with pytest.raises(KeyboardInterrupt):
        imports.check(file_of(3 * PART_ROWS), SENDER, on_progress=_dies_at(2 * PART_ROWS))
    monkeypatch.undo()
    assert state(MessageImport.get().id) == ImportState.CHECKING
    assert imports.recent() == []
    assert imports.recover().forgotten == 0
    clock.advance(minutes=11)
    assert imports.recover().forgotten == 1
    assert (MessageImport.select().count(), ImportPart.select().count()) == (0, 0)


def _dies_at(rows):
    def on_progress(_stage, so_far, _share):
        if so_far == rows:
            raise KeyboardInterrupt

    return on_progress


def test_what_was_only_checked_is_forgotten_after_a_week_and_so_are_the_bad_rows_of_a_refused_file(imports, clock):
    checked = imports.check(file_of(2), SENDER).import_id
    refused = imports.check(file_of(["jan,s,t"]), SENDER).import_id
    imports.recover()
    assert ImportPart.select().count() == 2
    clock.advance(KEPT_ASIDE + timedelta(minutes=1))
    imports.recover()
    assert ImportPart.select().count() == 0
    assert [one.id for one in imports.recent()] == [refused] != [checked]
    assert imports.recent()[0].report.errors[0].field == "to"


def test_what_is_asked_about_an_import_is_answered_by_index(imports, clock):
    report = imports.take(file_of(3), SENDER)
    with recorded() as statements:
        importing.count_by_status(report.import_id)
        importing.left_behind(ImportState.STORING, clock())
        Message.cancel_import(report.import_id, clock(), "sanne")
    assert len(statements) == 3
    for sql, params in statements:
        assert not [step for step in plan(sql, params) if walks(step)], sql
