"""The page Forecast: what waits and what might come, by mailbox, and what is typed wrongly told beside its field."""

from __future__ import annotations

import re

import pytest

from rqmail.bootstrap import Application
from support.messages import new_message, submitted
from web.machinery import start_machinery
from web.pages.conftest import Person


@pytest.fixture(autouse=True)
def two_mailboxes(application: Application, clock) -> None:
    for key in ("news", "events"):
        application.mailboxes.add(key, f"{key}@x.nl", pacing="burst")
    start_machinery(application, clock())


def told(page: str) -> dict[str, list[str]]:
    """What the table says of each mailbox: waiting, further, done."""
    table = page.partition('id="told"')[2].partition("</table>")[0]
    rows = [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.split(r"</t[hd]>", row)] for row in table.split("<tr>")
    ]
    return {row[0]: row[1:4] for row in rows[2:]}


def test_what_waits_is_told_and_what_if_more_came_shared_by_the_mailboxes(admin: Person) -> None:
    submitted(*(new_message("mailbox:news") for _ in range(100)))
    page = admin.look("/ui/forecast")
    assert "All 100 messages will have left about" in page
    assert told(page) == {
        "events": ["0", "0", "2026-03-10 09:30 UTC"],
        "news": ["100", "0", "2026-03-10 09:33 UTC"],
    }
    more = told(admin.look("/ui/forecast?messages=900&recipientsEach=&zone="))
    assert int(more["events"][1]) + int(more["news"][1]) == 900
    assert {one[2] for one in more.values()} <= {"2026-03-10 09:49 UTC", "2026-03-10 09:50 UTC"}
    path = "/ui/forecast?mailbox=news&messages=10&at=2026-03-11T10:00&zone=Europe/Amsterdam&perMinute=5"
    assert told(admin.look(path)) == {"news": ["100", "10", "2026-03-11 09:01 UTC"]}


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("messages=many", "messages", "A whole number from 0 to 100,000,000."),
        ("recipientsEach=0", "recipientsEach", "A whole number from 1 to 500."),
        ("perMinute=0", "perMinute", "A whole number from 1 to 1,000,000."),
        ("recipientsPerDay=99999999999", "recipientsPerDay", "A whole number from 1 to 1,000,000,000."),
        ("at=tomorrow", "at", "A date and a time."),
        ("mailbox=nobody", "mailbox", "There is no mailbox nobody."),
    ],
)
def test_what_is_typed_wrongly_is_told_beside_its_field_and_kept_there(
    admin: Person, query: str, field: str, said: str
) -> None:
    page = admin.look(f"/ui/forecast?{query}")
    assert f'<p class="wrong" id="{field}-wrong">{said}</p>' in page
    assert 'id="told"' not in page
    if field != "mailbox":
        assert f'value="{query.partition("=")[2]}"' in page


def test_a_pause_without_an_end_and_nothing_that_carries_mail_are_said(admin: Person, application, clock) -> None:
    submitted(new_message("mailbox:news"))
    application.mailboxes.pause("news", reason="wrong list")
    page = admin.look("/ui/forecast")
    assert "Nobody can tell when the message will have left" in page
    assert told(page)["news"][2] == "nobody can tell"
    assert "This holds from when it is mended" not in page
    clock.advance(hours=1)
    assert "This holds from when it is mended" in admin.look("/ui/forecast")


def test_the_pages_of_mailboxes_lead_to_it_and_it_says_when_nothing_waits(admin: Person, beheerder: Person) -> None:
    assert 'href="/ui/forecast"' in admin.look("/ui/mailboxes")
    assert 'href="/ui/forecast?mailbox=news"' in admin.look("/ui/mailboxes/news")
    assert "Er wacht niets." in beheerder.look("/ui/forecast")


def test_without_redis_it_says_what_cannot_be_told(admin: Person, application, monkeypatch) -> None:
    monkeypatch.setattr(application.limiter, "held", lambda _limits: {})
    page = admin.look("/ui/forecast")
    assert "What is used now cannot be told while Redis is away." in page
    assert 'id="messages"' in page
