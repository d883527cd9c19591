"""What a row of a file carries beside its text: files of one folder, headers, marks."""

from __future__ import annotations

import io
import json

import pytest

from rqmail.content_store import ContentStore
from rqmail.errors import InvalidInputError
from rqmail.intake.columns import naming_of
from rqmail.intake.draft import Intake
from rqmail.intake.files import Reading
from rqmail.intake.importing import Imports
from rqmail.models.attachments import AttachmentContent
from rqmail.models.contents import load_contents
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message

SENDER = "mailbox:news"
HEAD = "to,subject,text,"


@pytest.fixture
def store(database, clock) -> ContentStore:
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return ContentStore(clock)


@pytest.fixture
def imports(store, clock) -> Imports:
    return Imports(clock, Intake(clock, lambda: None, contents=store))


@pytest.fixture
def folder(tmp_path):
    """A folder with files, and one beside it that is nobody's business."""
    inside = tmp_path / "pdfs"
    (inside / "more").mkdir(parents=True)
    (inside / "é 1.pdf").write_bytes(b"%PDF 1")  # as a Mac unpacks it: e and its accent apart
    (inside / "2.pdf").write_bytes(b"%PDF 2")
    (inside / "linked.pdf").symlink_to("2.pdf")
    (tmp_path / "secret.txt").write_text("secret")
    (inside / "out.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "way-out").symlink_to(tmp_path)
    return inside


def file_of(text):
    return io.BytesIO(text.encode())


def contents():
    ids = [row.id for row in Message.select().order_by(Message.subject)]
    found = load_contents(ids)
    return [found[one] for one in ids]


def test_rows_attach_files_of_a_folder_and_each_content_is_kept_once(imports, store, folder):
    rows = [f'a{n}@x.nl,Nr {n:04},dag,"2.pdf; é 1.pdf ;linked.pdf;"' for n in range(1100)]
    report = imports.take(file_of(HEAD + "attachments\n" + "\n".join(rows)), SENDER, Reading(attachments_dir=folder))
    assert (report.stored, report.error_count) == (1100, 0)
    assert AttachmentContent.select().count() == 2
    for found in (contents()[0], contents()[-1]):
        names = [(one.name, one.content_type, store.open(one.sha256).read()) for one in found.attachments]
        assert names == [
            ("2.pdf", "application/pdf", b"%PDF 2"),
            ("é 1.pdf", "application/pdf", b"%PDF 1"),
            ("linked.pdf", "application/pdf", b"%PDF 2"),
        ]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("gone.pdf", "there is none of this name"),
        ("../secret.txt", "names without a path"),
        ("more/../2.pdf", "names without a path"),
        ("..", "names without a path"),
        ("out.txt", "not a link that leads out of it"),
        ("way-out", "not a link that leads out of it"),
        ("more", "a file, which this is not"),
        ("x" * 256, "at most 255"),
        ("x" * 250 + ".pdf", "there is none of this name"),
        ("2\\.pdf", "names without a path"),
    ],
)
def test_what_is_no_file_of_the_folder_is_an_error_of_its_row(imports, folder, cell, said):
    text = f"{HEAD}attachments\na@x.nl,A,dag,2.pdf\nb@x.nl,B,dag,{cell}\n"
    report = imports.take(file_of(text), SENDER, Reading(attachments_dir=folder))
    assert (report.stored, [(one.row, one.field) for one in report.errors]) == (0, [(3, "attachments")])
    assert said in report.errors[0].message
    assert Message.select().count() == 0


def test_files_may_be_named_only_where_somebody_said_where_they_are(imports):
    with pytest.raises(InvalidInputError, match="--attachments-dir DIR"):
        imports.take(file_of(f"{HEAD}attachments\na@x.nl,A,dag,2.pdf\n"), SENDER)
    row = {"to": "a@x.nl", "subject": "s", "text": "t", "attachments": ["2.pdf"]}
    report = imports.take(file_of(json.dumps(row)), SENDER, Reading("jsonl"))
    assert (report.errors[0].row, report.errors[0].field) == (1, "attachments")
    assert "--attachments-dir DIR" in report.errors[0].message


