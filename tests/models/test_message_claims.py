"""How messages are taken up: in which order, how many, and by one only."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import timedelta
from textwrap import dedent

import pytest

from rqmail.models import backlog
from rqmail.models.base import db, pooled_connection
from rqmail.models.message import Message, MessageStatus, Priority
from support.clock import START
from support.messages import message_in, new_message, reloaded, submitted

S = MessageStatus
LEASE = timedelta(minutes=5)


def claim(sender="mailbox:news", priority=Priority.NORMAL, *, now=START, calls=100, recipients=None, **more):
    claims = Message.claim_due(
        sender, priority, now=now, calls=calls, recipients=recipients, job_id="job-1", lease=LEASE, **more
    )
    return [taken.id for taken in claims]


def test_a_claim_takes_what_is_due_of_one_sender_and_priority_oldest_first(database):
    later, first, second, _future, _other, _urgent = submitted(
        new_message(at=START - timedelta(seconds=1)),
        new_message(at=START - timedelta(hours=2)),
        new_message(at=START - timedelta(hours=1)),
        new_message(at=START + timedelta(microseconds=1)),
        new_message("mailbox:other"),
        new_message(priority=Priority.HIGH),
    )
    assert claim(calls=2) == [first, second]
    assert claim() == [later]
    assert claim() == []


def test_messages_of_one_moment_are_claimed_in_the_order_they_were_submitted(database):
    ids = submitted(*(new_message(at=START) for _ in range(20)))
    assert claim() == ids


def test_a_claimed_message_is_queued_under_its_job_and_leased(database):
    [message_id] = submitted()
    [taken] = Message.claim_due(
        "mailbox:news", Priority.NORMAL, now=START, calls=1, recipients=None, job_id="job-7", lease=LEASE
    )
    message = reloaded(message_id)
    assert (taken.id, taken.recipient_count) == (message_id, 1)
    assert (message.status, message.job_id, message.lease_until) == (S.QUEUED, "job-7", START + LEASE)


@pytest.mark.parametrize(
    ("room", "taken"), [(0, 0), (2, 0), (3, 1), (7, 1), (8, 2), (9, 3), (100, 3), (None, 3)], ids=str
)
def test_the_first_message_that_does_not_fit_the_recipients_left_ends_the_claim(database, room, taken):
    ids = submitted(*(new_message(to=to, at=START) for to in (3, 5, 1)))
    assert claim(recipients=room) == ids[:taken]


def test_a_message_larger_than_any_budget_is_claimed_to_fail_and_takes_no_room(database):
    small, hopeless, small_too = submitted(*(new_message(to=to, at=START) for to in (2, 30, 2)))
    assert claim(recipients=4, never_more_than=20) == [small, hopeless, small_too]


def test_a_claim_says_through_which_mailbox_the_message_will_go(database):
    [message_id] = submitted()
    assert claim(mailbox_key="news@example.org") == [message_id]
    assert reloaded(message_id).mailbox_key == "news@example.org"


def test_sending_begins_once_for_each_message_whoever_else_asks(database):
    first, second, third = (message_in(S.QUEUED) for _ in range(3))
    mine = Message.start_sending([first.id, second.id], claim="claim-1", now=START, lease_until=START + LEASE)
    theirs = Message.start_sending([second.id, third.id], claim="claim-2", now=START, lease_until=START + LEASE)
    assert (mine, theirs) == ({first.id, second.id}, {third.id})
    started = reloaded(second)
    assert (started.status, started.claim, started.job_id) == (S.SENDING, "claim-1", None)
    assert (started.attempted_on, started.lease_until) == (START, START + LEASE)
    assert Message.start_sending([], claim="claim-3", now=START, lease_until=START) == set()


def test_what_was_started_and_certainly_not_sent_is_put_back_by_its_own_claim_alone(database):
    message = message_in(S.SENDING, claim="mine")
    assert Message.put_back_unsent([message.id], "another") == []
    assert Message.put_back_unsent([message.id], "mine") == [message.id]
    after = reloaded(message)
    assert (after.status, after.attempts, after.deferrals, after.lease_until) == (S.SCHEDULED, 0, 0, None)


def test_threads_that_claim_at_once_share_the_messages_and_none_gets_what_another_has(postgresql_database):
    ids = submitted(*(new_message(at=START) for _ in range(200)))
    taken: list[list[str]] = []
    start = threading.Barrier(4)

    def take() -> None:
        mine = []
        start.wait(timeout=10)
        while some := claim(calls=7):
            mine += some
        taken.append(mine)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    together = [message_id for mine in taken for message_id in mine]
    # SKIP LOCKED may let one see nothing while another holds the rest: what was left over is still there to be claimed.
    together += claim(calls=1000)
    assert sorted(together) == sorted(ids)


def test_processes_that_claim_at_once_share_the_messages_and_none_gets_what_another_has(database):
    ids = submitted(*(new_message(at=START) for _ in range(120)))
    program = dedent(
        """
        import json, sys
        from datetime import datetime, timedelta
        from rqmail.models.base import connect
        from rqmail.models.message import Message
        pool = connect(sys.argv[1])
        now = datetime.fromisoformat(sys.argv[2])
        mine = []
        print("ready", flush=True)
        sys.stdin.readline()
        while some := Message.claim_due(
            "mailbox:news", 1, now=now, calls=3, recipients=None, job_id="job", lease=timedelta(minutes=1)
        ):
            mine += [taken.id for taken in some]
        print(json.dumps(mine))
        pool.close_all()
        """
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, database.url, START.isoformat()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    together = []
    for process in processes:
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        together += json.loads(out)
    together += claim(calls=1000)
    assert sorted(together) == sorted(ids)


def test_of_many_threads_that_start_one_message_exactly_one_sends_it(database):
    message = message_in(S.QUEUED)
    won: list[str] = []
    start = threading.Barrier(8)

    def begin(name: str) -> None:
        start.wait(timeout=10)
        if Message.start_sending([message.id], claim=name, now=START, lease_until=START + LEASE):
            won.append(name)

    threads = [threading.Thread(target=begin, args=(f"worker-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert won == [reloaded(message).claim]


def test_no_statement_keeps_a_connection_from_the_others(database):
    held = []

    def use() -> None:
        message_id = Message.submit([new_message(at=START)], START)[0]
        Message.bring_forward([message_id], START)
        claim()
        Message.start_sending([message_id], claim="c", now=START, lease_until=START)
        [message] = backlog.overdue(S.SENDING, START, limit=1)
        message.lose_lease(START, look_at=START)
        message.look_again_at(START)
        message.send_again(START, "absent")
        Message.cancel([message_id])
        Message.leave_queued([message_id], START)
        Message.count_final(START + LEASE)
        Message.delete_final(START + LEASE, limit=5)
        held.append(not db.is_closed())

    db.close()
    thread = threading.Thread(target=use)
    thread.start()
    thread.join(timeout=30)
    assert held == [False]


def test_a_connection_borrowed_twice_is_one_and_is_given_back_once(database):
    db.close()
    with pooled_connection():
        outer = db.connection()
        with pooled_connection():
            assert db.connection() is outer
        assert not db.is_closed()
    assert db.is_closed()


def test_a_lease_is_prolonged_under_its_own_claim_only_and_a_request_may_begin_in_its_first_half(database):
    message = message_in(S.SENDING)
    later = START + timedelta(minutes=4)
    assert not message.may_begin(later)
    assert message.prolong(later, later + timedelta(minutes=6))
    assert reloaded(message).lease_until == later + timedelta(minutes=6)
    assert reloaded(message).attempted_on == START
    assert message.may_begin(later + timedelta(minutes=2))
    assert not message.may_begin(later + timedelta(minutes=3))
    for change in ({"claim": "another"}, {"status": S.UNKNOWN.value, "claim": "claim-1"}):
        Message.update(**change).where(Message.id == message.id).execute()
        assert not message.prolong(later, later + timedelta(hours=1))
        assert reloaded(message).lease_until == later + timedelta(minutes=6)
