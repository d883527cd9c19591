"""That a tick does not feel the size of the table: every decision is made by index, whatever statistics there are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.models import backlog
from rqmail.models.backlog import Place
from rqmail.models.ledger import external_since, sends_since
from rqmail.models.listing import Filter, find
from rqmail.models.lots import waiting_lots
from rqmail.models.message import Message, MessageStatus, Priority
from support.clock import START
from support.messages import new_message
from support.statements import plan, recorded, walks

NOW = START + timedelta(hours=1)
SENDERS = 20


@pytest.fixture
def busy_table(database):
    """A table with an archive, a backlog and some messages in hand; no statistics have been gathered."""
    batch = [
        new_message(
            f"mailbox:m{number % SENDERS}",
            at=START + timedelta(seconds=number),
            expires=START + timedelta(days=1 + number % 9) if number % 5 == 0 else None,
            priority=Priority(number % 3),
        )
        for number in range(3000)
    ]
    ids = Message.submit(batch, START)
    address = "news@example.org"
    Message.update(status="SENT", mailbox_key=address, attempted_on=START).where(Message.id.in_(ids[:1400])).execute()
    for status, some in (("QUEUED", ids[1400:1450]), ("SENDING", ids[1450:1480]), ("UNKNOWN", ids[1480:1500])):
        Message.update(status=status, lease_until=START, mailbox_key=address, attempted_on=START).where(
            Message.id.in_(some)
        ).execute()
    Message.update(waiting_for="day").where(Message.id.in_(ids[2560:2570])).execute()
    return ids


DECISIONS = {
    "due": lambda ids: backlog.due(NOW),
    "refused": lambda ids: backlog.refused(NOW),
    "unfinished": lambda ids: backlog.unfinished(),
    "before": lambda ids: (
        backlog.before(
            Place(ids[-1], "mailbox:m3", 2, START + timedelta(seconds=2990), 1),
            ("mailbox:m3", "mailbox:m4"),
            NOW,
            at_most=50,
        ).messages
    ),
    "queued": lambda ids: backlog.queued(ids[1400:1405]),
    "overdue": lambda ids: [backlog.overdue(MessageStatus(s), NOW, limit=10) for s in ("QUEUED", "SENDING", "UNKNOWN")],
    "claim_due": lambda ids: Message.claim_due(
        "mailbox:m3", 1, now=NOW, calls=5, recipients=9000, job_id="job-1", lease=timedelta(minutes=1)
    ),
    "claim_due refused": lambda ids: Message.claim_due(
        "mailbox:m4", 2, refused=True, now=NOW, calls=5, recipients=9000, job_id="job-1", lease=timedelta(minutes=1)
    ),
    "give_up_expired": lambda ids: Message.give_up_expired(START + timedelta(days=2)),
    "put_back": lambda ids: Message.put_back(ids[1400:1405]),
    "start_sending": lambda ids: Message.start_sending(ids[1440:1444], claim="c", now=NOW, lease_until=NOW),
    "cancel": lambda ids: Message.cancel(ids[2000:2005]),
    "bring_forward": lambda ids: Message.bring_forward(ids[2100:2105], NOW),
    "external_since": lambda ids: external_since("", START - timedelta(days=1)),
    "sends_since": lambda ids: sends_since("news@example.org", START - timedelta(days=1)),
}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_waits_is_counted_from_the_index_alone(busy_table):
    with recorded() as statements:
        assert sum(lot.messages for lot in waiting_lots(["mailbox:m3", "mailbox:m4"], NOW)) > 100
    [(sql, params)] = statements
    steps = [step for step in plan(sql, params) if "message_due" in step]
    assert len(steps) == 2, "what is due, and what is for later"
    assert all("COVERING INDEX" in step for step in steps), steps


def test_every_decision_is_made_by_index_and_without_statistics(busy_table):
    for name, decide in DECISIONS.items():
        with recorded() as statements:
            assert decide(busy_table), f"{name} found nothing to decide on, so it proves nothing"
        asked = [(sql, params) for sql, params in statements if sql.split()[0] in {"SELECT", "UPDATE", "WITH"}]
        assert asked, name
        for sql, params in asked:
            steps = plan(sql, params)
            assert not [step for step in steps if walks(step)], f"{name}: {sql}\n" + "\n".join(steps)


@pytest.mark.parametrize("typed", ["READER0@example.org", "the id"])
def test_a_whole_address_or_id_is_found_by_index(busy_table, typed):
    wanted = Filter(search=busy_table[7] if typed == "the id" else typed)
    with recorded() as statements:
        assert find(wanted, limit=5)
    for sql, params in statements:
        steps = plan(sql, params)
        assert not [step for step in steps if walks(step) or "SCAN recipient" in step], steps


@pytest.mark.parametrize("typed", ["reader", "sales.example.org", "a3f6c0de-91b4-4a27-8a0b-6d3c2e8f4b19"])
def test_a_part_of_something_is_looked_for_newest_first_without_sorting(busy_table, typed):
    with recorded() as statements:
        find(Filter(search=typed), limit=5)
    [(sql, params)] = statements
    steps = plan(sql, params)
    assert not [step for step in steps if "TEMP B-TREE" in step or step.strip().startswith("->  Sort")], steps
    assert [step for step in steps if "message_pkey" in step or "sqlite_autoindex_message_1" in step], steps


def test_the_messages_of_one_import_are_found_by_index(busy_table):
    Message.submit([new_message() for _ in range(20)], START, import_id="one")
    Message.submit([new_message() for _ in range(300)], START)
    with recorded() as statements:
        assert len(find(Filter(import_id="one"), limit=5)) == 5
    [(sql, params)] = statements
    steps = plan(sql, params)
    assert not [step for step in steps if "TEMP B-TREE" in step], steps  # PostgreSQL may sort what it takes for few
    assert [step for step in steps if "message_of_import" in step], steps


def test_due_seeks_the_first_message_of_a_sender_and_priority_instead_of_reading_what_waits(busy_table):
    with recorded() as statements:
        backlog.due(NOW)
    [(sql, params)] = statements
    steps = plan(sql, params)
    assert not [step for step in steps if "SORT" in step.upper() or "TEMP B-TREE" in step or "Hash" in step], steps


@pytest.mark.parametrize("name", ["claim_due", "start_sending", "put_back", "cancel", "bring_forward", "queued"])
def test_messages_named_by_id_are_found_by_id(busy_table, name):
    with recorded() as statements:
        assert DECISIONS[name](busy_table)
    [(sql, params)] = [asked for asked in statements if "id IN (" in asked[0].replace('"', "")]
    steps = "\n".join(plan(sql, params))
    assert "message_pkey" in steps or "sqlite_autoindex_message_1" in steps, steps