def test_a_row_says_all_that_a_message_may_carry(imports, folder):
    table = (
        f"{HEAD}Reply_To,importance,read_receipt,delivery_receipt,unsubscribe_url,Header: X-Order,header:Precedence,"
        "unsubscribe\n"
        'a@x.nl,A,dag,"Ann <ann@x.nl>; b@x.nl",High,yes,,https://x.nl/u/1,4711,bulk,no\n'
        "b@x.nl,B,dag,,,0,TRUE,,,,Yes\n"
    )
    row = {
        "to": ["c@x.nl"], "subject": "C", "text": "dag", "reply_to": ["Ann <ann@x.nl>", "b@x.nl"], "importance": "high",
        "read_receipt": True, "delivery_receipt": False, "unsubscribe_url": "https://x.nl/u/1",
        "unsubscribe": False, "header:X-Order": "4711", "header:Precedence": "bulk", "attachments": ["2.pdf"],
    }  # fmt: skip
    assert imports.take(file_of(table), SENDER).stored == 2
    assert imports.take(file_of(json.dumps(row)), SENDER, Reading("jsonl", attachments_dir=folder)).stored == 1
    first, second, third = contents()
    assert first.extras == third.extras
    assert [one.address for one in first.extras.reply_to] == ["ann@x.nl", "b@x.nl"]
    assert (first.extras.importance, first.extras.read_receipt, first.extras.delivery_receipt) == ("high", True, False)
    assert first.extras.headers[:2] == (("X-Order", "4711"), ("Precedence", "bulk"))
    assert first.extras.unsubscribe_url == "https://x.nl/u/1"
    assert (second.extras.read_receipt, second.extras.delivery_receipt, second.extras.headers) == (False, True, ())
    assert [one.extras.unsubscribe for one in (first, second, third)] == [False, True, False]
    assert [one.name for one in third.attachments] == ["2.pdf"]


def test_a_files_own_name_may_stand_for_a_header_or_for_the_files(imports, folder):
    naming = naming_of(["header:X-Order=Bestelnr", "attachments=Factuur"])
    text = f"{HEAD}Bestelnr,Factuur\na@x.nl,A,dag,4711,2.pdf\n"
    assert imports.take(file_of(text), SENDER, Reading(naming=naming, attachments_dir=folder)).stored == 1
    [found] = contents()
    assert found.extras.headers == (("X-Order", "4711"),)
    assert [one.name for one in found.attachments] == ["2.pdf"]


@pytest.mark.parametrize(
    ("column", "cell", "field", "said"),
    [
        ("importance", "urgent", "importance", "low, normal or high"),
        ("read_receipt", "maybe", "read_receipt", "yes or no"),
        ("reply_to", "nobody", "reply_to", "a mail address"),
        ("unsubscribe_url", "http://x.nl", "unsubscribe_url", "an https address"),
        ("header:X-A", "x\u2028y", "headers", "printable characters"),
    ],
)
def test_what_cannot_be_used_is_an_error_of_its_row_and_column(imports, column, cell, field, said):
    report = imports.take(file_of(f"{HEAD}{column}\na@x.nl,A,dag,{cell}\n"), SENDER)
    [error] = report.errors
    assert (error.row, error.field) == (2, field)
    assert error.message.startswith(f"{field}: ")
    assert said in error.message


@pytest.mark.parametrize(
    "column", ["header:Subject", "header:X Y", "header:", "header:Received", "header:X-A,header:x-a"]
)
def test_a_header_that_no_mail_may_carry_is_refused_once_and_not_in_every_row(imports, column):
    with pytest.raises(InvalidInputError) as refused:
        imports.take(file_of(f"{HEAD}{column}\na@x.nl,A,dag,1,2\n"), SENDER)
    assert refused.value.field == "header"


def test_headers_of_a_bad_object_stand_behind_its_cells_in_the_file_of_bad_rows(imports):
    bad = []
    row = {"to": "nobody", "subject": "s", "text": "t", "header:X-Order": "4711"}
    imports.take(file_of(json.dumps(row)), SENDER, Reading("jsonl"), on_bad_row=bad.append)
    assert bad[0].cells[-1] == "header:X-Order: 4711"
