"""The page Doctor: what was found of the installation and of each sender, and asking the providers again."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest

from rqmail.administration import checkup
from rqmail.insight.checked import last_check
from rqmail.mailers.base import Checked
from rqmail.mailers.checking import SenderChecker
from rqmail.queue_state import WorkerState
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.web.pages import sentences

#: What only the command line says: nothing, the words of others, and what is found while asking.
_NOT_ON_THE_PAGE = {"nothing-to-do", "said", "token-granted", "check-app", "send-as-all", "restrict-app"}


def rows(page: str) -> dict[str, str]:
    """What the page says in each line, by the first cell, as text with its level."""
    found = {}
    for row in re.findall(r"<tr>\s*<th scope.*?</tr>", page, re.S):
        cells = re.split(r"</t[hd]>", row.replace("</li>", " "))
        name, *text = (" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in cells)
        found[name] = " | ".join(text[:3])
    return found


def test_every_finding_and_every_advice_has_words():
    codes = re.findall(r'(?:Sentence\(\s*|")([a-z]+(?:-[a-z]+)+)"', Path(checkup.__file__).read_text())
    assert len(codes) > 25
    said = sentences.WHY | sentences.FOUND | sentences.ADVICE | sentences.FOUND_COUNTED
    assert {code for code in codes if code not in said} <= _NOT_ON_THE_PAGE


def test_the_installation_is_checked_at_every_look_and_says_what_to_do(admin, beheerder, application):
    english = rows(admin.look("/ui/doctor"))
    assert english["Settings"] == "OK | All RQMAIL_* variables are valid | –"
    assert english["Redis"].startswith("OK | Reached")
    assert english["Senders"].startswith("Warning | Nobody may send yet | Add one")
    assert english["Scheduler"].startswith("Error | No dispatch has run today")
    assert "| Start rqmail worker, or rq worker -c rqmail.rqconfig -j rqmail.queues.MailJob" in english["Workers"]
    assert "<code>rqmail init</code>" in admin.look("/ui/doctor")
    dutch = rows(beheerder.look("/ui/doctor"))
    assert dutch["Instellingen"] == "In orde | Alle variabelen RQMAIL_* zijn geldig | –"
    assert dutch["Planner"].startswith("Fout | Er was vandaag nog geen ronde")
    assert dutch["Microsoft Graph"].startswith("Let op | Microsoft Graph is niet ingesteld | Stel")


def test_an_installation_that_runs_needs_no_person(admin, application, monkeypatch):
    assert "No check found anything" not in admin.look("/ui/doctor")
    application.timetable.register()
    application.queues.end_dispatch("a tick")
    monkeypatch.setattr(type(application.queue_state), "workers", lambda _: [WorkerState("w", "idle", ("mail",), None)])
    page = admin.look("/ui/doctor")
    assert "No check found anything that needs a person." in page
    assert rows(page)["Workers"] == "OK | 1 worker listens for mail | –"


def test_a_redis_that_is_away_is_the_one_thing_said_of_it(admin, application, monkeypatch):
    health = type(application.limiter.health())("unreachable", "Error 111: connection refused")
    monkeypatch.setattr(MailRateLimiter, "health", lambda _: health)
    found = rows(admin.look("/ui/doctor"))
    assert found["Redis"] == (
        "Error | Redis cannot be reached: Error 111: connection refused | Start it, or correct RQMAIL_REDIS_URL"
    )
    assert "Workers" not in found


def test_the_providers_are_asked_again_and_alike_answers_are_one_line(admin, beheerder, application, monkeypatch):
    for number in range(1, 6):
        application.mailboxes.add(f"m{number}", f"m{number}@x.nl")
    application.tenants.add("acme", "sendgrid", sendgrid_from="post@acme.nl")
    assert "Nobody has asked about 6 senders yet." in admin.look("/ui/doctor")
    answers = {"m4@x.nl": Checked(exists=False), "m5@x.nl": Checked(exists=True, may_send=True, may_read=False)}
    well = Checked(exists=True, may_send=True, may_read=True)
    monkeypatch.setattr(SenderChecker, "mailbox", lambda _, mailbox: answers.get(mailbox.address, well))
    answer = admin.send("/ui/doctor/ask", {})
    assert (answer.status_code, answer.location) == (303, "/ui/doctor")
    page = admin.look("/ui/doctor")
    assert "The providers were asked about 6 senders." in page
    assert "Nobody has asked" not in page
    found = rows(page)
    names = [name for name in found if re.search("acme|m[0-9]", name)]
    assert [found[name].partition(" ")[0] for name in names] == ["Error", "Error", "Warning", "OK"]
    assert found["3 mailboxes m1 m2 m3"].startswith("OK | Graph knows it")
    assert found["Mailbox m4"].startswith("Error | Graph does not know this mailbox | Correct it on its page")
    assert 'href="/ui/tenants/acme"' in page
    assert '<span lang="en">sendgridApiKey of tenant acme is not set</span>' in page
    assert "3 postbussen m1 m2 m3" in rows(beheerder.look("/ui/doctor"))


def test_asking_ends_before_people_stop_waiting_and_tells_how_many_are_left(admin, application, monkeypatch):
    for number in range(40):
        application.tenants.add(f"t{number:02}", "default")
    seconds = count()
    monkeypatch.setattr(application.checks, "_monotonic", lambda: float(next(seconds)))
    admin.send("/ui/doctor/ask", {})
    notice = admin.notice("/ui/doctor")
    assert "The providers were asked about 7 senders." in notice
    assert "There was no time to ask about 33 others" in notice
    assert "Nobody has asked about 33 senders yet." in admin.look("/ui/doctor")


def test_what_a_provider_said_is_shown_as_text(admin, application, monkeypatch):
    application.tenants.add("acme", "default")
    evil = Checked(may_send=False, problem="<img src=x> `<b>` {{7*7}}")
    monkeypatch.setattr(SenderChecker, "tenant", lambda *_: evil)
    admin.send("/ui/doctor/ask", {})
    assert "&lt;img src=x&gt; `&lt;b&gt;` {{7*7}}" in admin.look("/ui/doctor")


def test_who_only_reads_sees_it_and_asks_nobody(reader, application):
    application.tenants.add("acme", "default")
    assert "Ask the providers" not in reader.look("/ui/doctor")
    assert reader.send("/ui/doctor/ask", {}).status_code == 403
    assert last_check("tenant:acme") is None


@pytest.mark.parametrize("level", ["ok", "warning", "error"])
def test_each_level_has_its_colour(level):
    import rqmail.web

    sheet = (Path(rqmail.web.__file__).parent / "static" / "pages.css").read_text()
    [meaning] = re.findall(rf"\.badge\.{level}[, ][^{{]*{{ background: var\(--(\w+)-soft\)", sheet)
    assert meaning == {"ok": "good", "warning": "warn", "error": "bad"}[level]
