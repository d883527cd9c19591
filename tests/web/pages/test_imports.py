"""The page Import: a file is uploaded, shown as it was read, then queued, and undone while nothing was sent."""

from __future__ import annotations

import csv
import io
import re

import pytest
from flask import Flask
from openpyxl import Workbook
from playwright.sync_api import expect
from werkzeug.test import TestResponse

from rqmail.bootstrap import Application
from rqmail.models.access import ApiToken
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message
from web.asking import PAGES
from web.pages.conftest import Person

GOOD = "to,subject,text\na@x.nl,Hallo a,dag a\nb@x.nl,Hallo b,dag b\n"


def upload(person: Person, content: bytes | str, name: str = "list.csv", **fields: object) -> TestResponse:
    body = content.encode() if isinstance(content, str) else content
    form = {"sender": "mailbox:news", "file": (io.BytesIO(body), name), **fields}
    return person.send("/ui/imports", form)


def checked(person: Person, content: bytes | str, name: str = "list.csv", **fields: object) -> str:
    answer = upload(person, content, name, **fields)
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


def stored() -> list[Message]:
    with pooled_connection():
        return list(Message.select().order_by(Message.subject))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, application: Application) -> None:
    """What is stored in the background is stored before the answer."""

    def store(imports, import_id: str) -> None:
        imports.store(import_id)

    monkeypatch.setattr(type(application.imports), "store_in_background", store)


pytestmark = pytest.mark.usefixtures("news", "at_once")


def test_a_file_is_shown_as_it_was_read_and_nothing_is_queued_before_somebody_says_so(admin: Person) -> None:
    text = "Ledenlijst 2026\n" + GOOD.replace(",", ";") + "a@x.nl;Nog eens;caf\xe9\n"
    page = admin.look(checked(admin, text.encode("cp1252")))
    assert "cp1252" in page
    assert "a semicolon" in page
    assert "Ledenlijst 2026" in page
    assert "Hallo a" in page
    assert "dag b" in page
    assert re.search(r'id="duplicates".*?>5</td>.*?a@x\.nl', page, re.DOTALL)
    assert "Queue 3 messages" in page
    assert stored() == []


def test_a_checked_file_is_queued_once_and_can_be_undone_while_nothing_was_sent(admin: Person) -> None:
    path = checked(admin, GOOD)
    admin.send(f"{path}/queue", {}, page=path)
    assert [message.subject for message in stored()] == ["Hallo a", "Hallo b"]
    assert "2 of 2 messages are queued" in admin.look(path)
    assert path in admin.look("/ui/imports")
    admin.send(f"{path}/queue", {}, page=path)
    assert len(stored()) == 2
    assert "nothing was done twice" in admin.notice()
    admin.send(f"{path}/undo", {}, page=path)
    assert {message.status for message in stored()} == {"CANCELLED"}
    assert "2 messages were cancelled" in admin.notice()
    assert "import.undo" in admin.look("/ui/audit")


def test_a_file_goes_to_who_unsubscribed_where_that_is_ticked(admin: Person, application: Application) -> None:
    application.suppressions.add("b@x.nl", reason="unsubscribe", source="test")
    for ticked, expected in (({}, 1), ({"ignoreUnsubscribed": "yes"}, 2)):
        import_id = checked(admin, GOOD, **ticked).rpartition("/")[2]
        assert application.imports.find(import_id).expected == expected


def test_the_messages_of_one_import_are_listed_with_the_file_they_came_with(admin: Person) -> None:
    paths = [checked(admin, GOOD, "first.csv"), checked(admin, GOOD.replace("Hallo", "Dag"), "second.csv")]
    for path in paths:
        admin.send(f"{path}/queue", {}, page=path)
    page = admin.look(paths[0])
    import_id = paths[0].rpartition("/")[2]
    assert f'/ui/messages?import={import_id}&amp;status=SCHEDULED"' in page
    listed = admin.look(f"/ui/messages?import={import_id}")
    assert ("Hallo a" in listed, "Dag a" in listed, "first.csv" in listed) == (True, False, True)
    assert f'href="{paths[0]}"' in listed
    assert f'/ui/messages?sender=mailbox:news&amp;import={import_id}"' in listed  # what is clicked narrows it further
    assert 'href="/ui/messages" aria-label="Not only of this import"' in listed
    assert "No message matches" in admin.look("/ui/messages?import=gone")
    cancelled = {"action": "cancel", "scope": "all", "import": import_id, "sure": "yes"}
    admin.send("/ui/messages/bulk", cancelled, page=f"/ui/messages?import={import_id}")
    assert {(one.subject[:3], one.status) for one in stored()} == {("Hal", "CANCELLED"), ("Dag", "SCHEDULED")}


