"""What came to its end long ago is forgotten, and nothing that a window still needs."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest

from rqmail.administration.audit import Audit
from rqmail.content_store import ContentStore
from rqmail.delivery.retention import KEPT_FOR_THE_WINDOWS, Purged, Retention
from rqmail.intake.draft import Intake
from rqmail.intake.importing import Imports
from rqmail.models.importing import ImportPart, MessageImport
from rqmail.models.ledger import sends_since
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus
from support.clock import START
from support.messages import ATTEMPT, MAILBOX, message_in, submitted

S = MessageStatus
DAY = timedelta(days=1)


def days(number: float) -> timedelta:
    return DAY * number


@pytest.fixture
def retention(clock) -> Retention:
    return Retention(clock, ContentStore(clock))


ENDS = {
    S.SENT: lambda message, now: message.mark_sent(now, ATTEMPT),
    S.ERROR: lambda message, now: message.mark_error("no", ATTEMPT, now=now),
    S.CANCELLED: lambda message, now: Message.cancel([message.id], now, "sanne"),
    S.EXPIRED: lambda message, now: Message.expire(message.id, now),
}


@pytest.mark.parametrize("status", ENDS)
def test_age_counts_from_the_end_however_long_ago_a_message_was_handed_in(database, retention, clock, status):
    begun = S.SENDING if status in {S.SENT, S.ERROR} else S.SCHEDULED
    message = message_in(begun, now=START - days(30))
    assert ENDS[status](message, START)
    assert Message.get_by_id(message.id).ended_on == START
    clock.advance(days(3) - timedelta(minutes=1))
    assert (retention.count(days(3)).messages, retention.purge(days(3)).messages) == (0, 0)
    clock.advance(minutes=2)
    assert (retention.count(days(3)).messages, retention.purge(days(3)).messages) == (1, 1)


def test_a_message_sent_again_is_forgotten_from_its_second_end(database, retention, clock):
    message = message_in(S.SENDING)
    message.mark_error("no", ATTEMPT, now=START)
    Message.requeue([message.id], clock.advance(days(3)), "sanne")
    assert Message.get_by_id(message.id).ended_on is None
    Message.cancel([message.id], clock.advance(days(1)), "sanne")
    clock.advance(days(1))
    assert retention.count(days(2)).messages == 0


def test_a_message_cancelled_long_before_it_was_due_is_forgotten_from_then(database, retention, clock):
    [message_id] = submitted()
    Message.update(scheduled_on=START + days(90)).where(Message.id == message_id).execute()
    Message.cancel([message_id], START, "sanne")
    clock.advance(days(4))
    assert retention.purge(days(3)).messages == 1


@pytest.mark.parametrize("asked", [timedelta(0), timedelta(hours=1), days(1)])
def test_what_a_window_of_a_day_still_counts_is_kept_whatever_is_asked_for(database, retention, clock, asked):
    message = message_in(S.SENDING)
    message.mark_sent(START, ATTEMPT)
    clock.advance(days(1) + timedelta(minutes=5))
    assert retention.purge(asked).messages == 0
    assert len(sends_since(MAILBOX, clock() - days(1) - timedelta(hours=1))) == 1
    clock.advance(KEPT_FOR_THE_WINDOWS - days(1))
    assert retention.purge(asked).messages == 1


def test_ends_that_nobody_dated_count_from_the_last_thing_known(database, retention, clock):
    message_in(S.SENT, now=START - days(30), sent_on=START, attempted_on=START - days(30))
    message_in(S.ERROR, now=START - days(30), attempted_on=START)
    clock.advance(days(2))
    assert retention.purge(days(3)).messages == 0
    clock.advance(days(2))
    assert retention.purge(days(3)).messages == 2


# --- what was written down about them ------------------------------------------------------------------------------


@pytest.fixture
def imports(database, clock) -> Imports:
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return Imports(clock, Intake(clock, lambda: None)).by("sanne")


def file_of(*rows: str) -> io.BytesIO:
    return io.BytesIO("\n".join(["to,subject,text,at", *rows]).encode())


SOON = "a@x.nl,Hoi,dag,"
NEXT_YEAR = "b@x.nl,Hoi,dag,2027-03-01T00:00Z"


def test_the_record_of_an_import_goes_with_the_last_of_its_messages(retention, imports, clock):
    imports.take(file_of(SOON, SOON), "mailbox:news")
    first, second = (one.id for one in Message.select().order_by(Message.id))
    Message.cancel([first], clock(), "sanne")
    Message.cancel([second], clock.advance(days(2)), "sanne")
    clock.advance(days(2))
    assert (retention.count(days(3)), retention.purge(days(3))) == (Purged(1), Purged(1))
    assert MessageImport.select().count() == 1
    clock.advance(days(2))
    assert (retention.count(days(3)), retention.purge(days(3))) == (Purged(1, 1), Purged(1, 1))
    assert MessageImport.select().count() == 0


def test_an_import_is_remembered_while_a_message_of_it_waits_and_as_long_as_it_can_be_undone(retention, imports, clock):
    waits = imports.take(file_of(SOON, NEXT_YEAR), "mailbox:news").import_id
    undoable = imports.take(file_of(NEXT_YEAR), "mailbox:news").import_id
    Message.cancel([Message.select().order_by(Message.id).first().id], clock(), "sanne")
    clock.advance(days(90))
    assert retention.purge(days(3)) == Purged(1, 0)
    assert [one.id for one in imports.recent()] == [undoable, waits]
    assert imports.undo(undoable) == 1


def test_of_imports_that_have_not_ended_nothing_is_forgotten_and_of_refused_and_undone_ones_all(
    retention, imports, clock
):
    checked = imports.check(file_of(SOON), "mailbox:news").import_id
    storing = imports.check(file_of(SOON), "mailbox:news").import_id
    MessageImport.update(state="STORING").where(MessageImport.id == storing).execute()
    imports.check(file_of("jan,s,t,"), "mailbox:news")
    imports.undo(imports.take(file_of(SOON), "mailbox:news").import_id)
    clock.advance(days(4))
    assert retention.purge(days(3)) == Purged(1, 2)
    assert {one.import_id for one in ImportPart.select()} == {checked, storing}
    assert {one.id for one in MessageImport.select()} == {checked, storing}


def test_a_pass_by_the_settings_deletes_messages_imports_and_entries_of_the_audit_each_by_its_own_time(
    database, clock, imports
):
    audit = Audit(clock)
    for subject in ("mailbox:old", "mailbox:new"):
        with audit.change("sanne", "mailbox.set", subject):
            pass
        clock.advance(days(1))
    imports.undo(imports.take(file_of(SOON), "mailbox:news").import_id)
    kept = Retention(clock, ContentStore(clock))
    assert (kept.run(dry_run=True), kept.run()) == (Purged(), Purged())
    both = Retention(clock, ContentStore(clock), messages_for=days(9), audit_for=days(1.5))
    assert (both.run(dry_run=True), both.run()) == (Purged(audit_entries=1), Purged(audit_entries=1))
    assert [line.subject for line in audit.lines()] == ["mailbox:new"]
    clock.advance(days(10))
    assert (both.run(dry_run=True), both.run()) == (Purged(1, 1, 1), Purged(1, 1, 1))
