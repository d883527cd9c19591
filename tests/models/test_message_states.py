"""Which moves a message may make, and that it makes no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from rqmail.models.message import ENTERED_FROM, FINAL, Message, MessageStatus
from rqmail.models.row import these
from support.clock import START
from support.messages import ATTEMPT, message_in, reloaded, row

S = MessageStatus
LATER = START + timedelta(minutes=2)


@dataclass(frozen=True)
class Way:
    """One public way into a state: what is called, where it leads, and from where it may be taken."""

    call: Callable[[Message], object]
    to: MessageStatus
    from_: frozenset[MessageStatus]


def _claim(message: Message) -> object:
    return Message.claim_due(
        message.sender,
        message.priority,
        now=LATER,
        calls=5,
        recipients=None,
        job_id="job-2",
        lease=timedelta(minutes=1),
    )


def _start(message: Message) -> object:
    return Message.start_sending([message.id], claim="claim-2", now=LATER, lease_until=LATER)


WAYS = {
    "claim_due": Way(_claim, S.QUEUED, frozenset({S.SCHEDULED})),
    "start_sending": Way(_start, S.SENDING, frozenset({S.QUEUED})),
    "mark_sent": Way(lambda m: m.mark_sent(LATER, ATTEMPT), S.SENT, ENTERED_FROM[S.SENT]),
    "mark_unknown": Way(
        lambda m: m.mark_unknown(ATTEMPT, look_at=LATER, error="timed out"), S.UNKNOWN, frozenset({S.SENDING})
    ),
    "mark_error": Way(lambda m: m.mark_error("wrong address", ATTEMPT), S.ERROR, frozenset({S.SENDING})),
    "retry_at": Way(lambda m: m.retry_at(LATER, error="refused", attempt=ATTEMPT), S.SCHEDULED, frozenset({S.SENDING})),
    "defer": Way(lambda m: m.defer(LATER, waiting_for="minute"), S.SCHEDULED, frozenset({S.SENDING})),
    "expire": Way(lambda m: Message.expire(m.id), S.EXPIRED, frozenset({S.SCHEDULED, S.QUEUED})),
    "put_back": Way(lambda m: Message.put_back([m.id]), S.SCHEDULED, frozenset({S.QUEUED})),
    "put_back_unsent": Way(lambda m: Message.put_back_unsent([m.id], "claim-1"), S.SCHEDULED, frozenset({S.SENDING})),
    "give_up_expired": Way(lambda m: Message.give_up_expired(LATER), S.EXPIRED, frozenset({S.SCHEDULED})),
    "give_up": Way(lambda m: m.give_up(LATER, "absent"), S.ERROR, frozenset({S.UNKNOWN})),
    "lose_lease": Way(lambda m: m.lose_lease(LATER, look_at=LATER), S.UNKNOWN, frozenset({S.SENDING})),
    "doubt": Way(
        lambda m: Message.doubt([m.id], START, LATER, "ops", None), S.UNKNOWN, frozenset({S.SCHEDULED, S.QUEUED})
    ),
    "confirm_sent": Way(lambda m: m.confirm_sent(LATER, "seen"), S.SENT, frozenset({S.UNKNOWN})),
    "send_again": Way(lambda m: m.send_again(LATER, "absent"), S.SCHEDULED, frozenset({S.UNKNOWN})),
    "cancel": Way(lambda m: Message.cancel([m.id]), S.CANCELLED, frozenset({S.SCHEDULED, S.QUEUED, S.UNKNOWN})),
    "requeue": Way(
        lambda m: Message.requeue([m.id], LATER, too_late=True),
        S.SCHEDULED,
        frozenset({S.ERROR, S.CANCELLED, S.EXPIRED}),
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_move_is_made_from_the_states_it_is_allowed_from_and_changes_nothing_anywhere_else(database, name):
    way = WAYS[name]
    for start in MessageStatus:
        Message.delete().execute()
        message = message_in(start, claim="claim-1", expires_on=START + timedelta(seconds=1))
        before = row(message)
        moved = bool(way.call(message))
        after = row(message)
        assert moved == (start in way.from_), f"{name} from {start}"
        assert after["status"] == (way.to if moved else start), f"{name} from {start}"
        if not moved:
            assert after == before, f"{name} was refused from {start}, yet it changed the row"


@pytest.mark.parametrize("to", MessageStatus)
@pytest.mark.parametrize("start", MessageStatus)
def test_the_one_door_opens_exactly_where_the_table_says(database, start, to):
    message = message_in(start)
    moved = Message._enter(to, *these([message.id]))
    assert moved == ([message.id] if start in ENTERED_FROM[to] else [])
    assert reloaded(message).status == (to if moved else start)


def test_no_public_way_leads_where_the_table_does_not():
    for name, way in WAYS.items():
        assert way.from_ <= ENTERED_FROM[way.to], name


@pytest.mark.parametrize("to", MessageStatus)
def test_every_move_of_the_table_is_made_by_some_public_way(to):
    made = frozenset[MessageStatus]().union(*(way.from_ for way in WAYS.values() if way.to is to))
    assert made == ENTERED_FROM[to]


def test_the_table_knows_every_state_and_no_final_state_is_left_but_by_a_person():
    assert set(ENTERED_FROM) == set(MessageStatus)
    by_a_person = {"requeue"}
    for name, way in WAYS.items():
        assert name in by_a_person or not way.from_ & FINAL, name


def test_a_message_that_does_not_exist_is_not_moved(database):
    gone = message_in(S.SENDING)
    gone.delete_instance()
    for name, way in WAYS.items():
        assert not way.call(gone), name