def test_an_import_of_which_something_was_sent_is_not_undone(admin: Person) -> None:
    path = checked(admin, GOOD)
    admin.send(f"{path}/queue", {}, page=path)
    with pooled_connection():
        Message.update(status="SENT").where(Message.subject == "Hallo a").execute()
    admin.send(f"{path}/undo", {}, page=path)
    assert "cannot be undone any more" in admin.notice()
    assert [message.status for message in stored()] == ["SENT", "SCHEDULED"]


def test_every_error_is_told_by_row_and_column_and_all_of_them_are_a_file_to_be_mended(admin: Person) -> None:
    rows = "".join(f"nobody{number},s,t\n" for number in range(150))
    path = checked(admin, "to,subject,text\ngood@x.nl,s,t\n" + rows)
    page = admin.look(path)
    assert re.search(r'id="errors".*?>3</td><td[^>]*><code>to</code>.*?nobody0', page, re.DOTALL)
    assert "150 of 151 rows cannot be used" in page
    assert "The first 100 of 150" in page
    assert "/queue" not in page
    answer = admin.client.get(f"{path}/errors.csv")
    assert answer.content_type == "text/csv; charset=utf-8"
    told = list(csv.DictReader(io.StringIO(answer.get_data().decode("utf-8-sig"))))
    assert [row["to"] for row in told] == [f"nobody{number}" for number in range(150)]
    assert stored() == []


def test_a_spreadsheet_with_names_of_its_own_and_local_times_is_read_as_the_form_says(admin: Person) -> None:
    book = Workbook()
    book.create_sheet("Leden").append(["E-mail", "Onderwerp", "Bericht", "Datum", "Nr"])
    book["Leden"].append(["a@x.nl", "Hoi", "dag", "24-12-2026 09:00", 7])
    kept = io.BytesIO()
    book.save(kept)
    fields = {
        "sheet": "Leden", "column.to": "E-mail", "column.subject": "Onderwerp", "column.text": "Bericht",
        "column.at": "Datum", "ignoreOtherColumns": "yes", "timezone": "Europe/Amsterdam",
        "dateFormat": "%d-%m-%Y %H:%M",
    }  # fmt: skip
    page = admin.look(checked(admin, kept.getvalue(), "leden.xlsx", **fields))
    assert "2026-12-24 08:00 UTC" in page
    assert "a spreadsheet" in page


@pytest.mark.parametrize(
    ("content", "fields", "field", "told"),
    [
        (GOOD, {"column.to": "E-mail"}, "column", "E-mail"),
        (GOOD, {"timezone": "Europe/Amsterdm"}, "timezone", "Europe/Amsterdam"),
        (GOOD, {"dateFormat": "%H"}, "dateFormat", "%d-%m-%Y"),
        (GOOD, {"encoding": "base64"}, "encoding", "utf-8"),
        (GOOD, {"delimiter": "x"}, "delimiter", "comma"),
        (GOOD, {"sender": "mailbox:nobody"}, "sender", "nobody"),
        ("to,onderwerp,text\na@x.nl,s,t\n", {}, "file", "onderwerp"),
        ("", {}, "file", ""),
        (b"PK\x03\x04broken", {}, "file", "spreadsheet"),
    ],
)
def test_what_cannot_be_read_is_told_beside_its_field_and_what_was_typed_is_kept(
    admin: Person, content: bytes | str, fields: dict[str, str], field: str, told: str
) -> None:
    answer = upload(admin, content, sheet="Blad 7", **fields)
    assert answer.status_code == 400
    said = re.search(rf'id="{field}-wrong">(.*?)</p>', answer.text)
    assert said is not None, re.findall(r'class="wrong".*', answer.text)
    assert told in said[1]
    assert 'value="Blad 7"' in answer.text


