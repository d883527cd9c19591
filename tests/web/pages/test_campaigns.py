"""The pages of campaigns: a draft is made, looked at, tried, started, paused, ended; who got it is found."""

from __future__ import annotations

import io

from rqmail.bootstrap import Application
from rqmail.models.base import pooled_connection
from rqmail.models.deliveries import Delivery, note_delivery
from rqmail.models.message import Recipient
from web.pages.conftest import Person

PAGE = "/ui/campaigns"
LIST = "to,First name\nan@x.nl,An <b>\nbo@x.nl,Bo\n"


def make(admin: Person, text: str = LIST, **fields: str) -> str:
    form = {"name": "Spring", "mailboxes": "news", "subject": "Hi {{ first_name }}", "html": "<p>{{ first_name }}</p>"}
    return admin.send(f"{PAGE}/new", form | fields | {"file": (io.BytesIO(text.encode()), "list.csv")}).text


def test_a_draft_is_made_looked_at_started_and_ended(admin: Person, news: str, application: Application) -> None:
    assert "No campaign yet" in admin.look(PAGE)
    make(admin, mailboxes=news)
    assert "a draft for 2 people" in admin.notice()
    shown = admin.look(f"{PAGE}/1")
    assert "Hi An &lt;b&gt;" in shown
    assert "Draft" in shown
    assert "Hi Bo" in admin.look(f"{PAGE}/1?row=2")
    frame = admin.client.get(f"{PAGE}/1/html")
    assert frame.text == "<p>An &lt;b&gt;</p>"
    assert "sandbox" in frame.headers["Content-Security-Policy"]
    admin.send(f"{PAGE}/1/test", {"to": "me@x.nl", "row": "2"})
    assert "test mail was handed in" in admin.notice()
    for act, said in (
        ("start", "It goes out"),
        ("pause", "It is paused"),
        ("resume", "It goes on"),
        ("cancel", "nobody else gets it"),
        ("resume", "it has to be PAUSED"),
    ):
        admin.send(f"{PAGE}/1/{act}", {})
        assert said in admin.notice()
    assert "Cancelled" in admin.look(PAGE)
    assert "bo@x.nl" in admin.look(f"{PAGE}/1?q=bo@")
    assert "an@x.nl" not in admin.look(f"{PAGE}/1?q=bo@").split('id="people"')[1]
    assert "an@x.nl,,CANCELLED" in admin.client.get(f"{PAGE}/1/export.csv").text
    assert "campaign.cancel" in admin.look("/ui/audit")


def test_whether_people_got_it_is_on_the_page_of_the_campaign_and_of_the_message(
    admin: Person, news: str, application: Application
) -> None:
    make(admin, mailboxes=news)
    admin.send(f"{PAGE}/1/start", {})
    application.dispatcher.tick()
    now = application.clock()
    with pooled_connection():
        found = {row.address: row.message_id for row in Recipient.select()}
    note_delivery(found["an@x.nl"], Delivery("an@x.nl", "delivered", now, now, probable=False))
    note_delivery(found["bo@x.nl"], Delivery("bo@x.nl", "quarantined", now, now, probable=True))
    shown = admin.look(f"{PAGE}/1")
    assert "1 delivered" in shown
    assert "in quarantine" in shown.split('id="people"')[1]
    assert "in quarantine (probably)" in admin.look(f"/ui/messages/{found['bo@x.nl']}")


def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_stays(admin: Person, news: str) -> None:
    bad = make(admin, LIST + "nobody,X\n", mailboxes=news)
    assert "some rows cannot be used" in bad
    assert "4, to: to: &#39;nobody&#39;" in bad
    assert "&lt;p&gt;{{ first_name }}&lt;/p&gt;" in bad
    assert "did you mean" in make(admin, mailboxes=news, html="{{ frist_name }}")
    assert "hours such as 08:00-20:00" in make(admin, mailboxes=news, between="8-20", timezone="UTC")
    assert 'id="name-wrong"' in make(admin, mailboxes=news, name="12")
    assert "No campaign yet" in admin.look(PAGE)


def test_a_draft_is_cloned_and_deleted(admin: Person, news: str) -> None:
    make(admin, mailboxes=news)
    admin.send(f"{PAGE}/1/clone", {"name": "Autumn"})
    assert "Autumn" in admin.look(f"{PAGE}/2")
    admin.send(f"{PAGE}/2/delete", {})
    assert "Autumn" not in admin.look(PAGE).split("notice")[0]
    assert admin.client.get(f"{PAGE}/2").status_code == 404


def test_who_only_reads_sees_it_and_steers_nothing(reader: Person, admin: Person, news: str) -> None:
    make(admin, mailboxes=news)
    shown = reader.look(f"{PAGE}/1")
    assert "Spring" in shown
    assert f"{PAGE}/1/start" not in shown
    assert reader.send(f"{PAGE}/1/start", {}).status_code == 403
