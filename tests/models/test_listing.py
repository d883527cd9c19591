"""Messages found by what is known about them, and old ones forgotten: each held against looking by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqmail.models.listing import Filter, addresses, count, count_by_status, find, find_ids, first_recipients
from rqmail.models.message import (
    FINAL,
    Attempt,
    Message,
    MessageContent,
    MessageStatus,
    NewRecipient,
    Priority,
    Recipient,
    RecipientKind,
)
from support.clock import START
from support.messages import ATTEMPT, message_in, new_message

S = MessageStatus
DAY = timedelta(days=1)

SENDERS = ["mailbox:a", "mailbox:b"]
SUBJECTS = ["Één uitnodiging", "100% korting_!", "<script>", "korting"]
ADDRESSES = ["Zoe@Example.org", "jan@example.org"]
IMPORTS = ["0195f000-0000-7000-8000-000000000001", "0195f000-0000-7000-8000-000000000002"]

rows = st.lists(
    st.tuples(
        st.sampled_from(SENDERS),
        st.sampled_from([S.SCHEDULED, S.SENT, S.ERROR]),
        st.sampled_from(Priority),
        st.sampled_from(SUBJECTS),
        st.sampled_from(ADDRESSES),
        st.integers(0, 3),  # submitted so many days after the start
        st.sampled_from([None, *IMPORTS]),
    ),
    max_size=10,
)
filters = st.builds(
    Filter,
    status=st.sampled_from([None, S.SCHEDULED, S.SENT]),
    sender=st.sampled_from([None, *SENDERS]),
    recipient=st.sampled_from([None, "Zoe@Example.org", " JAN@example.org", "jan"]),
    subject=st.sampled_from([None, "één", "%", "_", "!", "KORTING", "<script>", "'"]),
    priority=st.sampled_from([None, Priority.HIGH, Priority.NORMAL]),
    created_from=st.sampled_from([None, START + DAY]),
    created_to=st.sampled_from([None, START + 2 * DAY]),
    import_id=st.sampled_from([None, *IMPORTS, "nothing"]),
    search=st.sampled_from([None, " ", "zoe@example.org", "an@example.org", "@EXAMPLE.org", "één", "%", "_", "!", "'"]),
)


def fits(wanted: Filter, row) -> bool:
    sender, status, priority, subject, address, day, import_id = row
    created = START + day * DAY
    return (
        wanted.status in {None, status}
        and wanted.import_id in {None, import_id}
        and wanted.sender in {None, sender}
        and wanted.priority in {None, priority}
        and (wanted.subject is None or wanted.subject.lower() in subject.lower())
        and (wanted.recipient is None or wanted.recipient.strip().lower() == address.lower())
        and (wanted.search is None or any(wanted.search.strip().lower() in text.lower() for text in (subject, address)))
        and (wanted.created_from is None or created >= wanted.created_from)
        and (wanted.created_to is None or created < wanted.created_to)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sample=rows, wanted=filters)
def test_a_filter_finds_what_looking_at_each_message_finds_newest_first(database, sample, wanted):
    Message.delete().execute()
    ids = []
    for sender, status, priority, subject, address, day, import_id in sample:
        new = new_message(sender, subject=subject, priority=priority, to=(address,))
        ids += Message.submit([new], START + day * DAY, import_id=import_id)
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


@pytest.fixture
def invitation(database):
    """One message to two people among others, with an attempt behind it."""
    jan = NewRecipient(RecipientKind.TO, "J.deVries@Sales.Example.org", "Jan-Édouard de Vries")
    copy = NewRecipient(RecipientKind.BCC, "zoë_100%@example.net", "")
    new = replace(new_message(subject="Een uitnodiging"), recipients=(jan, copy))
    Message.submit([new_message(to=("other@example.com",)), new, new_message(to=("an@example.com",))], START)
    log = json.dumps(vars_of(ATTEMPT) | {"request_id": REQUEST_ID, "client_request_id": CLIENT_ID}) + "\n"
    Message.update(attempt_log=log).where(Message.id == new.id).execute()
    return new.id


REQUEST_ID = "a3f6c0de-91b4-4a27-8a0b-6d3c2e8f4b19"
CLIENT_ID = "filter0001.14c5d75ce93"


def vars_of(attempt: Attempt) -> dict[str, object]:
    return {name: getattr(attempt, name) for name in Attempt.__slots__}


@pytest.mark.parametrize(
    "typed",
    [
        "j.devries@sales.example.org",
        "<J.deVries@Sales.Example.org>",
        "\u200bj.devries@sales.example.org ",
        "devries@sales",
        "sales.example.org",
        "@sales",
        "de vries",
        "JAN-ÉDOUARD",
        "uitnod",
        "zoë_100%@example.net",
        "ZOË_100%",
        "0%@",
        REQUEST_ID,
        CLIENT_ID,
    ],
)
def test_one_box_takes_an_address_a_domain_a_name_a_subject_or_a_request_id(invitation, typed):
    assert find_ids(Filter(search=typed), limit=10) == [invitation]
    assert count(Filter(search=typed)) == 1


def test_one_box_takes_a_message_id_and_its_beginning(invitation):
    assert find_ids(Filter(search=f" {invitation.upper()}"), limit=10) == [invitation]
    assert invitation in find_ids(Filter(search=invitation[:8]), limit=10)
    assert find_ids(Filter(search=invitation[:-2]), limit=10) == [invitation]


@pytest.mark.parametrize("typed", ["j_devries@sales.example.org", "tested", "outcome", '"tested"', "a%s", "a\x00b"])
def test_what_is_typed_is_text_and_no_pattern_and_history_is_searched_for_request_ids_only(invitation, typed):
    assert find_ids(Filter(search=typed), limit=10) == []


def test_a_list_tells_the_first_recipient_and_an_export_all_of_them(invitation):
    assert first_recipients([invitation, "unknown"]) == {invitation: "J.deVries@Sales.Example.org"}
    assert addresses([invitation]) == {invitation: ("J.deVries@Sales.Example.org", "zoë_100%@example.net")}
    assert (first_recipients([]), addresses([])) == ({}, {})


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
