"""One job's messages side by side: how many at once, what a stuck one holds up, and what is put back."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta

import peewee
import pytest

from rqmail.delivery.lanes import Lanes, LanesReport
from rqmail.delivery.outcomes import Ending
from rqmail.delivery.senders import Sender
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message, MessageStatus, Priority
from rqmail.ratelimit.limits import RateLimits
from support.clock import START
from support.messages import new_message, reloaded, submitted
from support.statements import recorded

S = MessageStatus
LEASE = timedelta(minutes=2)


class KnownSenders:
    """Two names on one mailbox, and any number of mailboxes more."""

    def all(self) -> dict[str, Sender]:
        names = [*(f"mailbox:m{n}" for n in range(10)), "tenant:t"]
        limits = RateLimits(in_flight=2)
        keys = {"tenant:t": "m0@contoso.example"}
        return {"tenant:s": Sender("tenant:s", "tenant:s", None, None, in_flight_without_limits=5)} | {
            name: Sender(name, keys.get(name, f"{name.removeprefix('mailbox:')}@contoso.example"), limits, None)
            for name in names
        }


@dataclass
class Service:
    """Stands for the service: notes what is sent and how many at once, and ends as it is told to."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    order: list[str] = field(default_factory=list)
    now: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    during: object = None

    def send(self, message: Message, contents=None, looked=None) -> Ending:
        key = KnownSenders().all()[message.sender].budget_key
        with self.lock:
            self.order.append(message.id)
            self.now[key] = self.now.get(key, 0) + 1
            self.most[key] = max(self.most.get(key, 0), self.now[key])
        try:
            ending = self.during(message) if self.during else None
        finally:
            with self.lock:
                self.now[key] -= 1
        return ending or Ending.DONE


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def lanes(service, clock, seconds) -> Lanes:
    return Lanes(service, KnownSenders(), clock, width=6, lease=LEASE, start_within_seconds=10, monotonic=seconds)


def queued(*senders: str, **fields) -> list[str]:
    """Messages of these senders in the order given, QUEUED."""
    ids = submitted(*(new_message(sender, at=START + timedelta(seconds=n)) for n, sender in enumerate(senders)))
    update = {"status": S.QUEUED.value, "job_id": "job-1", "lease_until": START + LEASE, **fields}
    Message.update(**update).where(Message.id.in_(ids)).execute()
    return ids


def statuses(ids: list[str]) -> list[str]:
    return [reloaded(message_id).status for message_id in ids]


def test_every_message_of_a_job_is_sent_once(database, lanes, service):
    ids = queued(*(f"mailbox:m{n % 10}" for n in range(30)))
    assert lanes.send(ids) == LanesReport(sent_off=30, put_back=0, lost=0)
    assert sorted(service.order) == sorted(ids)


def test_what_a_mailbox_may_have_in_flight_is_begun_with_one_statement(database, lanes):
    ids = queued(*["mailbox:m0"] * 6, "mailbox:m1")
    with recorded() as statements:
        lanes.send(ids)
    begun = [one for one in statements if "status = 'SENDING'" in one[0]]
    assert len(begun) == 3 + 1, "two at once of the one, and the other's"
    looks = [one for one in statements if "FROM suppression" in one[0]]
    assert len(looks) == len(begun), "who is suppressed is looked up for as many"
    assert len(statements) == len(begun) + len(looks) + 4, "and before them the messages, bodies, recipients and files"


def test_a_message_is_sending_under_a_lease_before_it_is_sent(database, lanes, service):
    ids = queued("mailbox:m0")
    seen = []

    def during(message: Message) -> None:
        with pooled_connection():
            seen.append(reloaded(message))

    service.during = during
    lanes.send(ids)
    assert (seen[0].status, seen[0].lease_until, seen[0].attempted_on) == (S.SENDING, START + LEASE, START)
    assert seen[0].claim


