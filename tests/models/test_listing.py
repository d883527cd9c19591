"""Messages found by what is known about them, and old ones forgotten: each held against looking by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqmail.models.listing import Filter, count, count_by_status, find, find_ids
from rqmail.models.message import FINAL, Message, MessageContent, MessageStatus, Priority, Recipient
from support.clock import START
from support.messages import message_in, new_message

S = MessageStatus
DAY = timedelta(days=1)

SENDERS = ["mailbox:a", "mailbox:b"]
SUBJECTS = ["Één uitnodiging", "100% korting_!", "<script>", "korting"]
ADDRESSES = ["Zoe@Example.org", "jan@example.org"]

rows = st.lists(
    st.tuples(
        st.sampled_from(SENDERS),
        st.sampled_from([S.SCHEDULED, S.SENT, S.ERROR]),
        st.sampled_from(Priority),
        st.sampled_from(SUBJECTS),
        st.sampled_from(ADDRESSES),
        st.integers(0, 3),  # submitted so many days after the start
    ),
    max_size=10,
)
filters = st.builds(
    Filter,
    status=st.sampled_from([None, S.SCHEDULED, S.SENT]),
    sender=st.sampled_from([None, *SENDERS]),
    recipient=st.sampled_from([None, "Zoe@Example.org", " jan@example.org", "jan"]),
    subject=st.sampled_from([None, "één", "%", "_", "!", "KORTING", "<script>", "'"]),
    priority=st.sampled_from([None, Priority.HIGH, Priority.NORMAL]),
    created_from=st.sampled_from([None, START + DAY]),
    created_to=st.sampled_from([None, START + 2 * DAY]),
)


def fits(wanted: Filter, row) -> bool:
    sender, status, priority, subject, address, day = row
    created = START + day * DAY
    return (
        wanted.status in {None, status}
        and wanted.sender in {None, sender}
        and wanted.priority in {None, priority}
        and (wanted.subject is None or wanted.subject.lower() in subject.lower())
        and (wanted.recipient is None or wanted.recipient.strip() == address)
        and (wanted.created_from is None or created >= wanted.created_from)
        and (wanted.created_to is None or created < wanted.created_to)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sample=rows, wanted=filters)
def test_a_filter_finds_what_looking_at_each_message_finds_newest_first(database, sample, wanted):
    Message.delete().execute()
    ids = []
    for sender, status, priority, subject, address, day in sample:
        new = new_message(sender, subject=subject, priority=priority, to=(address,))
        ids += Message.submit([new], START + day * DAY)
        Message.update(status=status.value).where(Message.id == new.id).execute()
    expected = [message_id for message_id, row in zip(ids, sample, strict=True) if fits(wanted, row)]

    assert find_ids(wanted, limit=100) == expected
    assert [message.id for message in find(wanted, limit=100)] == expected[::-1]
    assert count(wanted) == len(expected)
    assert sum(count_by_status(wanted).values()) == len(expected)


def test_pages_follow_each_other_without_a_gap_or_a_repeat(database):
    ids = Message.submit([new_message() for _ in range(7)], START)
    pages, after = [], None
    while page := [message.id for message in find(Filter(), limit=3, after=after)]:
        pages.append(page)
        after = page[-1]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [message_id for page in pages for message_id in page] == ids[::-1]


def test_a_filter_of_no_ids_finds_nothing(database):
    [one, _] = Message.submit([new_message(), new_message()], START)
    assert find_ids(Filter(ids=()), limit=5) == []
    assert find_ids(Filter(ids=(one, "unknown")), limit=5) == [one]


@pytest.mark.parametrize("status", MessageStatus)
def test_only_what_has_ended_and_is_old_is_forgotten(database, status):
    old = message_in(status, now=START)
    message_in(status, now=START + DAY)
    message_in(status, now=START, scheduled_on=START + DAY)  # submitted long ago for a moment that is not
    expected = 1 if status in FINAL else 0
    assert Message.count_final(START + DAY) == expected
    assert Message.delete_final(START + DAY, limit=10) == expected
    assert Message.select().count() == 3 - expected
    assert Message.select().where(Message.id == old.id).count() == 1 - expected


def test_forgetting_takes_content_and_recipients_along_and_no_more_at_once_than_it_is_told(database):
    for _ in range(5):
        message_in(S.SENT)
    assert [Message.delete_final(START + DAY, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert (MessageContent.select().count(), Recipient.select().count()) == (0, 0)
