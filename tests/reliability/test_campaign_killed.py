"""Killed at any step by which people become messages, and at any by which they are taken back: everybody once."""

from __future__ import annotations

import csv
import io
import re
import signal
from collections import Counter

import pytest

from reliability.dying import Moment, die_at
from reliability.running import Running
from rqmail.campaigns.campaign import NewCampaign
from rqmail.models import campaigns, progress, suppression
from rqmail.models.progress import Wanted
from rqmail.web.app import create_app

PEOPLE = 4

FEEDING = {
    "before anybody is taken": Moment("dispatcher", "before", "rqmail.models.audience:take"),
    "who is next is known": Moment("dispatcher", "after", "rqmail.models.audience:_next"),
    "messages made, people not marked": Moment("dispatcher", "before", "rqmail.models.audience:_mark_taken"),
    "people marked, not committed": Moment("dispatcher", "after", "rqmail.models.audience:_mark_taken"),
    "taken": Moment("dispatcher", "after", "rqmail.models.audience:take"),
    "claimed": Moment("dispatcher", "after", "rqmail.models.message:Message.claim_due"),
}

TAKING_BACK = {
    "before it is taken back": Moment("dispatcher", "before", "rqmail.models.audience:take_back"),
    "put back, not deleted": Moment("dispatcher", "after", "rqmail.models.message:Message.put_back"),
    "taken back": Moment("dispatcher", "after", "rqmail.models.audience:take_back"),
}


def begin(running: Running, text: str = "Dear {{ name }}", *, unsubscribe: bool = False) -> None:
    rows = "to,name\n" + "".join(f"p{n}@example.org,N{n}\n" for n in range(PEOPLE))
    wanted = NewCampaign("Spring", ["news"], "Hi {{ name }}", text=text, unsubscribe=unsubscribe)
    running.app.campaigns.create(wanted, io.BytesIO(rows.encode()))
    running.app.campaigns.start("Spring")


def everybody_once(running: Running) -> None:
    running.settle()
    running.pass_time(minutes=3)
    told = running.control.accepted(fields=("to",))
    assert Counter(address for mail in told for address in mail["to"]) == {
        f"p{n}@example.org": 1 for n in range(PEOPLE)
    }
    campaign = campaigns.find("Spring")
    assert (campaign.state, progress.counts([campaign.id])[campaign.id]) == ("DONE", {"SENT": PEOPLE})


@pytest.mark.parametrize("name", FEEDING)
def test_killed_while_people_become_messages_everybody_gets_one_mail(running, name):
    begin(running)
    assert die_at(FEEDING[name], running.environment) == -signal.SIGKILL
    everybody_once(running)


@pytest.mark.parametrize("name", TAKING_BACK)
def test_killed_while_a_pause_takes_mail_back_everybody_gets_one_mail_after_it(running, name):
    begin(running)
    running.app.dispatcher.tick()
    running.app.campaigns.pause("Spring")
    assert die_at(TAKING_BACK[name], running.environment) == -signal.SIGKILL
    running.pass_time(seconds=40)
    assert running.control.accepted() == []
    running.app.campaigns.resume("Spring")
    everybody_once(running)


def test_a_worker_killed_in_the_middle_of_a_send_neither_loses_nor_doubles_a_persons_mail(running):
    begin(running)
    running.app.dispatcher.tick()
    moment = Moment("worker", "before", "urllib3.connection:HTTPConnection.getresponse")
    assert die_at(moment, running.environment) == -signal.SIGKILL
    everybody_once(running)


def test_bounces_and_unsubscribes_come_back_after_a_kill_and_the_export_is_the_providers_record(running):
    hard, soft, leaving = (f"p{n}@example.org" for n in range(3))
    running.control.configure(bounces={hard: "5.1.1", soft: "5.2.2"})
    begin(running, "Dear {{ name }}: {{ unsubscribe_url }}", unsubscribe=True)
    running.app.dispatcher.tick()
    moment = Moment("worker", "before", "urllib3.connection:HTTPConnection.getresponse")
    assert die_at(moment, running.environment) == -signal.SIGKILL
    everybody_once(running)

    [body] = [mail["body"] for mail in running.control.accepted(fields=("to", "body")) if mail["to"] == [leaving]]
    [path] = re.findall(r"http://127\.0\.0\.1:8080(/unsubscribe/[\w-]+)", body)
    answer = create_app(running.app).test_client().post(path, data={"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 200
    assert running.app.bounces.run() == {"news@contoso.example": 2}

    lines = "".join(running.app.campaign_progress.as_csv("Spring", Wanted())).lstrip("\ufeff").splitlines()
    exported = csv.DictReader(lines)
    assert {one["address"]: (one["status"], one["bounced"], bool(one["unsubscribedOn"])) for one in exported} == {
        hard: ("SENT", "5.1.1", False),
        soft: ("SENT", "5.2.2", False),
        leaving: ("SENT", "", True),
        "p3@example.org": ("SENT", "", False),
    }
    assert {one.address: one.reason for one in suppression.listed()} == {hard: "hard-bounce", leaving: "unsubscribe"}