def test_no_more_than_in_flight_go_through_one_mailbox_at_once_whoever_they_are_from(database, lanes, service):
    together = threading.Barrier(2, timeout=10)
    service.during = lambda message: together.wait() and None
    lanes.send(queued(*["mailbox:m0", "tenant:t"] * 4))
    assert service.most == {"m0@contoso.example": 2}


def test_a_sender_without_limits_has_as_many_under_way_as_its_setting_says(database, lanes, service):
    together = threading.Barrier(5, timeout=10)
    service.during = lambda message: together.wait() and None
    lanes.send(queued(*["tenant:s"] * 10))
    assert service.most == {"tenant:s": 5}


def test_different_mailboxes_go_at_once(database, lanes, service):
    together = threading.Barrier(6, timeout=10)
    service.during = lambda message: together.wait() and None
    lanes.send(queued(*(f"mailbox:m{n}" for n in range(6))))
    assert len(service.order) == 6


def test_the_mailbox_with_the_most_to_send_is_not_left_alone_at_the_end(database, clock, service, seconds):
    four = Lanes(service, KnownSenders(), clock, width=4, lease=LEASE, start_within_seconds=10, monotonic=seconds)
    together, alone = threading.Barrier(4), []

    def during(message: Message) -> None:
        try:
            together.wait(20)
        except threading.BrokenBarrierError:
            alone.append(message.sender)

    service.during = during
    ids = queued(*["mailbox:m1"] * 4, *["mailbox:m2"] * 4, *["mailbox:m0"] * 8)
    assert four.send(ids).sent_off == 16
    assert alone == [], "two of m0 and two others at each time"


def test_a_stuck_call_holds_up_nobody_elses_mail(database, lanes, service):
    ids = queued("mailbox:m0", *["mailbox:m1"] * 4, *["mailbox:m2"] * 4)
    others_done = threading.Event()

    def during(message: Message) -> None:
        if message.id == ids[0]:
            assert others_done.wait(10)
        elif len(service.order) == 9:
            others_done.set()

    service.during = during
    assert lanes.send(ids).sent_off == 9


def test_within_a_mailbox_the_urgent_go_first_then_the_oldest(database, clock, service, seconds):
    ids = queued(*["mailbox:m0"] * 5)
    Message.update(priority=Priority.HIGH.value).where(Message.id == ids[3]).execute()
    one = Lanes(service, KnownSenders(), clock, width=1, lease=LEASE, start_within_seconds=10, monotonic=seconds)
    one.send(list(reversed(ids)))
    assert service.order == [ids[3], ids[0], ids[1], ids[2], ids[4]]


def test_a_mailbox_that_rests_leaves_the_rest_of_its_mail_untouched(database, clock, service, seconds):
    ids = queued(*["mailbox:m0"] * 6, "mailbox:m1")
    service.during = lambda message: Ending.MAILBOX_PAUSED if message.sender == "mailbox:m0" else None
    one = Lanes(service, KnownSenders(), clock, width=1, lease=LEASE, start_within_seconds=10, monotonic=seconds)
    assert one.send(ids) == LanesReport(sent_off=2, put_back=5, lost=0)
    untouched = [reloaded(message_id) for message_id in ids[1:6]]
    assert {message.status for message in untouched} == {S.SCHEDULED}
    assert {(message.attempts, message.deferrals) for message in untouched} == {(0, 0)}


def test_told_to_stop_a_job_finishes_what_is_in_flight_and_puts_the_rest_back(database, lanes, service):
    ids = queued(*["mailbox:m0"] * 8)
    together = threading.Barrier(2, timeout=10)

    def during(message: Message) -> None:
        together.wait()
        lanes.stop()

    service.during = during
    assert lanes.send(ids) == LanesReport(sent_off=2, put_back=6, lost=0)
    left = [message_id for message_id in ids if message_id not in service.order]
    assert statuses(left) == [S.SCHEDULED] * 6


