"""Killed at any step by which people become messages, and at any by which they are taken back: everybody once."""

from __future__ import annotations

import io
import signal
from collections import Counter

import pytest

from reliability.dying import Moment, die_at
from reliability.running import Running
from rqmail.campaigns.campaign import NewCampaign
from rqmail.models import campaigns, progress

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


def begin(running: Running) -> None:
    rows = "to,name\n" + "".join(f"p{n}@example.org,N{n}\n" for n in range(PEOPLE))
    wanted = NewCampaign("Spring", ["news"], "Hi {{ name }}", text="Dear {{ name }}")
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
