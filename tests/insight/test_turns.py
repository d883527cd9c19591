"""Whose turn it is: one value for each sender, which says whether a person is needed; and problems by their cause."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from rqmail.errors import PauseCause
from rqmail.insight.ranking import causes
from rqmail.insight.standing import Machinery, Pause, Problem, Sentence, TurnCode
from rqmail.insight.turns import _MEANS, turn_of
from rqmail.models.counts import SenderCounts
from rqmail.queue_state import WorkerState
from support.clock import START

LATER, ENDLESS = START + timedelta(minutes=20), START + timedelta(days=3650)
WORKER = WorkerState("w1", "idle", ("ticks", "mail-high", "mail"), START)
WELL = Machinery("ok", "", {}, (WORKER,), START, START + timedelta(seconds=1), timedelta(seconds=10))
NOBODY = Machinery("ok", "", {}, (), None, None, timedelta(seconds=10))
AWAY = Machinery("unreachable", "", {}, (), None, None, timedelta(seconds=10))
WAITING = SenderCounts({"SCHEDULED": 3}, backlog=3, due=3, oldest=START - timedelta(minutes=5))
JUST_IN = SenderCounts({"SCHEDULED": 1}, backlog=1, due=1, oldest=START)


def person(until=ENDLESS, by="sanne"):
    return Pause(until, "kermis", "paused-by-person", by)


@pytest.mark.parametrize(
    ("counted", "pause", "machinery", "code", "needs_person", "text"),
    [
        (SenderCounts(), None, WELL, "idle", False, "nothing waits"),
        (SenderCounts(later=2), None, WELL, "later", False, "nothing is due"),
        (WAITING, None, WELL, "sending", False, "mail is going out"),
        (WAITING, None, NOBODY, "nobody", True, "nobody carries mail"),
        (JUST_IN, None, NOBODY, "sending", False, "mail is going out"),
        (WAITING, None, AWAY, "redis", True, "Redis is away"),
        (WAITING, person(), AWAY, "redis", True, "Redis is away"),
        (WAITING, person(), WELL, "paused-by-person", True, "paused by sanne until it is resumed: kermis"),
        (SenderCounts(), person(), WELL, "paused-by-person", False, "paused by sanne until it is resumed: kermis"),
        (WAITING, person(LATER), WELL, "paused-by-person", False, "paused by sanne until 09:50:20 UTC: kermis"),
        (WAITING, person(by=None), WELL, "paused-by-person", True, "paused by a person until it is resumed: kermis"),
        (
            WAITING, Pause(LATER, "429", "throttled"), WELL,
            "throttled", False, "throttled by Microsoft until 09:50:20 UTC: 429",
        ),
        (WAITING, Pause(LATER, "x", "not-found"), WELL, "not-found", True, "mailbox not found until 09:50:20 UTC: x"),
        (WAITING, Pause(LATER, "x", "sign-in"), WELL, "sign-in", True, "sign-in refused until 09:50:20 UTC: x"),
        (
            WAITING, Pause(LATER, "x", "rejecting"), WELL,
            "rejecting", True, "its mail is rejected until 09:50:20 UTC: x",
        ),
        (WAITING, Pause(LATER, "x", None), WELL, "paused", True, "paused until 09:50:20 UTC: x"),
        (
            SenderCounts({"SCHEDULED": 1}, backlog=1, put_off=1, oldest=START, next_on=LATER),
            None,
            WELL,
            "retrying",
            False,
            "to be tried again at 09:50:20 UTC",
        ),
    ],
)  # fmt: skip
def test_a_senders_turn_is_said_once_and_says_whether_it_needs_a_person(
    counted, pause, machinery, code, needs_person, text
):
    turn = turn_of(counted, None, pause, machinery, "Microsoft", START)
    assert (turn.code, turn.needs_person, str(turn.text)) == (code, needs_person, text)


def test_every_turn_and_every_cause_of_a_pause_has_a_meaning():
    codes = set()
    for one in get_args(TurnCode):
        codes |= set(get_args(one)) or {one}
    assert set(get_args(PauseCause)) <= codes
    assert codes - {"paused-by-person"} == set(_MEANS)


def problem(code, sender, waiting, *, level="warning", reason="", by=None):
    said = Sentence("sender-paused", f"{sender} is paused", reason=reason, by=by)
    return Problem(level, code, said, sender, waiting)


def test_what_has_one_cause_is_one_line_and_much_waiting_mail_comes_before_little():
    found = causes(
        [
            problem("throttled", "mailbox:a", 5, reason="429"),
            problem("not-found", "mailbox:b", 40, reason="404"),
            problem("throttled", "mailbox:c", 90, reason="429"),
            problem("paused-by-person", "mailbox:d", 7, reason="kermis", by="sanne"),
            problem("paused-by-person", "mailbox:e", 8, reason="kermis", by="joost"),
            problem("nobody", "mailbox:f", 1, level="error"),
        ]
    )
    assert [(one.level, one.code, one.waiting, one.senders) for one in found] == [
        ("error", "nobody", 1, ("mailbox:f",)),
        ("warning", "throttled", 95, ("mailbox:c", "mailbox:a")),
        ("warning", "not-found", 40, ("mailbox:b",)),
        ("warning", "paused-by-person", 8, ("mailbox:e",)),
        ("warning", "paused-by-person", 7, ("mailbox:d",)),
    ]
    assert str(found[1].text) == "2 senders are held back (429): 95 messages wait."


def test_senders_that_cannot_sign_in_are_not_all_told_to_mend_the_tenant_of_one():
    wrong = [problem("sign-in", f"tenant:{key}", 3, reason=f"check graphClientSecret of tenant {key}") for key in "ab"]
    [one] = causes(wrong)
    assert str(one.text) == "2 senders are held back (sign-in refused): 6 messages wait."
    assert [text.values["reason"][-1] for text in one.texts] == ["a", "b"]