def test_a_job_that_ran_for_long_enough_begins_nothing_more(database, lanes, service, seconds):
    ids = queued(*["mailbox:m0"] * 8)

    def during(message: Message) -> None:
        seconds.now += 6

    service.during = during
    report = lanes.send(ids)
    assert report.sent_off + report.put_back == 8
    assert report.sent_off <= 3
    assert S.QUEUED not in statuses(ids)
    assert statuses(ids).count(S.SENDING) == report.sent_off


def test_a_job_timeout_raised_into_the_main_thread_puts_back_what_was_not_begun(database, lanes, service, monkeypatch):
    ids = queued(*["mailbox:m0"] * 8)
    begun = threading.Event()
    finish = threading.Event()

    def during(message: Message) -> None:
        begun.set()
        assert finish.wait(10)

    def out_of_time(_running):
        assert begun.wait(10)
        threading.Timer(0.05, finish.set).start()
        raise TimeoutError("the job exceeded its time")

    service.during = during
    monkeypatch.setattr("rqmail.delivery.lanes.wait_for", out_of_time)
    with pytest.raises(TimeoutError):
        lanes.send(ids)
    left = [message_id for message_id in ids if message_id not in service.order]
    assert statuses(left) == [S.SCHEDULED] * len(left)
    assert 1 <= len(service.order) <= 2


def test_a_lane_that_breaks_takes_only_its_own_message_with_it(database, lanes, service):
    ids = queued(*["mailbox:m0"] * 4, *["mailbox:m1"] * 4)

    def during(message: Message) -> None:
        if message.id == ids[0]:
            raise RuntimeError("out of memory")

    service.during = during
    report = lanes.send(ids)
    assert report.sent_off + report.put_back == 8
    assert set(ids[4:]) <= set(service.order)
    assert S.QUEUED not in statuses(ids)


def test_ids_that_are_no_longer_queued_or_never_were_are_passed_over(database, lanes, service):
    mine, cancelled = queued("mailbox:m0", "mailbox:m0")
    Message.cancel([cancelled])
    assert lanes.send([mine, cancelled, "no-such-id", ""]).sent_off == 1
    assert service.order == [mine]


def test_a_message_another_job_began_meanwhile_is_left_to_it(database, lanes, service, monkeypatch):
    [message_id] = queued("mailbox:m0")
    start = Message.start_sending.__func__

    def another_first(cls, ids, **fields):
        start(cls, ids, claim="another", now=START, lease_until=START + LEASE)
        return start(cls, ids, **fields)

    monkeypatch.setattr(Message, "start_sending", classmethod(another_first))
    assert lanes.send([message_id]) == LanesReport(sent_off=0, put_back=0, lost=1)
    assert service.order == []
    assert (reloaded(message_id).status, reloaded(message_id).claim) == (S.SENDING, "another")


def test_a_beginning_whose_answer_was_lost_leaves_nothing_sending(database, lanes, service, monkeypatch):
    ids = queued("mailbox:m0", "mailbox:m0")
    start = Message.start_sending.__func__

    def answer_lost(cls, these, **fields):
        start(cls, these, **fields)
        return start(cls, these, **fields)  # asked again after the connection broke

    monkeypatch.setattr(Message, "start_sending", classmethod(answer_lost))
    lanes.send(ids)
    assert service.order == []
    assert statuses(ids) == [S.SCHEDULED, S.SCHEDULED]


def test_the_lease_counts_from_when_it_is_written(database, lanes, service, clock, monkeypatch):
    ids = queued("mailbox:m0")
    start = Message.start_sending.__func__
    seen = []

    def database_was_away(cls, these, **fields):
        if not seen:
            seen.append(fields)
            clock.advance(minutes=1)
            raise lost_connection
        return start(cls, these, **fields)

    lost_connection = peewee.OperationalError("server closed the connection")
    monkeypatch.setattr(Message, "start_sending", classmethod(database_was_away))
    lanes.send(ids)
    assert reloaded(ids[0]).lease_until == START + timedelta(minutes=1) + LEASE


