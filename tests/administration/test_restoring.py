"""After a restore nothing is sent that may have been sent since the backup."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from rqmail.administration.audit import Audit
from rqmail.administration.restoring import Restored, Restoring
from rqmail.delivery.senders import Sender
from rqmail.errors import InvalidInputError
from rqmail.models import importing
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.importing import ImportState, MessageImport
from rqmail.models.message import Message, MessageStatus
from support.clock import START
from support.messages import MAILBOX, message_in, reloaded, submitted

S = MessageStatus
NOTHING = Restored(0, [], [], dry_run=False)


@dataclass
class OneSender:
    """Stands for the senders: a mailbox that keeps no copy of what it sends."""

    def all(self):
        return {"mailbox:news": Sender("mailbox:news", MAILBOX, None, None, copied=False)}


@pytest.fixture
def restoring(clock):
    clock.advance(seconds=3600)
    return Restoring(OneSender(), Audit(clock), clock, who="ops")


def campaign(name, state, started_on):
    told = {"subject": "x", "fields": "[]", "language": "en", "created_by": "sanne", "people": 1}
    return Campaign.create(name=name, state=state, created_on=START, started_on=started_on, **told)


def test_what_waited_is_in_doubt_and_keeps_where_it_would_have_gone(database, restoring, clock):
    waited, queued, sending = (message_in(state) for state in (S.SCHEDULED, S.QUEUED, S.SENDING))
    ended = [message_in(state) for state in (S.SENT, S.ERROR, S.CANCELLED, S.EXPIRED, S.UNKNOWN)]
    [since] = submitted(now=START + timedelta(minutes=30))

    assert restoring.recover(START, dry_run=True) == Restored(2, [], [], dry_run=True)
    assert reloaded(waited).status == S.SCHEDULED
    assert restoring.recover(START) == Restored(2, [], [], dry_run=False)

    for message in map(reloaded, (waited, queued)):
        assert (message.status, message.attempts, message.job_id) == (S.UNKNOWN, 0, None)
        assert message.route.mailbox_key == MAILBOX
        assert not message.route.copied, "that nothing is found there would prove nothing"
        assert message.unclear_since == clock()
    assert reloaded(sending).status == S.SENDING
    assert [reloaded(message).status for message in ended] == [message.status for message in ended]
    assert reloaded(since).status == S.SCHEDULED


def test_repeated_it_leaves_alone_what_was_found_out_meanwhile_and_another_backup_puts_it_in_doubt_again(
    database, restoring, clock
):
    message = message_in(S.SCHEDULED)
    restoring.recover(START)
    assert restoring.recover(START) == NOTHING
    assert reloaded(message).send_again(clock(), "It is not there.")
    assert restoring.recover(START) == NOTHING
    assert reloaded(message).status == S.SCHEDULED
    assert restoring.recover(START + timedelta(minutes=1)).messages == 1
    assert len(restoring.audit.lines()) == 2


def test_a_message_whose_sender_is_gone_is_in_doubt_as_well(database, restoring):
    message = message_in(S.SCHEDULED, sender="tenant:gone")
    assert restoring.recover(START).messages == 1
    assert (reloaded(message).status, reloaded(message).route) == (S.UNKNOWN, None)


def test_running_campaigns_are_paused_and_imports_being_stored_are_stopped(database, restoring, clock):
    campaign("spring", CampaignState.RUNNING.value, START)
    campaign("paused", CampaignState.PAUSED.value, START)
    campaign("since", CampaignState.RUNNING.value, START + timedelta(minutes=1))
    importing.begin("i1", "sanne", "a.csv", "mailbox:news", now=START, lease_until=START)
    MessageImport.update(state=ImportState.STORING.value).execute()

    assert restoring.recover(START, dry_run=True) == Restored(0, ["spring"], ["i1"], dry_run=True)
    assert restoring.recover(START) == Restored(0, ["spring"], ["i1"], dry_run=False)
    states = {one.name: one.state for one in Campaign.select()}
    assert states == {"spring": "PAUSED", "paused": "PAUSED", "since": "RUNNING"}
    assert importing.find("i1").state == ImportState.UNDONE.value
    [line] = restoring.audit.lines()
    assert (line.who, line.action, line.after["campaignsPaused"]) == ("ops", "backup.recover", ["spring"])
    assert restoring.recover(START) == NOTHING


def test_a_moment_that_has_not_come_is_refused(restoring, clock):
    with pytest.raises(InvalidInputError, match="taken-at"):
        restoring.recover(clock() + timedelta(seconds=1))


def test_messages_are_gone_through_in_batches(sqlite_database, restoring, monkeypatch):
    monkeypatch.setattr("rqmail.administration.restoring._AT_ONCE", 2)
    for _ in range(5):
        message_in(S.SCHEDULED)
    assert restoring.recover(START).messages == 5
    assert Message.select().where(Message.status == S.UNKNOWN.value).count() == 5
