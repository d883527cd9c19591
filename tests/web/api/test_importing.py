"""Files handed in over the API: the same checks and the same import as on the command line."""

from __future__ import annotations

import csv
import io
from typing import Any

import openpyxl
import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.models.importing import MessageImport
from rqmail.models.message import Message
from rqmail.web import uploads

GOOD = "to;subject;text\na@x.nl;1;t\nb@x.nl;2;t\nA@x.nl;3;t\n"
BAD = "to;subject;text\na@x.nl;1;t\njan;=2;t\npiet;3;\n"


@pytest.fixture(autouse=True)
def news(application: Application) -> None:
    application.mailboxes.add("news", "news@example.org")


def hand_in(client: FlaskClient, content: str | bytes, name: str = "list.csv", **form: Any) -> Any:
    data = content if isinstance(content, bytes) else content.encode()
    return client.post("/messages/imports", data={"mailbox": "news", "file": (io.BytesIO(data), name)} | form)


def test_a_file_is_taken_in_under_an_id_and_can_be_looked_up_and_undone(client: FlaskClient) -> None:
    answer = hand_in(client, GOOD)
    assert answer.status_code == 201, answer.json
    told = answer.json
    assert (told["rows"], told["stored"], told["duplicates"], told["dryRun"]) == (3, 3, 1, False)
    assert told["delimiter"] == ";"
    assert told["duplicateRows"] == [{"row": 4, "address": "A@x.nl"}]
    assert [row.import_id for row in Message.select()] == [told["id"]] * 3

    [listed] = client.get("/messages/imports").json["imports"]
    shown = client.get(f"/messages/imports/{told['id']}").json
    assert (listed["id"], listed["who"], listed["fileName"], listed["sender"]) == (
        told["id"], "admin", "list.csv", "mailbox:news",
    )  # fmt: skip
    assert (shown["state"], shown["expected"], shown["stored"], shown["messages"]) == ("DONE", 3, 3, {"SCHEDULED": 3})

    undone = client.post(f"/messages/imports/{told['id']}/undo")
    assert (undone.status_code, undone.json) == (200, {"id": told["id"], "cancelled": 3})
    again = client.post(f"/messages/imports/{told['id']}/undo")
    assert (again.status_code, "nothing to undo" in again.json["error"]) == (409, True)


def test_of_a_file_with_bad_rows_nothing_is_stored_and_all_of_them_can_be_taken_along(client: FlaskClient) -> None:
    answer = hand_in(client, BAD)
    assert answer.status_code == 422
    told = answer.json
    assert (told["error"], told["errorCount"]) == ("2 of 3 rows cannot be used; nothing was stored.", 2)
    assert [(one["row"], one["field"]) for one in told["errors"]] == [(3, "to"), (4, "to")]
    assert Message.select().count() == 0

    errors = client.get(f"/messages/imports/{told['id']}/errors.csv")
    assert errors.content_type == "text/csv; charset=utf-8"
    header, *rows = csv.reader(io.StringIO(errors.data.decode("utf-8-sig"), newline=""))
    assert header == ["to", "subject", "text", "error"]
    assert [row[:2] for row in rows] == [["jan", "'=2"], ["piet", "3"]]
    mended = errors.data.decode("utf-8-sig").replace("jan", "jan@x.nl").replace("piet,3,", "piet@x.nl,3,t")
    assert hand_in(client, mended).json["stored"] == 2
    assert {one.subject for one in Message.select()} == {"=2", "3"}


def test_a_dry_run_stores_nothing_and_says_whether_all_is_well(client: FlaskClient) -> None:
    good, bad = hand_in(client, GOOD, dryRun="true"), hand_in(client, BAD, dryRun="true")
    assert (good.status_code, good.json["id"], good.json["rows"]) == (200, None, 3)
    assert (bad.status_code, bad.json["id"], bad.json["errorCount"]) == (422, None, 2)
    assert (Message.select().count(), MessageImport.select().count()) == (0, 0)


def test_a_file_is_read_as_it_is_said_to_be(client: FlaskClient) -> None:
    content = "E-mail;Onderwerp;Bericht;at;Nr\na@x.nl;Zo\u00eb;t;24-12-2026 09:00;1\na@x.nl;2;t;24-12-2026 09:00;2\n"
    answer = hand_in(
        client, content.encode("cp1252"), columns=["to=E-mail", "subject=Onderwerp", "text=Bericht"],
        ignoreOtherColumns="true", timezone="Europe/Amsterdam", dateFormat="%d-%m-%Y %H:%M", skipDuplicates="true",
        encoding="cp1252",
    )  # fmt: skip
    assert (answer.status_code, answer.json["stored"], answer.json["skipped"]) == (201, 1, 1), answer.json
    [message] = Message.select()
    assert (message.subject, message.requested_on.isoformat()) == ("Zo\u00eb", "2026-12-24T08:00:00+00:00")


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"mailbox": "nobody"}, "mailbox"),
        ({"tenant": "acme"}, "body"),
        ({"file": ["a.csv", "b.csv"]}, "file"),
        ({"more": ["a.csv"]}, "more"),
        ({"colour": "red"}, "colour"),
        ({"dryRun": "perhaps"}, "dryRun"),
        ({"columns": "to"}, "columns"),
        ({"dateFormat": "%H:%M"}, "dateFormat"),
        ({"timezone": "Europe/Amsterdm"}, "timezone"),
        ({"encoding": "base64"}, "encoding"),
    ],
    ids=repr,
)
def test_a_wrong_field_is_named(client: FlaskClient, form: dict[str, Any], field: str) -> None:
    files = {name: [(io.BytesIO(b"x"), one) for one in form[name]] for name in ("file", "more") if name in form}
    answer = hand_in(client, GOOD, **(form | files))
    assert (answer.status_code, list(answer.json["fieldErrors"])) == (400, [field]), answer.json


