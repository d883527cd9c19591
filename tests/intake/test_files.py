"""Files of messages: all rows or none, and every error with its row and field."""

import io
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import Intake, check
from rqmail.intake.files import MAX_ERRORS_TOLD, Reading, drafts, format_of
from rqmail.intake.importing import Imports
from rqmail.models.contents import load_contents
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, Priority
from support.clock import START

SENDER = "mailbox:news"


@pytest.fixture
def nudges():
    return []


@pytest.fixture
def intake(database, clock, nudges):
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return Intake(clock, lambda: nudges.append(1))


@pytest.fixture
def imports(clock, intake):
    return Imports(clock, intake)


def file_of(text, encoding="utf-8"):
    return io.BytesIO(text.encode(encoding) if isinstance(text, str) else text)


def rows(text, format_="csv"):
    return list(drafts(file_of(text), SENDER, Reading(format_)))


def test_a_row_says_everything_a_message_can(imports, nudges):
    text = (
        "to,subject,text,html,cc,bcc,at,priority,expires\n"
        '"Jörg <j@x.de>;a@x.nl",Één,"regel 1\nregel 2",<p>x</p>,c@x.nl,"b@x.nl, d@x.nl",'
        "2026-01-01T00:00:00+01:00,high,2027-01-01T00:00Z\n"
    )
    report = imports.take(file_of(text), SENDER)
    assert (report.rows, report.stored, report.error_count) == (1, 1, 0)
    row = Message.get()
    assert (row.subject, row.recipient_count, row.priority) == ("Één", 5, Priority.HIGH)
    contents = load_contents([row.id])[row.id]
    assert (contents.text, contents.html) == ("regel 1\nregel 2", "<p>x</p>")
    assert nudges == [1]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_what_spreadsheets_write_is_read(delimiter, mark, ending):
    text = mark + ending.join(["To,Subject,Text,CC", "a@x.nl,Hoi,dag,b@x.nl", ",,,", ""]).replace(",", delimiter)
    (draft,) = rows(text)
    assert (draft.to, draft.subject, draft.text, draft.cc) == ("a@x.nl", "Hoi", "dag", "b@x.nl")


def test_an_empty_cell_says_nothing(intake):
    (draft,) = rows("to,subject,text,priority,at\na@x.nl,Hoi,dag,,\n")
    assert check(draft, START).message.priority == Priority.NORMAL


def test_json_lines_have_the_same_names():
    text = """{"to": ["a@x.nl", "b@x.nl"], "subject": "Hoi", "html": "<p>", "cc": null}

    {"to": "c@x.nl", "subject": "x", "text": "y"}"""
    first, second = rows(text, "jsonl")
    assert (first.to, first.html, second.to) == (["a@x.nl", "b@x.nl"], "<p>", "c@x.nl")


BROKEN_FILES = {
    "nothing at all": (b"", "header"),
    "a header alone": (b"to,subject,text\n", "file"),
    "an unknown column": (b"to,subject,text,colour\na@x.nl,s,t,red\n", "header"),
    "no body column": (b"to,subject\na@x.nl,s\n", "header"),
    "no recipient column": (b"subject,text\ns,t\n", "header"),
    "a column twice": (b"to,to,subject,text\na@x.nl,b@x.nl,s,t\n", "header"),
    "a NUL byte": (b"to,subject,text\na@x.nl,s\x00,t\n", "file"),
    "no CSV": (b"%PDF-1.4 \xff\xfe", "header"),
}


@pytest.mark.parametrize(("content", "field"), BROKEN_FILES.values(), ids=BROKEN_FILES)
def test_a_file_that_cannot_be_read_is_refused_as_a_whole(imports, content, field):
    with pytest.raises(InvalidInputError) as refused:
        imports.take(file_of(content), SENDER)
    assert refused.value.field == field
    assert Message.select().count() == 0


BROKEN_ROWS = {
    "no address": ("jan,s,t", "to"),
    "no subject": ("a@x.nl,,t", "subject"),
    "no text": ("a@x.nl,s,", "text"),
    "a column too few": ("a@x.nl,s", "row"),
    "a column too many": ("a@x.nl,s,t,u", "row"),
    "text after a closing quote": ('a@x.nl,"s"s,t', "row"),
    "a quote that is never closed": ('a@x.nl,"s,t', "row"),
}


