"""The ticks keep coming: after a flush, a dead predecessor, a job nobody can read, and with two schedulers at once."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
import structlog
from rq_scheduler import Scheduler
from rq_scheduler.utils import to_unix

from rqmail.clock import utc_now
from rqmail.processes.scheduler import MailScheduler
from rqmail.queue_state import MAIL, TICKS
from rqmail.queues import (
    BOUNCES_JOB,
    DISPATCH_JOB,
    PRUNE_JOB,
    PURGE_JOB,
    RECOVER_JOB,
    TRACES_JOB,
    WEBHOOKS_JOB,
    MailJob,
)
from rqmail.ticks import Timetable

SCHEDULED = "rq:scheduler:scheduled_jobs"
LOCK = "rq:scheduler_lock"

#: What the ticks run.
ALL_JOBS = [DISPATCH_JOB, RECOVER_JOB, PURGE_JOB, PRUNE_JOB, BOUNCES_JOB, TRACES_JOB, WEBHOOKS_JOB]


@pytest.fixture
def timetable(redis_client) -> Timetable:
    return Timetable(redis_client, utc_now, 2)


@pytest.fixture
def scheduler(redis_client, timetable) -> MailScheduler:
    return MailScheduler(redis_client, timetable)


def registered(redis_client) -> dict[str, int]:
    """The ticks on the schedule, and every how many seconds each runs."""
    return {
        job_id.decode(): MailJob.fetch(job_id.decode(), connection=redis_client).meta["interval"]
        for job_id in redis_client.zrange(SCHEDULED, 0, -1)
    }


def queued(redis_client) -> list[str]:
    """The functions of the ticks that wait for a worker."""
    ids = [job_id for name in (TICKS, MAIL) for job_id in redis_client.lrange(f"rq:queue:{name}", 0, -1)]
    return [MailJob.fetch(job_id.decode(), connection=redis_client).func_name for job_id in ids]


def make_due(redis_client) -> None:
    for job_id in redis_client.zrange(SCHEDULED, 0, -1):
        redis_client.zadd(SCHEDULED, {job_id: to_unix(datetime.now(UTC).replace(tzinfo=None)) - 1})


def test_the_first_pass_registers_the_ticks_and_queues_them(scheduler, redis_client):
    scheduler.pass_once()
    assert registered(redis_client) == {
        "rqmail-tick-dispatch": 2,
        "rqmail-tick-recover": 10,
        "rqmail-tick-purge": 3600,
        "rqmail-tick-prune": 600,
        "rqmail-tick-bounces": 30,
        "rqmail-tick-webhooks": 5,
        "rqmail-tick-traces": 60,
    }
    assert sorted(queued(redis_client)) == sorted(ALL_JOBS)


def test_after_a_flush_the_next_pass_registers_everything_anew(scheduler, redis_client):
    scheduler.pass_once()
    redis_client.flushall()
    scheduler.pass_once()
    assert len(registered(redis_client)) == len(ALL_JOBS)
    assert DISPATCH_JOB in queued(redis_client)


@pytest.mark.parametrize(
    "poison",
    [
        {"data": b"\x80\x04 pickled by somebody else"},
        {"data": b""},
        {"created_at": b"\xff\xfe", "data": b"x"},
        {"meta": b"not json", "data": b"x"},
    ],
)
def test_a_scheduled_job_nobody_can_read_is_taken_off_and_named_and_the_ticks_go_on(
    scheduler, timetable, redis_client, poison
):
    timetable.register()
    redis_client.hset("rq:job:odd", mapping={"created_at": "2026-03-10T09:30:20.000000Z", **poison})
    redis_client.zadd(SCHEDULED, {"odd": 1})
    with structlog.testing.capture_logs() as logs:
        scheduler.pass_once()
    assert "odd" not in registered(redis_client)
    assert [entry["jobId"] for entry in logs if entry["event"] == "mail.scheduler.unreadableJob"] == ["odd"]
    assert DISPATCH_JOB in queued(redis_client)


def test_a_tick_whose_own_hash_was_poisoned_or_expired_is_registered_anew(scheduler, timetable, redis_client):
    timetable.register()
    redis_client.hset("rq:job:rqmail-tick-dispatch", "data", b"garbage")
    redis_client.delete("rq:job:rqmail-tick-recover")
    for _ in range(2):
        scheduler.pass_once()
    assert len(registered(redis_client)) == len(ALL_JOBS)
    assert {DISPATCH_JOB, RECOVER_JOB} <= set(queued(redis_client))


def test_a_dead_predecessors_lock_is_waited_for_no_longer_than_it_lasts(scheduler, timetable, redis_client):
    dead = MailScheduler(redis_client, timetable)
    assert dead.acquire_lock()
    scheduler.pass_once()
    assert queued(redis_client) == []
    assert 0 < redis_client.ttl(LOCK) <= 5
    redis_client.delete(LOCK)  # as its expiry does
    scheduler.pass_once()
    assert DISPATCH_JOB in queued(redis_client)


def test_a_lock_taken_over_by_another_is_not_given_away(scheduler, redis_client):
    scheduler.acquire_lock()
    redis_client.set(LOCK, "another's token")
    scheduler.remove_lock()
    assert redis_client.get(LOCK) == b"another's token"


def test_two_schedulers_side_by_side_queue_each_tick_once(scheduler, timetable, redis_client):
    other = MailScheduler(redis_client, timetable)
    scheduler.pass_once()
    redis_client.delete(f"rq:queue:{TICKS}", f"rq:queue:{MAIL}")
    make_due(redis_client)
    scheduler.pass_once()
    other.pass_once()
    assert sorted(queued(redis_client)) == sorted(ALL_JOBS)


def test_a_tick_long_overdue_is_queued_once_not_as_often_as_it_was_missed(scheduler, timetable, redis_client):
    timetable.register()
    redis_client.zadd(SCHEDULED, {"rqmail-tick-dispatch": to_unix(datetime(2026, 1, 1)) - 3600})  # noqa: DTZ001
    scheduler.pass_once()
    scheduler.pass_once()
    assert queued(redis_client).count(DISPATCH_JOB) == 1


def test_the_lock_is_free_again_after_a_pass_that_failed(scheduler, redis_client, monkeypatch):
    def fail() -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(scheduler, "enqueue_jobs", fail)
    with pytest.raises(RuntimeError):
        scheduler.pass_once()
    assert redis_client.get(LOCK) is None


def test_the_stock_scheduler_keeps_the_ticks_coming_once_they_are_registered(timetable, redis_client, monkeypatch):
    timetable.register()
    monkeypatch.setattr(MailJob, "tick_moved", None)  # this process is no rqscheduler
    stock = Scheduler(connection=redis_client, job_class="rqmail.queues.MailJob", interval=1)
    stock.run(burst=True)
    assert DISPATCH_JOB in queued(redis_client)
    assert redis_client.zscore(SCHEDULED, "rqmail-tick-dispatch") > time.time()
