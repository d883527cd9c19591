"""``rqmail import``: files of every shape, every error told, and nothing of a file that is not whole."""

import csv
import io
import json
from datetime import timedelta

import openpyxl
import pytest

from rqmail import bootstrap
from rqmail.models.message import Message

HEADER = "to;subject;text\n"
AT = "to;subject;text;at\n"


@pytest.fixture
def hand_in(run, run_json, tmp_path):
    """Import a file of this content, and answer what came of it."""
    run_json("mailbox", "add", "news", "--address", "news@x.nl")

    def hand_in(content, *options, name="list.csv"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return run("import", file, "--mailbox", "news", *options)

    return hand_in


def test_what_was_found_out_about_a_file_is_said(hand_in):
    told = hand_in(f"Leden\n\n{HEADER}a@x.nl;Zoë;t\nA@x.nl;s;t\n".encode("cp1252"))
    assert told.exit_code == 0, told.output
    assert "Read as cp1252; --encoding names another." in told.stderr
    assert "Above the header 2 rows were passed over: Leden." in told.stderr
    assert "1 row repeats the recipients of earlier ones; they would be left out by --skip-duplicates." in told.stderr
    assert told.stdout.startswith("2 messages were stored")


def test_a_spreadsheet_is_imported_by_its_sheet_and_its_own_column_names(hand_in):
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Leden")
    for row in (["Nr", "E-mail", "Onderwerp", "Bericht"], [1, "a@x.nl", "Hoi", "dag"]):
        sheet.append(row)
    content = io.BytesIO()
    book.save(content)
    options = ("--sheet", "Leden", "--column", "to=e-mail", "--column", "subject=Onderwerp", "--column", "text=Bericht")
    refused = hand_in(content.getvalue(), *options, name="leden.xlsx")
    assert (refused.exit_code, "--ignore-other-columns" in refused.stderr) == (2, True)
    assert hand_in(content.getvalue(), *options, "--ignore-other-columns", name="leden.xlsx").exit_code == 0
    assert Message.get().subject == "Hoi"


@pytest.mark.parametrize("column", ["to", "to=", "colour=x", "=x"])
def test_a_column_that_is_named_wrongly_is_refused(hand_in, column):
    told = hand_in(HEADER + "a@x.nl;s;t\n", "--column", column)
    assert (told.exit_code, "column" in told.stderr) == (2, True)


def test_local_times_are_read_in_the_zone_and_the_format_that_were_named(hand_in):
    row = AT + "a@x.nl;s;t;24-12-2026 09:00\n"
    assert "--timezone" in hand_in(row, "--date-format", "%d-%m-%Y %H:%M").stderr
    told = hand_in(row, "--date-format", "%d-%m-%Y %H:%M", "--timezone", "Europe/Amsterdam")
    assert told.exit_code == 0, told.output
    assert Message.get().requested_on.isoformat().startswith("2026-12-24T08:00:00")


def test_the_zone_can_be_a_setting(hand_in, monkeypatch):
    monkeypatch.setenv("RQMAIL_TIMEZONE", "Europe/Amsterdam")
    bootstrap.set_mail_rate_limiter_for_tests(None)
    assert hand_in(AT + "a@x.nl;s;t;2026-12-24 09:00\n").exit_code == 0
    assert Message.get().requested_on.isoformat().startswith("2026-12-24T08:00:00")


@pytest.mark.parametrize(
    ("moment", "why"),
    [
        ("2027-03-28 02:30", "skipped when its clocks go forward"),
        ("2026-10-25 02:30", "2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"),
        ("morgen", "at"),
        ("0001-01-01 00:00", "at"),
    ],
    ids=["a time that does not exist", "a time that exists twice", "no time", "before all zones"],
)
def test_a_local_time_that_is_not_one_moment_is_refused(hand_in, moment, why):
    told = hand_in(AT + f"a@x.nl;s;t;{moment}\n", "--timezone", "Europe/Amsterdam", "--dry-run")
    assert (told.exit_code, why in told.stderr) == (2, True), told.output


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [
        ("--timezone", "Europe/Amsterdm", "Europe/Amsterdam"),
        ("--date-format", "%H:%M", "day"),
        ("--date-format", "%", "format"),
        ("--encoding", "base64", "utf-8"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_the_file_is_read(hand_in, option, value, near):
    told = hand_in(AT + "a@x.nl;s;t;\n", option, value)
    assert (told.exit_code, near in told.stderr) == (2, True), told.output


def test_rows_with_recipients_met_before_are_left_out_when_asked(hand_in):
    told = hand_in(HEADER + "a@x.nl;1;t\na@x.nl;2;t\n", "--skip-duplicates", "--json")
    assert {name: json.loads(told.stdout)[name] for name in ("rows", "stored", "skipped")} == {
        "rows": 2, "stored": 1, "skipped": 1,
    }  # fmt: skip


def test_an_import_has_an_id_is_listed_and_can_be_undone(hand_in, run, run_json, app):
    told = json.loads(hand_in(HEADER + "a@x.nl;1;t\nb@x.nl;2;t\n", "--json").stdout)
    assert (told["stored"], next(iter(told))) == (2, "import")
    [listed] = run_json("import", "--list")["imports"]
    assert (listed["id"], listed["state"], listed["fileName"], listed["who"]) == (
        told["import"], "DONE", "list.csv", "command line",
    )  # fmt: skip
    shown = run("import", "--list").stdout
    assert told["import"] in shown
    assert "2 of 2" in shown
    assert run_json("import", "--undo", told["import"]) == {"import": told["import"], "cancelled": 2}
    assert {row.status for row in Message.select()} == {"CANCELLED"}
    [line] = app.audit.lines()[:1]
    assert (line.action, line.subject, line.after) == (
        "import.undo", f"import:{told['import']}", {"state": "UNDONE", "cancelled": 2},
    )  # fmt: skip
    again = run("import", "--undo", told["import"])
    assert (again.exit_code, "UNDONE: there is nothing to undo" in again.stderr) == (1, True)


def test_the_messages_of_one_import_are_listed_and_cancelled_by_its_id(hand_in, run_json):
    first, second = (json.loads(hand_in(f"{HEADER}{n}@x.nl;{n};t\n", "--json").stdout) for n in "ab")
    assert [one["subject"] for one in run_json("message", "list", "--import", first["import"])] == ["a"]
    assert run_json("message", "cancel", "--all", "--import", second["import"])["count"] == 1
    assert {one["subject"]: one["status"] for one in run_json("message", "list")} == {
        "a": "SCHEDULED",
        "b": "CANCELLED",
    }


def test_an_import_of_which_a_message_was_sent_is_not_undone(hand_in, run, app):
    told = json.loads(hand_in(HEADER + "a@x.nl;1;t\nb@x.nl;2;t\n", "--json").stdout)
    Message.update(status="SENT").where(Message.subject == "1").execute()
    refused = run("import", "--undo", told["import"])
    assert (refused.exit_code, "of 2 messages 1 SENT" in refused.stderr) == (1, True)
    assert sorted(row.status for row in Message.select()) == ["SCHEDULED", "SENT"]
    assert app.audit.lines(subject=f"import:{told['import']}") == []


def test_what_a_killed_import_left_behind_is_finished_by_init(hand_in, run, app, monkeypatch):
    def die(*_):
        raise SystemExit(137)

    monkeypatch.setattr("rqmail.intake.draft.Intake.announce", die)
    monkeypatch.setattr("rqmail.intake.importing.LEASE", timedelta())
    monkeypatch.setattr("rqmail.intake.kept_aside.PART_ROWS", 1)
    hand_in(HEADER + "a@x.nl;1;t\nb@x.nl;2;t\n")
    assert Message.select().count() == 1
    monkeypatch.undo()
    assert run("init").exit_code == 0
    assert Message.select().count() == 2
    assert app.imports.recent()[0].state == "DONE"


@pytest.mark.parametrize("arguments", [(), ("--list", "--undo", "x"), ("x.csv", "--list")])
def test_a_file_a_list_or_an_undoing_one_of_them_is_asked_for(run, tmp_path, arguments):
    (tmp_path / "x.csv").touch()
    told = run("import", *arguments)
    assert (told.exit_code, "--undo ID" in told.stderr) == (2, True)


def test_duplicates_are_told_by_their_rows(hand_in):
    told = hand_in(HEADER + "a@x.nl;1;t\nb@x.nl;2;t\nA@X.nl;3;t\n", "--dry-run", "--json")
    assert json.loads(told.stdout)["duplicateRows"] == [{"row": 4, "address": "A@x.nl"}]
    assert "  row 4: A@x.nl\n" in hand_in(HEADER + "a@x.nl;1;t\nb@x.nl;2;t\nA@X.nl;3;t\n").stderr


def test_a_dry_run_tells_programs_everything_and_its_exit_code_says_whether_all_is_well(hand_in):
    good = hand_in(HEADER + "a@x.nl;s;t\n", "--dry-run", "--json")
    assert (good.exit_code, json.loads(good.stdout)["errors"]) == (0, [])
    bad = hand_in(HEADER + "a@x.nl;s;t\n" + "jan;s;t\n" * 30, "--dry-run", "--json")
    answer = json.loads(bad.stdout)
    assert (bad.exit_code, answer["rows"], answer["errorCount"], len(answer["errors"])) == (2, 31, 30, 30)
    assert Message.select().count() == 0


@pytest.mark.parametrize("title", ["", "Ledenlijst\n"])
def test_the_bad_rows_are_written_with_what_is_wrong_and_imported_once_they_are_mended(hand_in, tmp_path, title):
    errors = tmp_path / "wrong.csv"
    content = title + 'to;subject;text;cc\na@x.nl;s;t;\njan;"=1;2";t\npiet;s;"u\nv";;x\n' + "kees;s;t\n" * 30
    told = hand_in(content, "--errors", errors)
    assert told.exit_code == 2
    assert "All of them are in" in told.stderr
    header, *rows = csv.reader(io.StringIO(errors.read_bytes().decode("utf-8-sig"), newline=""))
    assert header == ["to", "subject", "text", "cc", "error"]
    assert len(rows) == 32
    assert rows[0][:4] == ["jan", "'=1;2", "t", ""], "a spreadsheet runs nothing of what it is mended in"
    assert "'jan' is not valid" in rows[0][4]
    assert (rows[1][:4], rows[1][5:]) == (["piet", "s", "u\nv", ""], ["x"])

    again = hand_in(errors.read_bytes(), "--errors", tmp_path / "again.csv")
    assert again.exit_code == 2
    assert (tmp_path / "again.csv").read_bytes().decode("utf-8-sig").splitlines()[0] == ",".join(header)

    text = errors.read_text("utf-8-sig")
    for name in ("jan", "piet", "kees"):
        text = text.replace(f"\n{name},", f"\n{name}@x.nl,")
    assert hand_in(text.replace(",x\n", "\n")).stdout.startswith("32 messages were stored")
    assert Message.select().where(Message.subject == "=1;2").count() == 1


def test_the_file_that_is_read_is_not_overwritten_by_its_errors(hand_in, tmp_path):
    told = hand_in(HEADER + "jan;s;t\n", "--errors", tmp_path / "list.csv")
    assert (told.exit_code, "overwrite" in told.stderr) == (2, True)
    assert (tmp_path / "list.csv").read_text() == HEADER + "jan;s;t\n"


def test_a_json_array_is_told_by_the_name_of_its_file(hand_in):
    content = json.dumps([{"to": ["a@x.nl"], "subject": "s", "text": "t"}], indent=2)
    assert hand_in(content, name="mail.json").exit_code == 0
    assert Message.select().count() == 1


@pytest.mark.parametrize("name", ["-", "list.csv", "list.txt"])
@pytest.mark.parametrize("written", ["[%s]", "\ufeff\n [\n%s]", "%s\n%s\n"])
def test_json_is_told_by_how_it_begins_too(hand_in, run, name, written):
    one = json.dumps({"to": "a@x.nl", "subject": "s", "text": "t"}, indent=1)
    content = written.replace("%s", one)
    if name == "-":
        hand_in("to;subject;text\n", name="list.csv")
        told = run("import", "-", "--mailbox", "news", stdin=content)
    else:
        told = hand_in(content, name=name)
    assert told.exit_code == 0, told.output
    assert Message.select().count() == written.count("%s")


GARBAGE = {
    "nothing": b"",
    "noughts": bytes(1000),
    "every byte": bytes(range(256)) * 10,
    "a picture": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)),
    "a zip": b"PK\x03\x04\x14\x00\x00\x00" + bytes(range(256)),
    "half of UTF-16": b"\xff\xfet\x00o\x00,",
    "a lone surrogate": b"\xff\xfe\x00\xd8\x41\x00",
    "a delimiter that cannot be": b'sep="\nto"subject"text\n',
    "a delimiter that is a line end": b"sep=\r\r\nto,subject,text\n",
    "a quote": b'"',
    "a header of a quote": b'to,subject,"text\n',
    "wrapped nonsense": b'to,subject,text\n"a,""b"\n',
    "deep JSON": b"[" * 100_000,
}


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.xlsx"])
@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_refused_in_words(hand_in, content, name):
    told = hand_in(content, name=name)
    assert isinstance(told.exception, SystemExit), told.exception
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith(("Error: ", "Usage: "))
    assert "Traceback" not in told.stderr
    assert Message.select().count() == 0


def test_a_spreadsheet_that_unpacks_to_more_than_memory_is_refused(hand_in):
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "to", "x"
    content = io.BytesIO()
    book.save(content)
    refused = hand_in(content.getvalue(), name="list.xlsx")
    assert (refused.exit_code, "within 4,096 MB of memory" in refused.stderr) == (2, True), refused.stderr
