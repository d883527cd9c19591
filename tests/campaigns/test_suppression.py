"""Who is on the suppression list gets no mail: through no door, and not from a message that waited already."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta

import pytest

from rqmail.campaigns.suppression import Suppressions, place
from rqmail.delivery.leaving_out import NobodyLeftError, look, without_suppressed
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.intake.draft import Draft, Intake
from rqmail.intake.importing import Imports
from rqmail.intake.suppressed import AllSuppressedError
from rqmail.models.contents import load_contents
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, MessageStatus, Recipient
from rqmail.models.recipients import results_of
from support.clock import START, MovableClock
from support.databases import BoundDatabase
from support.messages import message_in, reloaded
from support.statements import plan, recorded


@pytest.fixture
def suppressions(database: BoundDatabase, clock: MovableClock) -> Suppressions:
    now = {"created_on": START, "changed_on": START}
    SystemMailbox.create(key="news", address="news@contoso.example", **now)
    TenantMailSetting.create(key="acme", provider="microsoft-graph", address="post@acme.example", **now)
    return Suppressions(clock)


@pytest.fixture
def intake(clock: MovableClock) -> Iterator[Intake]:
    return Intake(clock, lambda: None)


def draft(to: str, sender: str = "mailbox:news", **fields: object) -> Draft:
    return Draft(sender, "Hello", to=to, text="Hi.", **fields)  # type: ignore[arg-type]


def recipients_of(message_id: str) -> list[str]:
    return [row.address for row in Recipient.select().where(Recipient.message == message_id)]


def file(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode())


# --- the list ------------------------------------------------------------------------------------------------------


def test_an_address_stands_on_the_list_once_in_each_scope_whatever_its_spelling(suppressions: Suppressions) -> None:
    for spelling in ("Jan@Bücher.example", "jan@bücher.example", "JAN@xn--bcher-kva.example"):
        suppressions.add(spelling, source="test")
    suppressions.add("jan@bücher.example", tenant="acme", source="test")
    found = suppressions.find()
    assert [(one.address, one.tenant) for one in found] == [
        ("jan@xn--bcher-kva.example", None),
        ("jan@xn--bcher-kva.example", "acme"),
    ]
    assert suppressions.find(search="Jan@Bücher.example", tenant="acme") == found[1:]


def test_the_harder_reason_stays_and_nobody_forgets_that_somebody_unsubscribed(
    suppressions: Suppressions, clock: MovableClock
) -> None:
    suppressions.add("a@x.nl", reason="unsubscribe", source="a link")
    clock.advance(days=1)
    assert suppressions.add("a@x.nl", reason="hard-bounce", source="a report").reason == "hard-bounce"
    clock.advance(days=1)
    kept = suppressions.add("a@x.nl", reason="manual", source="test")
    assert (kept.reason, kept.source, kept.since) == ("hard-bounce", "a report", START + timedelta(days=1))
    assert kept.unsubscribed_on == START
    assert suppressions.remove("A@x.nl") == kept
    assert suppressions.find() == []
    with pytest.raises(NotFoundError):
        suppressions.remove("a@x.nl")


@pytest.mark.parametrize(
    ("address", "fields", "named"),
    [("jan", {}, "address"), ("a@x.nl", {"tenant": "nobody"}, "tenant"), ("a@x.nl", {"reason": "bored"}, "reason")],
)
def test_what_cannot_stand_on_the_list_is_refused_by_field(
    suppressions: Suppressions, address: str, fields: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        suppressions.add(address, source="test", **fields)  # type: ignore[arg-type]
    assert refused.value.field == named


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a@x.nl\nB@x.nl\n", {"a@x.nl": "import", "b@x.nl": "import"}),
        ("\ufeffE-mail;Naam;Reason\na@x.nl;Jan;hard bounce\nb@x.nl;;\n", {"a@x.nl": "hard-bounce", "b@x.nl": "import"}),
        ("address,since\na@x.nl,2026-01-02T03:04:05Z\nA@X.nl,\n", {"a@x.nl": "import"}),
    ],
)
def test_a_list_of_addresses_is_read_however_it_is_written(
    suppressions: Suppressions, text: str, found: dict[str, str]
) -> None:
    dry = suppressions.take(file(text), source="list", dry_run=True)
    assert suppressions.find() == []
    report = suppressions.take(file(text), source="list")
    assert (report.added, report.errors) == (len(found), ())
    assert dry == report
    assert {one.address: one.reason for one in suppressions.find()} == found
    assert suppressions.take(file(text), source="list").added == 0


def test_a_bad_row_stops_an_import_and_is_told_with_its_number(suppressions: Suppressions) -> None:
    report = suppressions.take(file("address,reason\na@x.nl,manual\njan,manual\nb@x.nl,bored\n"), source="list")
    assert [(one.row, one.field) for one in report.errors] == [(3, "address"), (4, "reason")]
    assert suppressions.find() == []
    for text in ("", "name,city\nJan,Delft\n"):
        with pytest.raises(InvalidInputError):
            suppressions.take(file(text), source="list")


def test_what_is_exported_is_read_again_and_long_lists_come_in_pages(suppressions: Suppressions) -> None:
    suppressions.take(file("\n".join(f"a{n:04}@x.nl" for n in range(1_203))), source="=list", reason="complaint")
    exported = "".join(suppressions.as_csv())
    before = suppressions.find(limit=2_000)
    assert len(before) == 1_203
    for one in before:
        suppressions.remove(one.address)
    assert suppressions.take(file(exported), source="=list").added == 1_203
    assert suppressions.find(limit=2_000) == before
    pages = [first := suppressions.find(limit=700), suppressions.find(limit=700, after=place(first[-1]))]
    assert [len(page) for page in pages] == [700, 503]
    assert pages[0] + pages[1] == before


# --- at intake -----------------------------------------------------------------------------------------------------


def test_a_message_goes_to_its_other_recipients_and_tells_who_is_left_out(
    suppressions: Suppressions, intake: Intake
) -> None:
    suppressions.add("b@x.nl", reason="complaint", source="test")
    [taken] = intake.take([draft("a@x.nl, B@X.nl")])
    assert [(one.address, one.reason, one.since) for one in taken.message.left_out] == [("B@x.nl", "complaint", START)]
    assert recipients_of(taken.message.id) == ["a@x.nl"]
    assert Message.get_by_id(taken.message.id).recipient_count == 1
    [noted] = results_of([taken.message.id])[taken.message.id]
    assert (noted.address, noted.result, noted.code) == ("B@x.nl", "suppressed", "complaint")


def test_a_message_for_nobody_else_is_refused_and_with_it_the_batch(suppressions: Suppressions, intake: Intake) -> None:
    suppressions.add("b@x.nl", source="test")
    with pytest.raises(AllSuppressedError, match=r"to: 'b@x.nl'.*manual since 20"):
        intake.take([draft("a@x.nl"), draft("b@x.nl")])
    assert Message.select().count() == 0


@pytest.mark.parametrize(
    ("reason", "sender", "ignore", "goes"),
    [
        ("unsubscribe", "mailbox:news", False, False),
        ("unsubscribe", "mailbox:news", True, True),
        ("hard-bounce", "mailbox:news", True, False),
        ("complaint", "default", True, False),
    ],
)
def test_mail_that_people_need_goes_to_who_unsubscribed_and_never_past_a_bounce(
    suppressions: Suppressions, intake: Intake, clock: MovableClock, reason: str, sender: str, ignore: bool, goes: bool
) -> None:
    suppressions.add("b@x.nl", reason=reason, source="test")
    wanted = draft("a@x.nl, b@x.nl", sender, ignore_unsubscribed=ignore)
    [message_id] = intake.submit_all([wanted])
    assert ("b@x.nl" in recipients_of(message_id)) is goes
    suppressions.remove("b@x.nl")
    [message_id] = intake.submit_all([wanted])
    suppressions.add("b@x.nl", reason=reason, source="test")
    sent = without_suppressed(reloaded(message_id), load_contents([message_id])[message_id], clock())
    assert sent is not None
    assert ("b@x.nl" in [to.address for to in sent.recipients]) is goes


def test_what_stands_on_a_tenants_list_holds_for_its_mail_alone(suppressions: Suppressions, intake: Intake) -> None:
    suppressions.add("b@x.nl", tenant="acme", source="test")
    ids = intake.submit_all([draft("a@x.nl, b@x.nl", sender) for sender in ("mailbox:news", "tenant:acme")])
    assert [len(recipients_of(one)) for one in ids] == [2, 1]


def test_rows_of_a_file_for_suppressed_people_are_left_out_and_told_by_number(
    suppressions: Suppressions, intake: Intake, clock: MovableClock
) -> None:
    suppressions.add("b@x.nl", source="test")
    rows = "to,subject,text\na@x.nl,s,t\nb@x.nl,s,t\na@x.nl; b@x.nl,s,t\n" + "c@x.nl,s,t\n" * 300
    report = Imports(clock, intake).take(file(rows), "mailbox:news")
    assert (report.rows, report.stored, report.suppressed, report.emptied) == (303, 302, 2, 1)
    assert [(one.row, one.address, one.reason) for one in report.suppressed_rows] == [
        (3, "b@x.nl", "manual"),
        (4, "b@x.nl", "manual"),
    ]
    assert Recipient.select().where(Recipient.address == "b@x.nl").count() == 0
    found = Imports(clock, intake).find(str(report.import_id))
    assert (found.state, found.expected, found.report.suppressed_rows) == ("DONE", 302, report.suppressed_rows)


def test_a_whole_request_costs_one_look_into_an_index(suppressions: Suppressions, intake: Intake) -> None:
    suppressions.take(file("\n".join(f"a{n}@x.nl" for n in range(2_000))), source="list")
    with recorded() as statements:
        intake.checks().check_all([draft(f"r{n}@x.nl, s{n}@x.nl") for n in range(100)])
    assert len([sql for sql, _ in statements if "FROM suppression" in sql]) == 1
    with recorded() as statements:
        intake.checks().check(draft("r@x.nl, s@x.nl"))
    [(sql, params)] = [asked for asked in statements if "FROM suppression" in asked[0]]
    steps = "\n".join(plan(sql, params))
    assert "suppression_pkey" in steps or "sqlite_autoindex_suppression_1" in steps, steps


# --- before it is sent ---------------------------------------------------------------------------------------------


def test_who_is_suppressed_while_a_message_waits_is_left_out_of_it(
    suppressions: Suppressions, intake: Intake, clock: MovableClock
) -> None:
    message_id = intake.submit(draft("a@x.nl, B@x.nl"))
    suppressions.add("b@x.nl", reason="unsubscribe", source="test")
    for _ in range(2):  # whoever sends it again after a crash comes to the same
        sent = without_suppressed(reloaded(message_id), load_contents([message_id])[message_id], clock())
        assert sent is not None
        assert [to.address for to in sent.recipients] == ["a@x.nl"]
    assert [(one.address, one.code) for one in results_of([message_id])[message_id]] == [("B@x.nl", "unsubscribe")]
    suppressions.add("a@x.nl", source="test")
    with pytest.raises(NobodyLeftError, match=r"every recipient is suppressed: a@x.nl \(manual since"):
        without_suppressed(reloaded(message_id), load_contents([message_id])[message_id], clock())


@pytest.mark.parametrize(("later", "left_out"), [(0, False), (0.999, False), (1, True), (-1, True)])
def test_what_was_seen_for_several_messages_at_once_holds_for_less_than_a_second(
    suppressions: Suppressions, intake: Intake, clock: MovableClock, later: float, left_out: bool
) -> None:
    ids = intake.submit_all([draft("a@x.nl"), draft("b@x.nl")])
    contents = load_contents(ids)
    looked = look(contents.values(), clock())
    suppressions.add("b@x.nl", source="test")
    now = clock() + timedelta(seconds=later)
    with pytest.raises(NobodyLeftError) if left_out else nullcontext():
        without_suppressed(reloaded(ids[1]), contents[ids[1]], now, looked)


def test_who_is_suppressed_is_seen_for_all_messages_of_a_look(
    suppressions: Suppressions, intake: Intake, clock: MovableClock
) -> None:
    ids = intake.submit_all([draft("a@x.nl"), draft("b@x.nl")])
    suppressions.add("b@x.nl", source="test")
    contents = load_contents(ids)
    looked = look(contents.values(), clock())
    with recorded() as statements:
        assert without_suppressed(reloaded(ids[0]), contents[ids[0]], clock(), looked) is not None
        with pytest.raises(NobodyLeftError):
            without_suppressed(reloaded(ids[1]), contents[ids[1]], clock(), looked)
    assert not [sql for sql, _ in statements if "FROM suppression" in sql]


def test_a_message_sent_again_after_the_list_changed_goes_to_whom_it_may_go_by_then(
    suppressions: Suppressions, intake: Intake, clock: MovableClock
) -> None:
    message = message_in(MessageStatus.ERROR, attempts=1)
    contents = load_contents([message.id])[message.id]
    suppressions.add(contents.recipients[0].address, source="test")
    with pytest.raises(NobodyLeftError):
        without_suppressed(message, contents, clock())
    suppressions.remove(contents.recipients[0].address)
    assert without_suppressed(message, load_contents([message.id])[message.id], clock()) is not None
    assert results_of([message.id]) == {}