def test_a_message_past_its_time_expires_instead_of_being_sent(database, lanes, service):
    late, in_time = queued("mailbox:m0", "mailbox:m0")
    Message.update(expires_on=START).where(Message.id == late).execute()
    lanes.send([late, in_time])
    assert statuses([late, in_time]) == [S.EXPIRED, S.SENDING]
    assert service.order == [in_time]


def test_mail_of_a_sender_nobody_knows_reaches_the_service_which_says_so(database, lanes, service, monkeypatch):
    ids = queued(*["mailbox:unknown"] * 3)
    monkeypatch.setattr(
        Service, "send", lambda self, message, contents=None, looked=None: self.order.append(message.id)
    )
    lanes.send(ids)
    assert sorted(service.order) == sorted(ids)


def test_a_message_begun_before_the_machine_slept_is_not_sent_when_it_wakes(database, lanes, service, clock):
    first, second, third = queued(*["mailbox:m0"] * 3)

    def during(message: Message) -> None:
        clock.advance(LEASE * 0.6)

    service.during = during
    one_lane = Lanes(
        service, KnownSenders(), clock, width=1, lease=LEASE, start_within_seconds=10, monotonic=lambda: 0.0
    )
    report = one_lane.send([first, second, third])
    assert second not in service.order, "it was begun together with the first, and its lease may not hold any more"
    assert reloaded(second).status == S.SCHEDULED
    assert reloaded(second).attempts == reloaded(second).deferrals == 0
    assert report == LanesReport(sent_off=2, put_back=1, lost=0)


def test_what_another_has_by_then_is_left_to_it(database, lanes, service, clock):
    first, second = queued(*["mailbox:m0"] * 2)

    def during(message: Message) -> None:
        clock.advance(LEASE * 2)
        with pooled_connection():
            Message.update(status=S.SENDING.value, claim="another").where(Message.id == second).execute()

    service.during = during
    one_lane = Lanes(
        service, KnownSenders(), clock, width=1, lease=LEASE, start_within_seconds=10, monotonic=lambda: 0.0
    )
    report = one_lane.send([first, second])
    assert service.order == [first]
    assert (reloaded(second).status, reloaded(second).claim) == (S.SENDING, "another")
    assert report == LanesReport(sent_off=1, put_back=0, lost=1)


def test_while_calls_are_waited_for_lanes_are_added_up_to_the_width(sqlite_database, service, clock):
    together = threading.Barrier(20, timeout=20)
    service.during = lambda message: together.wait() and None
    wide = Lanes(service, KnownSenders(), clock, width=20, lease=LEASE, start_within_seconds=60)
    report = wide.send(queued(*(f"mailbox:m{n % 10}" for n in range(20))))
    assert report.sent_off == 20, "twenty calls wait for each other: only twenty lanes can bring them together"


def test_a_busy_process_is_not_given_more_lanes(sqlite_database, service, clock):
    seen = set()
    used = iter(range(10**9))

    def during(message: Message) -> None:
        seen.add(threading.current_thread().name)
        threading.Event().wait(0.01)  # long enough for every lane there is to take a message

    service.during = during
    wide = Lanes(service, KnownSenders(), clock, 20, LEASE, 60, cpu_seconds=lambda: float(next(used)))
    report = wide.send(queued(*(f"mailbox:m{n % 10}" for n in range(60))))
    assert report.sent_off == 60
    assert len(seen) == 8


def test_a_lane_that_found_nothing_while_another_was_beginning_comes_back(sqlite_database, service, clock, monkeypatch):
    start = Message.start_sending.__func__

    def slowly(cls, ids, **fields):
        threading.Event().wait(0.3)  # every other lane has looked, and found nothing, by then
        return start(cls, ids, **fields)

    monkeypatch.setattr(Message, "start_sending", classmethod(slowly))
    together = threading.Barrier(2, timeout=20)
    service.during = lambda message: together.wait() and None
    report = Lanes(service, KnownSenders(), clock, 2, LEASE, 60).send(queued(*["mailbox:m0"] * 2))
    assert report.sent_off == 2, "two calls wait for each other: both of the mailbox's lanes must be at it"
