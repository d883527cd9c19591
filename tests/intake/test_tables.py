"""Tables in the shapes in which spreadsheets, databases and CRM programs export them."""

import io

import pytest

from rqmail.errors import InvalidInputError
from rqmail.intake.columns import Naming
from rqmail.intake.documents import json_rows
from rqmail.intake.draft import Intake
from rqmail.intake.files import Reading
from rqmail.intake.importing import Imports
from rqmail.intake.reports import BadRow
from rqmail.models.contents import load_contents
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message

SENDER = "mailbox:news"


@pytest.fixture
def intake(database, clock):
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return Intake(clock, lambda: None)


def imported(intake, text, reading=None, **options):
    return Imports(intake._clock, intake).take(io.BytesIO(text.encode()), SENDER, reading or Reading(), **options)


def stored():
    """Answer subject and text of every message, in the order of the file."""
    contents = load_contents([row.id for row in Message.select()])
    return [(row.subject, contents[row.id].text) for row in Message.select().order_by(Message.id)]


SHAPES = {
    "sep": "sep=;\r\nto;subject;text\r\na@x.nl;Hoi;dag, Jan\r\n",
    "sep quoted": '"sep=;"\r\nto;subject;text\r\na@x.nl;Hoi;dag, Jan\r\n',
    "sep of a comma": 'sep=,\nto,subject,text\na@x.nl,Hoi,"dag, Jan"\n',
    "sep of a tab": "sep=\t\nto\tsubject\ttext\na@x.nl\tHoi\tdag, Jan\n",
    "tab": "to\tsubject\ttext\na@x.nl\tHoi\tdag, Jan\n",
    "bar": "to|subject|text\na@x.nl|Hoi|dag, Jan\n",
    "CR": "to;subject;text\ra@x.nl;Hoi;dag, Jan\r",
    "empty columns in header and rows": "to;subject;text;;\na@x.nl;Hoi;dag, Jan;;\n",
    "empty columns in rows alone": "to;subject;text\na@x.nl;Hoi;dag, Jan;;;\n",
    "empty columns in the header alone": "to;subject;text;;\na@x.nl;Hoi;dag, Jan\n",
    "blank rows": "to;subject;text\n;;\na@x.nl;Hoi;dag, Jan\n \t; ;\u00a0\n;;\n\n",
    "title lines": "Ledenlijst;;\n\nStand per 1 december;;\nto;subject;text\na@x.nl;Hoi;dag, Jan\n",
    "a header cell with a line break": '"to\n";"\r\nSubject";text\na@x.nl;Hoi;dag, Jan\n',
    "names in capitals with blanks": " TO ; Subject;TEXT\u200b\na@x.nl;Hoi;dag, Jan\n",
    "two BOMs": "\ufeff\ufeffto;subject;text\na@x.nl;Hoi;dag, Jan\n",
    "rows quoted whole": '"to,subject,text"\n"a@x.nl,Hoi,""dag, Jan"""\n',
    "some rows quoted whole": 'to,subject,text\n"a@x.nl,Hoi,""dag, Jan"""\n',
    "optional cells missing": "to;subject;text;cc;priority\na@x.nl;Hoi;dag, Jan\n",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_table_in_the_shape_of_another_program_is_read(intake, shape):
    report = imported(intake, shape)
    assert (report.rows, report.stored, report.errors) == (1, 1, ())
    assert stored() == [("Hoi", "dag, Jan")]


def test_quotes_with_a_backslash_before_them_are_quotes(intake):
    imported(intake, 'to,subject,text\na@x.nl,"Hij zei \\"hoi\\", en ging","C:\\\\temp"\n')
    assert stored() == [('Hij zei "hoi", en ging', "C:\\temp")]


def test_a_backslash_before_a_closing_quote_is_text_where_the_file_reads_well_so(intake):
    imported(intake, 'to,subject,text\na@x.nl,Hoi,"C:\\"\n')
    assert stored() == [("Hoi", "C:\\")]


def test_rows_above_the_header_are_told_and_the_rows_keep_their_numbers(intake):
    report = imported(intake, "Leden;2026\n\nto;subject;text\njan;s;t\n")
    assert report.passed_over == ("Leden 2026", "")
    assert [error.row for error in report.errors] == [4]


def test_the_line_that_names_the_delimiter_is_not_told_as_passed_over_and_counts_as_a_row(intake):
    report = imported(intake, "sep=;\nto;subject;text\njan;s;t\n")
    assert (report.passed_over, [error.row for error in report.errors]) == ((), [3])


@pytest.mark.parametrize("row", ["a@x.nl;Hoi", "a@x.nl"])
def test_a_short_row_that_misses_what_it_needs_is_refused(intake, row):
    report = imported(intake, f"to;subject;text;cc\n{row}\n")
    assert [(error.row, error.field) for error in report.errors] == [(2, "row")]


def test_the_columns_of_a_file_can_be_named(intake):
    naming = Naming({"to": "E-mail adres", "subject": "Onderwerp", "text": "Bericht"})
    imported(intake, '"E-mail\nadres";ONDERWERP;Bericht\na@x.nl;Hoi;dag\n', Reading(naming=naming))
    assert stored() == [("Hoi", "dag")]


def test_other_columns_are_passed_over_when_asked(intake):
    text = "id;to;subject;text;klantnummer\n1;a@x.nl;Hoi;dag;77\n"
    with pytest.raises(InvalidInputError, match="ignore-other-columns"):
        imported(intake, text)
    assert imported(intake, text, Reading(naming=Naming(ignore_others=True))).stored == 1


@pytest.mark.parametrize(("written", "near"), [("subjet", "subject"), ("txt", "text"), ("expire", "expires")])
def test_an_unknown_column_is_refused_with_the_nearest_name(intake, written, near):
    header = "to,subject,text".replace(near, written) if near != "expires" else f"to,subject,text,{written}"
    with pytest.raises(InvalidInputError, match=f"did you mean '{near}'"):
        imported(intake, f"{header}\na@x.nl,s,t,u\n")


@pytest.mark.parametrize(
    "theirs", [{"onderwerp": "x"}, {"to": "x", "cc": "X "}], ids=["none of ours", "one column for two"]
)
def test_a_naming_that_cannot_be_is_refused(theirs):
    with pytest.raises(InvalidInputError, match="column"):
        Naming(theirs)


def test_a_named_column_that_the_file_lacks_is_refused_with_the_nearest(intake):
    with pytest.raises(InvalidInputError, match="did you mean 'E-mail'"):
        imported(intake, "E-mail;subject;text\na@x.nl;s;t\n", Reading(naming=Naming({"to": "E-mal"})))


def test_rows_that_repeat_recipients_are_counted_and_left_out_when_asked(intake):
    text = 'to,subject,text\na@x.nl,1,t\nA@X.nl,2,t\nb@x.nl,3,t\n"a@x.nl,b@x.nl",4,t\n'
    assert (imported(intake, text, dry_run=True).duplicates, Message.select().count()) == (2, 0)
    report = imported(intake, text, skip_duplicates=True)
    assert (report.rows, report.stored, report.skipped) == (4, 2, 2)
    assert [subject for subject, _ in stored()] == ["1", "3"]


def test_every_bad_row_is_heard_of_with_its_cells(intake):
    heard: list[BadRow] = []
    imported(intake, "to,subject,text\n" + "jan,s,t\n" * 50, on_bad_row=heard.append)
    assert len(heard) == 50
    assert (heard[0].header, heard[0].cells, heard[0].error.field) == (
        ("to", "subject", "text"),
        ("jan", "s", "t"),
        "to",
    )


OBJECT = '{"to": "a@x.nl", "subject": "Hoi", "text": "dag"}'
PRETTY = '{\n  "to": "a@x.nl",\n  "subject": "Hoi",\n  "text": "dag"\n}'
DOCUMENTS = {
    "lines": f"{OBJECT}\n\n{OBJECT}\n",
    "an array": f"[{OBJECT},{OBJECT}]",
    "an array of many lines": f"\ufeff[\n{PRETTY},\n{PRETTY}\n]\n",
    "objects of many lines": f"{PRETTY}\n{PRETTY}\n",
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_json_is_read_as_lines_as_an_array_and_pretty_printed(intake, document):
    assert imported(intake, document, Reading("jsonl")).stored == 2
    assert stored() == [("Hoi", "dag")] * 2


@pytest.mark.parametrize(
    "document",
    [f"[{OBJECT}", f"[{OBJECT},", f"[{OBJECT} {OBJECT}]", f"[{OBJECT}] {OBJECT}", f"[{OBJECT}, 7]", f"[{OBJECT},{{"],
    ids=["cut off", "cut off after a comma", "no comma", "more after it", "a number", "half an object"],
)
def test_an_array_that_is_not_whole_is_refused_and_nothing_is_stored(intake, document):
    report = imported(intake, document, Reading("jsonl"))
    assert [error.row for error in report.errors] == [2]
    assert Message.select().count() == 0


def test_a_field_of_json_can_be_named_and_others_passed_over():
    naming = Naming({"to": "E-mail"}, ignore_others=True)
    [(_, values)] = json_rows(lambda: iter(['{"e-mail": "a@x.nl", "subject": "s", "text": "t", "id": 7}']), naming)
    assert values == {"to": "a@x.nl", "subject": "s", "text": "t"}


def test_a_delimiter_that_is_named_is_taken_and_which_one_was_taken_is_told(intake):
    text = "to;subject;text\na@x.nl;a,b;c,d\n"
    assert imported(intake, text).delimiter == ";"
    assert imported(intake, text, Reading(delimiter=";")).delimiter == ";"
    with pytest.raises(InvalidInputError, match="header"):
        imported(intake, text, Reading(delimiter=","))
    with pytest.raises(InvalidInputError, match="delimiter: 'x' is not valid; allowed: a comma, a semicolon"):
        imported(intake, text, Reading(delimiter="x"))
