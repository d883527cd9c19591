"""The page Suppression: who gets no mail is found, added, taken off, brought in a file and taken out as CSV."""

from __future__ import annotations

import io

from rqmail.bootstrap import Application
from web.pages.conftest import Person

PAGE = "/ui/suppression"


def test_an_address_is_added_found_and_taken_off(admin: Person, application: Application) -> None:
    application.tenants.add("acme", "default")
    admin.send(PAGE, {"address": "B@x.nl", "reason": "complaint", "tenant": "acme"})
    assert "b@x.nl gets no mail any more" in admin.notice()
    shown = admin.look(f"{PAGE}?q=x.nl&reason=complaint")
    assert "complained" in shown
    assert "b@x.nl" not in admin.look(f"{PAGE}?reason=manual").split("<h2")[0]
    answer = admin.send(PAGE, {"address": "jan"})
    assert (answer.status_code, "A mail address, such as" in answer.text) == (400, True)
    admin.send(f"{PAGE}/remove", {"address": "b@x.nl", "tenant": "acme"})
    assert "b@x.nl gets mail again" in admin.notice()
    admin.send(f"{PAGE}/remove", {"address": "b@x.nl", "tenant": "acme"})
    assert "not on the list any more" in admin.notice()
    assert "suppression.remove" in admin.look("/ui/audit")


def test_in_dutch_it_is_asked_for_whose_mail_and_not_for_how_long(beheerder: Person, application: Application) -> None:
    application.tenants.add("acme", "default")
    page = beheerder.look(PAGE)
    assert "Geldt voor" in page
    assert "Hoe lang" not in page


def test_a_file_is_taken_as_a_whole_or_its_bad_rows_are_told(admin: Person, application: Application) -> None:
    def upload(text: str) -> str:
        file = (io.BytesIO(text.encode()), "list.csv")
        return admin.send(f"{PAGE}/import", {"file": file, "reason": "hard-bounce"}).text

    assert "3: address: &#39;jan&#39; is not valid" in upload("address\na@x.nl\njan\n")
    assert application.suppressions.find() == []
    upload("address\na@x.nl\nb@x.nl\n")
    assert "2 addresses were added" in admin.notice()
    assert "a@x.nl,,hard-bounce,admin: list.csv," in admin.client.get(f"{PAGE}/export.csv").text


def test_who_only_reads_sees_the_list_and_changes_nothing(reader: Person, application: Application) -> None:
    application.suppressions.add("a@x.nl", source="test")
    shown = reader.look(PAGE)
    assert "a@x.nl" in shown
    assert "/remove" not in shown
    assert reader.send(PAGE, {"address": "b@x.nl"}).status_code == 403


def test_a_message_shows_who_was_left_out_and_why(admin: Person, news: str, application: Application) -> None:
    application.suppressions.add("b@x.nl", reason="unsubscribe", source="test")
    mail = {"sender": f"mailbox:{news}", "to": "a@x.nl, b@x.nl", "subject": "Hi", "text": "Hi."}
    led_to = admin.send("/ui/compose", mail).headers["Location"]
    assert "b@x.nl is suppressed (unsubscribed) and gets nothing" in admin.notice()
    assert "Left out" in admin.look(led_to)


def test_the_page_of_a_mailbox_tells_what_came_back_and_that_of_an_import_who_gets_nothing(
    admin: Person, news: str, application: Application
) -> None:
    assert "Nothing was sent in that time" in admin.look(f"/ui/mailboxes/{news}")
    application.suppressions.add("b@x.nl", reason="hard-bounce", source="test")
    file = (io.BytesIO(b"to,subject,text\na@x.nl,s,t\nb@x.nl,s,t\n"), "list.csv")
    led_to = admin.send("/ui/imports", {"sender": f"mailbox:{news}", "file": file}).headers["Location"]
    page = admin.look(led_to)
    assert "Rows for nobody else are left out: 1" in page
    assert "bounced" in page.split('id="suppressed"')[1]
