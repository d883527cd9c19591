"""Copies in Sent Items are removed when their mail is long settled, and nothing else is touched."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.delivery.pruning import SentPruner
from rqmail.errors import MailAuthError
from rqmail.mailers.graph.copies import Copy
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import MessageStatus
from rqmail.models.pruning import SentPruning
from support.clock import START
from support.messages import message_in

S = MessageStatus
LONG_AGO = START - timedelta(days=31)


class Box:
    """Stands for the Sent Items of every mailbox."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.trouble: Exception | None = None
        self.asked: list[str] = []

    def sent_copies(self, mailbox: SystemMailbox) -> Box:
        self.asked.append(mailbox.key)
        return self

    def pages(self, before):
        if self.trouble is not None:
            raise self.trouble
        yield [Copy(item, f"AAMk-{item}") for item in self.items]

    def remove(self, copy: Copy) -> None:
        assert copy.item_id == f"AAMk-{copy.message_id}"
        self.items.remove(copy.message_id)


class Seconds:
    """A monotonic clock that goes on by a step with every look."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def prune(box, clock):
    def run(step=0.0):
        return SentPruner(box, clock, Seconds(step)).run()

    return run


def mailbox(key="news", sent_items="prune", days=30, **fields):
    fields = {"created_on": START, "changed_on": START} | fields
    SystemMailbox.create(key=key, address=f"{key}@example.org", sent_items=sent_items, prune_after_days=days, **fields)


def settled(status=S.SENT, ended_on=LONG_AGO) -> str:
    return message_in(status, ended_on=ended_on).id


def test_a_copy_goes_so_many_days_after_its_message_was_settled_and_not_before(database, box, prune):
    mailbox()
    old, young = settled(), settled(ended_on=START - timedelta(days=29))
    box.items = [old, young]
    assert prune() == {"news": 1}
    assert box.items == [young]


@pytest.mark.parametrize("status", [S.UNKNOWN, S.SCHEDULED, S.SENDING])
def test_the_copy_of_a_message_that_is_not_settled_stays_whatever_its_age(database, box, prune, status):
    mailbox()
    box.items = [message_in(status, created_on=LONG_AGO, ended_on=None).id]
    assert prune() == {"news": 0}
    assert len(box.items) == 1


def test_a_copy_of_another_installation_or_of_a_forgotten_message_stays(database, box, prune):
    mailbox()
    box.items = ["0199-not-ours"]
    assert prune() == {"news": 0}
    assert box.items == ["0199-not-ours"]


def test_a_mailbox_that_keeps_its_copies_or_makes_none_is_not_even_looked_into(database, box, prune):
    mailbox("keeps", sent_items=None, days=None)
    mailbox("none", sent_items="none", days=None)
    assert prune() == {}
    assert box.asked == []


def test_a_failure_pauses_pruning_of_its_mailbox_for_an_hour_with_the_reason(database, box, prune, clock):
    mailbox()
    box.items, box.trouble = [settled()], MailAuthError("Mail.ReadWrite is missing")
    prune()
    assert (SentPruning.of("news").problem, SentPruning.of("news").removed) == ("Mail.ReadWrite is missing", 0)
    box.trouble = None
    assert prune() == {}
    clock.advance(seconds=3600)
    assert prune() == {"news": 1}
    assert (SentPruning.of("news").problem, SentPruning.of("news").removed) == (None, 1)


def test_a_pass_that_ran_out_of_time_goes_on_at_the_next_tick(database, box, prune):
    mailbox()
    box.items = [settled() for _ in range(5)]
    assert prune(step=8.0)["news"] < 5
    assert prune()["news"] > 0
    assert box.items == []
    assert SentPruning.of("news").removed == 5