def test_without_a_file_nothing_is_checked(admin: Person) -> None:
    answer = admin.send("/ui/imports", {"sender": "mailbox:news"})
    assert answer.status_code == 400
    assert "Choose a file first." in answer.text


def test_the_first_rows_are_framed_as_pages_that_may_do_nothing(admin: Person) -> None:
    path = checked(admin, "to,subject,html\na@x.nl,<b>s</b>,<script>alert(1)</script><p>dag</p>\n")
    page = admin.look(path)
    assert "<script>alert" not in page
    assert f'src="{path}/rows/0"' in page
    framed = admin.client.get(f"{path}/rows/0")
    assert framed.text == "<script>alert(1)</script><p>dag</p>"
    assert framed.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert admin.client.get(f"{path}/rows/1").status_code == 404


def test_who_only_reads_sees_imports_and_can_do_nothing(admin: Person, reader: Person) -> None:
    path = checked(admin, GOOD)
    assert "Queue 2 messages" not in reader.look(path)
    assert 'type="file"' not in reader.look("/ui/imports")
    assert "list.csv" in reader.look("/ui/imports")
    assert upload(reader, GOOD).status_code == 403
    assert reader.send(f"{path}/queue", {}).status_code == 403
    assert reader.send(f"{path}/undo", {}).status_code == 403


def test_an_import_that_does_not_exist_is_not_found(admin: Person) -> None:
    for path in ("", "/errors.csv", "/rows/0"):
        assert admin.client.get(f"/ui/imports/nothing{path}").status_code == 404


def test_a_file_is_imported_in_the_browser_on_a_phone_too(page, application: Application) -> None:
    page.set_viewport_size({"width": 375, "height": 740})
    page.goto("/ui/imports")
    page.get_by_label("Bestand").set_input_files(
        {"name": "leden.csv", "mimeType": "text/csv", "buffer": b"to,subject,html\na@x.nl,Hoi,<p>dag</p>\n"}
    )
    page.get_by_role("button", name="Bestand controleren").click()
    expect(page.get_by_role("heading", name="leden.csv")).to_be_visible()
    expect(page.frame_locator("iframe").get_by_text("dag")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.get_by_role("button", name="1 bericht in de wachtrij zetten").click()
    expect(page.locator("#standing")).to_contain_text("1 van 1 berichten")
    page.get_by_role("button", name="Ongedaan maken…").click()
    page.get_by_role("dialog").get_by_role("button", name="Ongedaan maken").click()
    expect(page.get_by_role("status")).to_contain_text("1 bericht is geannuleerd")
    page.goto("/ui/imports")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_whoever_is_bound_to_mailboxes_in_the_table_has_no_page_but_to_write_a_mail(
    web: Flask, application: Application
) -> None:
    # No command binds an admin's token; a row may be changed by another hand.
    _, token = application.access.create("half", ["read", "send", "admin"], by="test")
    application.mailboxes.add("info", "info@x.nl")
    with pooled_connection():
        ApiToken.update(mailboxes='["info"]').where(ApiToken.name == "half").execute()
    half = Person(web.test_client(), token)
    for path in PAGES:
        assert half.client.get(path).status_code == (200 if path == "/ui/compose" else 403), path


def test_a_spreadsheet_that_unpacks_to_more_than_memory_is_refused_on_the_page(admin: Person, news: str) -> None:
    book = Workbook()
    book.active["A1"], book.active["XFD1048576"] = "to", "x"
    content = io.BytesIO()
    book.save(content)
    answer = upload(admin, content.getvalue(), "list.xlsx")
    assert (answer.status_code, "within 768 MB of memory" in answer.text) == (400, True)


def test_a_checked_file_tells_what_one_should_know_in_the_viewers_language(admin: Person, beheerder: Person) -> None:
    path = checked(admin, "to,cc,subject,text\na@x.nl,A@x.nl,Hallo,dag\n")
    assert "a@x.nl was named twice, and gets the mail once." in admin.look(path)
    assert "a@x.nl stond er twee keer en krijgt de mail één keer." in beheerder.look(path)