@pytest.mark.parametrize(("broken", "field"), BROKEN_ROWS.values(), ids=BROKEN_ROWS)
def test_a_broken_row_is_named_and_nothing_is_stored(imports, broken, field):
    report = imports.take(file_of(f"to,subject,text\na@x.nl,s,t\n\n{broken}\n"), SENDER)
    assert (report.stored, report.error_count) == (0, 1)
    assert (report.errors[0].row, report.errors[0].field) == (4, field)
    assert Message.select().count() == 0


BROKEN_LINES = {
    "no JSON": ("{", "row"),
    "no object": ("[1]", "row"),
    "too deep": ("[" * 100_000, "row"),
    "an unknown field": ('{"to": "a@x.nl", "subject": "s", "text": "t", "colour": "red"}', "colour"),
    "a number for a text": ('{"to": "a@x.nl", "subject": 7, "text": "t"}', "subject"),
    "a list of numbers": ('{"to": [1], "subject": "s", "text": "t"}', "to"),
    "no subject": ('{"to": "a@x.nl", "text": "t"}', "subject"),
    "no recipients": ('{"subject": "s", "text": "t"}', "to"),
    "half a character": ('{"to": "a@x.nl", "subject": "\\ud800", "text": "t"}', "subject"),
    "a naive time": ('{"to": "a@x.nl", "subject": "s", "text": "t", "at": "2026-01-01T09:00"}', "at"),
}


@pytest.mark.parametrize(("broken", "field"), BROKEN_LINES.values(), ids=BROKEN_LINES)
def test_a_broken_line_is_named_and_nothing_is_stored(imports, broken, field):
    good = '{"to": "a@x.nl", "subject": "s", "text": "t"}'
    report = imports.take(file_of(f"{good}\n{broken}\n"), SENDER, Reading("jsonl"))
    assert [(error.row, error.field) for error in report.errors] == [(2, field)]
    assert Message.select().count() == 0


def test_the_first_errors_are_told_and_all_are_counted(imports):
    report = imports.take(file_of("to,subject,text\n" + "jan,s,t\n" * 50), SENDER)
    assert (report.rows, report.error_count, len(report.errors)) == (50, 50, MAX_ERRORS_TOLD)
    assert report.errors[-1].row == MAX_ERRORS_TOLD + 1


def test_a_dry_run_checks_and_stores_nothing(imports):
    report = imports.take(file_of("to,subject,text\na@x.nl,s,t\n"), SENDER, dry_run=True)
    assert (report.rows, report.stored) == (1, 0)
    assert Message.select().count() == 0


def test_an_unknown_sender_is_told_before_the_file_is_read(imports):
    with pytest.raises(InvalidInputError, match="mailbox"):
        imports.take(file_of(b"\xff"), "mailbox:none")


def test_what_is_stored_is_what_was_checked_whatever_becomes_of_the_file(imports):
    file = file_of("to,subject,text\na@x.nl,s,t\n")
    report = imports.check(file, SENDER)
    file.__init__(b"to,subject,text\n" + b"a@x.nl,changed,t\n" * 1500 + b"jan,s,t\n")
    assert imports.store(report.import_id) == 1
    assert [row.subject for row in Message.select()] == ["s"]


def test_memory_does_not_grow_with_the_file(sqlite_database, clock):
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    imports = Imports(clock, Intake(clock, lambda: None))

    def peak(number):
        file = file_of("to,subject,text\n" + "a@x.nl,Hallo allemaal,dag\n" * number)
        tracemalloc.start()
        try:
            imports.take(file, SENDER)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(500)
    assert peak(4800) < 2 * peak(1200)


@pytest.mark.parametrize(
    ("name", "expected"), [("a.csv", "csv"), ("A.JSONL", "jsonl"), ("a.ndjson", "jsonl"), ("a", "csv"), ("-", "csv")]
)
def test_the_format_is_told_by_the_name(name, expected):
    assert format_of(name) == expected


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(st.binary(max_size=120), st.sampled_from(["csv", "jsonl"]), st.booleans())
def test_any_bytes_are_rows_or_errors_that_say_where(content, format_, headed):
    if headed and format_ == "csv":
        content = b"to,subject,text\n" + content
    try:
        for draft in drafts(io.BytesIO(content), SENDER, Reading(format_)):
            check(draft, START)
    except InvalidInputError as error:
        assert error.field