def test_what_is_no_form_is_refused(client: FlaskClient) -> None:
    assert client.post("/messages/imports", json={"mailbox": "news"}).status_code == 415
    assert client.post("/messages/imports", data={"mailbox": "news"}).status_code == 415
    gzipped = client.post(
        "/messages/imports", data={"file": (io.BytesIO(b"x"), "a.csv")}, headers={"Content-Encoding": "gzip"}
    )
    assert gzipped.status_code == 415
    assert hand_in(client, b"%PDF-1.4 \xff\xfe").json["fieldErrors"].keys() == {"header"}


def test_a_file_may_be_larger_than_any_other_body_and_is_bounded(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "to;subject;text\n" + f"a@x.nl;s;{'x' * 2_900_000}\n" * 4

    def status(**form: str) -> int:
        parts = "".join(
            f'--b\r\nContent-Disposition: form-data; name="{name}"{"; filename=a.csv" if name == "file" else ""}'
            f"\r\n\r\n{value}\r\n"
            for name, value in form.items()
        )
        answer = client.post(
            "/messages/imports", data=f"{parts}--b--\r\n", content_type="multipart/form-data; boundary=b"
        )
        return answer.status_code

    assert status(mailbox="news", dryRun="true", file=large) == 200
    lines = "to;subject;text\n" + f"a@x.nl;s;{'x' * 97}\r\n" * 2_000
    assert status(mailbox="news", dryRun="true", file=lines) == 200
    assert status(mailbox="news", encoding="x" * 300_000, file=GOOD) == 413
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 1024 * 1024)
    assert status(mailbox="news", dryRun="true", file=large) == 413


def test_a_token_that_sends_hands_files_in_and_undoes_its_own(
    web: Flask, client: FlaskClient, application: Application
) -> None:
    theirs = hand_in(client, GOOD).json["id"]
    _, token = application.access.create("crm", ["send"], by="admin")
    crm = web.test_client()
    crm.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    own = hand_in(crm, GOOD).json["id"]
    assert crm.get("/messages/imports").status_code == 403
    assert crm.post(f"/messages/imports/{theirs}/undo").status_code == 403
    assert crm.post(f"/messages/imports/{own}/undo").json["cancelled"] == 3
    assert application.audit.lines()[0].who == "crm"


def test_a_token_that_is_bound_to_mailboxes_hands_in_files_for_these_alone(
    web: Flask, client: FlaskClient, application: Application
) -> None:
    application.mailboxes.add("club", "club@example.org")
    _, token = application.access.create("crm", ["send"], by="admin", mailboxes=["club"])
    crm = web.test_client()
    crm.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    assert hand_in(crm, GOOD).status_code == 403
    assert hand_in(crm, GOOD, mailbox="club").status_code == 201


def test_an_import_that_nobody_knows_is_404(client: FlaskClient) -> None:
    for path in ("/messages/imports/x", "/messages/imports/x/errors.csv"):
        assert client.get(path).status_code == 404
    assert client.post("/messages/imports/x/undo").status_code == 404


def test_a_list_of_imports_goes_on_where_its_page_ended(client: FlaskClient) -> None:
    ids = [hand_in(client, GOOD).json["id"] for _ in range(3)]
    first = client.get("/messages/imports?limit=2").json
    second = client.get(f"/messages/imports?limit=2&cursor={first['nextCursor']}").json
    assert [one["id"] for one in first["imports"] + second["imports"]] == ids[::-1]
    assert second["nextCursor"] is None


def test_a_spreadsheet_that_unpacks_to_more_than_memory_is_refused(client: FlaskClient) -> None:
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "to", "x"
    content = io.BytesIO()
    book.save(content)
    answer = hand_in(client, content.getvalue(), "list.xlsx")
    assert (answer.status_code, "within 768 MB of memory" in answer.json["fieldErrors"]["file"]) == (400, True)


def test_files_are_attached_by_the_command_line_alone(client: FlaskClient) -> None:
    answer = hand_in(client, "to,subject,text,attachments\na@x.nl,s,t,/etc/passwd\n")
    assert answer.status_code == 400
    assert answer.json["fieldErrors"] == {
        "header": "no files, unless `rqmail import` is told where they are: --attachments-dir DIR"
    }
    assert Message.select().count() == 0
