"""What dispatch and recovery decide on, held against counting by hand."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqmail.models import backlog
from rqmail.models.backlog import Due, Refused, Unfinished
from rqmail.models.ledger import sends_since
from rqmail.models.message import Message, MessageStatus, NewMessage, Priority
from support.clock import START
from support.messages import message_in, new_message, submitted

S = MessageStatus
HELD = (S.QUEUED, S.SENDING, S.UNKNOWN)

#: Orders a lease that somebody took away by hand before every other.
NEVER = -10

rows = st.lists(
    st.tuples(
        st.sampled_from(["default", "mailbox:a", "mailbox:b", "tenant:a", "mailbox:é"]),
        st.sampled_from(MessageStatus),
        st.sampled_from(Priority),
        st.integers(-2, 2),  # scheduled so many seconds from now
        st.one_of(st.none(), st.integers(-2, 2)),  # leased until so many seconds from now
        st.integers(1, 4),  # recipients
    ),
    max_size=14,
)


def store(sample) -> list[str]:
    """Store the sampled rows, each in its state, and answer their ids."""
    Message.delete().execute()
    batch: list[NewMessage] = [
        new_message(sender, to=to, priority=priority, at=START + timedelta(seconds=at))
        for sender, _, priority, at, _, to in sample
    ]
    ids = Message.submit(batch, START)
    for message_id, (_, status, _, _, lease, _) in zip(ids, sample, strict=True):
        until = None if lease is None else START + timedelta(seconds=lease)
        Message.update(status=status.value, lease_until=until).where(Message.id == message_id).execute()
    return ids


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sample=rows)
def test_what_is_due_in_hand_queued_and_overdue_is_what_counting_by_hand_finds(database, sample):
    ids = store(sample)

    due = {(sender, priority) for sender, status, priority, at, _, _ in sample if status is S.SCHEDULED and at <= 0}
    assert sorted(backlog.due(START), key=lambda d: (d.sender, d.priority)) == [Due(*d) for d in sorted(due)]

    held = backlog.unfinished()
    for sender in {sender for sender, *_ in sample}:
        mine = [(status, to) for name, status, _, _, _, to in sample if name == sender]
        queued = [to for status, to in mine if status is S.QUEUED]
        sending = [to for status, to in mine if status is S.SENDING]
        expected = Unfinished(len(queued), sum(queued), len(sending), sum(sending))
        assert held.get((sender, None), Unfinished()) == expected
    assert Unfinished() not in held.values()

    in_jobs = [
        (priority, at, message_id)
        for message_id, (_, status, priority, at, _, _) in zip(ids, sample, strict=True)
        if status is S.QUEUED
    ]
    assert [waiting.id for waiting in backlog.queued(ids)] == [message_id for _, _, message_id in sorted(in_jobs)]

    for status in HELD:
        over = {
            message_id: NEVER if lease is None else lease
            for message_id, (_, now, _, _, lease, _) in zip(ids, sample, strict=True)
            if now is status and (lease is None or lease <= 0)
        }
        found = [message.id for message in backlog.overdue(status, START, limit=100)]
        assert set(found) == set(over)
        assert [over[message_id] for message_id in found] == sorted(over.values())
        assert [m.id for m in backlog.overdue(status, START, limit=2)] == found[:2] or len(set(over.values())) < len(
            over
        )


def test_the_first_message_due_tells_how_many_recipients_it_has(database):
    submitted(new_message(to=2, at=START), new_message(to=7, at=START - timedelta(seconds=1)))
    [due] = backlog.due(START)
    assert due.recipients == 7


def test_what_the_limiter_refused_is_listed_while_it_waits_and_is_worth_sending(database):
    for status, fields in (
        (S.SCHEDULED, {"waiting_for": "day", "recipient_count": 3, "priority": Priority.HIGH}),
        (S.SCHEDULED, {"waiting_for": "minute", "scheduled_on": START + timedelta(seconds=1)}),
        (S.SCHEDULED, {"waiting_for": "day", "expires_on": START}),
        (S.SCHEDULED, {"waiting_for": "paused"}),
        (S.SCHEDULED, {}),
        (S.QUEUED, {"waiting_for": "day"}),
    ):
        message_in(status, **fields)
    assert sorted(backlog.refused(START), key=lambda one: one.priority) == [
        Refused("mailbox:news", Priority.HIGH, 3, due=True),
        Refused("mailbox:news", Priority.NORMAL, 1, due=False),
    ]


def test_what_is_being_sent_counts_for_the_mailbox_it_goes_through_and_what_is_queued_for_its_senders(database):
    former, new = "former@contoso.example", "new@contoso.example"
    for status, mailbox in ((S.SENDING, former), (S.SENDING, former), (S.SENDING, new), (S.QUEUED, former)):
        message_in(status, mailbox_key=mailbox)
    assert backlog.unfinished() == {
        ("mailbox:news", None): Unfinished(queued=1, queued_recipients=1),
        ("mailbox:news", former): Unfinished(sending=2, sending_recipients=2),
        ("mailbox:news", new): Unfinished(sending=1, sending_recipients=1),
    }


def test_an_empty_table_has_nothing_due_and_nothing_in_hand(database):
    assert (backlog.due(START), backlog.unfinished(), backlog.queued([])) == ([], {}, [])


def test_the_ledger_lists_what_used_a_mailboxs_budget_since_then_each_as_late_as_it_can_have_been(database):
    def sent(seconds: float, status: S = S.SENT, key: str = "news@example.org", recipients: int = 1) -> str:
        at = START + timedelta(seconds=seconds)
        later = {S.SENT: {"sent_on": at + timedelta(seconds=5)}, S.SENDING: {"lease_until": at + timedelta(minutes=2)}}
        fields = {"attempted_on": at, "mailbox_key": key, "recipient_count": recipients}
        return message_in(status, **fields, **later.get(status, {})).id

    large = sent(2, recipients=7)
    Message.update(upload_bytes=9_000_000).where(Message.id == large).execute()
    sent(1, S.UNKNOWN, recipients=3)
    sending = sent(3.001, S.SENDING)
    sent(1.5, S.ERROR)
    sent(1.6, S.SCHEDULED)
    sent(1.7, key="other@example.org")
    sent(0)
    base = int(START.timestamp() * 1000)
    assert sends_since("news@example.org", START) == [
        (base + 1000, 3, None, 0),
        (base + 7000, 7, None, 9_000_000),
        (base + 123_001, 1, f"{sending}:claim-1", 0),
    ]
    assert sends_since("nobody@example.org", START) == []
