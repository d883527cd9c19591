"""What lies in Redis between dispatch and the workers: ids as JSON, and nothing that could run."""

from __future__ import annotations

import json
import zlib
from datetime import timedelta

import pytest
from redis import Redis
from rq import SimpleWorker
from rq.serializers import JSONSerializer

from rqmail.queue_state import MAIL, MAIL_HIGH, TICKS, WORKER_QUEUES
from rqmail.queues import DISPATCH_JOB, SEND_JOB, MailJob, MailQueues
from support.clock import START


@pytest.fixture
def queues(redis_client, clock) -> MailQueues:
    return MailQueues(redis_client, clock, poll_seconds=2, job_timeout_seconds=60)


def everything(redis: Redis) -> list[bytes]:
    """Every value in Redis, whatever its type."""
    values: list[bytes] = []
    for key in redis.scan_iter():
        match redis.type(key):
            case b"hash":
                values += [part for pair in redis.hgetall(key).items() for part in pair]
            case b"list":
                values += redis.lrange(key, 0, -1)
            case b"zset":
                values += list(redis.zrange(key, 0, -1))
            case b"set":
                values += list(redis.smembers(key))
            case b"string":
                values.append(redis.get(key))
    return values


def test_a_job_carries_its_ids_as_json_and_nothing_else(queues, redis_client):
    queues.push([("job-1", ["a", "b"])], high=False)
    queues.push([("job-2", ["c"])], high=True)
    jobs = {job_id: MailJob.fetch(job_id, connection=redis_client) for job_id in ("job-1", "job-2")}
    assert [(job.func_name, job.args, job.origin) for job in jobs.values()] == [
        (SEND_JOB, [["a", "b"]], MAIL),
        (SEND_JOB, [["c"]], MAIL_HIGH),
    ]
    assert queues.depth() == {TICKS: 0, MAIL_HIGH: 1, MAIL: 1}


def test_nothing_in_redis_is_pickled(queues, redis_client):
    queues.push([("job-1", ["a", "b"])], high=False)
    queues.nudge()
    worker = SimpleWorker([TICKS], connection=redis_client, job_class=MailJob, serializer=JSONSerializer)
    worker.register_birth()
    data = redis_client.hget("rq:job:job-1", "data")
    assert json.loads(zlib.decompress(data)) == [SEND_JOB, None, [["a", "b"]], {}]
    pickled = [value for value in everything(redis_client) if value.startswith(b"\x80") or b"\x80\x04\x95" in value]
    assert pickled == []


def test_a_job_is_never_tried_again_by_rq(queues, redis_client):
    queues.push([("job-1", ["a"])], high=False)
    job = MailJob.fetch("job-1", connection=redis_client)
    assert not job.retries_left and job.timeout == 60


def test_nothing_to_push_touches_nothing(queues, redis_client):
    queues.push([], high=True)
    assert redis_client.dbsize() == 0


# --- which jobs are alive ------------------------------------------------------------------------------------------


def test_jobs_that_wait_in_any_queue_are_alive_and_unknown_ones_are_not(queues):
    queues.push([("job-1", ["a"])], high=False)
    queues.push([("job-2", ["b"])], high=True)
    assert queues.alive(["job-1", "job-2", "job-3"]) == {"job-1", "job-2"}
    assert queues.alive([]) == set()


@pytest.mark.parametrize(
    "poison",
    [
        {"status": "started", "started_at": "yesterday"},
        {"status": "started"},
        {"status": b"\xff\xfe", "started_at": b"\xff"},
        {"data": b"\x80\x04garbage"},
    ],
)
def test_a_job_nobody_can_read_is_dead_and_hides_no_other(queues, redis_client, poison):
    redis_client.hset("rq:job:odd", mapping=poison)
    redis_client.set("rq:job:no-hash", "text")
    redis_client.rpush("rq:queue:mail", b"\xff\xfe not utf-8")
    queues.push([("job-1", ["a"])], high=False)
    assert queues.alive(["odd", "no-hash", "job-1"]) == {"job-1"}


# --- ticks ---------------------------------------------------------------------------------------------------------


def test_asking_twice_for_a_tick_now_queues_one(queues, redis_client):
    assert queues.nudge()
    assert not queues.nudge()
    assert queues.depth()[TICKS] == 1
    [job_id] = redis_client.lrange(f"rq:queue:{TICKS}", 0, -1)
    assert MailJob.fetch(job_id.decode(), connection=redis_client).func_name == DISPATCH_JOB
    assert 0 < redis_client.pttl("rqmail:nudge") <= 100


def test_a_tick_that_was_missed_five_times_is_taken_out_of_the_queue_but_others_stay(queues, redis_client):
    redis_client.rpush(f"rq:queue:{TICKS}", *["rqmail-tick-dispatch"] * 5, "rqmail-tick-recover")
    queues.note_at_work("w1", TICKS, tick_id="rqmail-tick-dispatch")
    assert redis_client.lrange(f"rq:queue:{TICKS}", 0, -1) == [b"rqmail-tick-recover"]


def test_one_dispatcher_at_a_time_and_a_dead_ones_lock_runs_out(queues, redis_client):
    token = queues.begin_dispatch(30)
    assert token and queues.begin_dispatch(30) is None
    assert 0 < redis_client.ttl("rqmail:dispatching") <= 30
    queues.end_dispatch("somebody else's token")
    assert queues.begin_dispatch(30) is None
    queues.end_dispatch(token)
    assert queues.begin_dispatch(30)


def test_who_found_another_dispatching_is_served_by_one_more_tick_at_its_end(queues):
    token = queues.begin_dispatch(30)
    for _ in range(3):
        assert queues.begin_dispatch(30) is None
    queues.end_dispatch(token)
    assert queues.depth()[TICKS] == 1, "for all of them"
    queues.end_dispatch(queues.begin_dispatch(30))
    assert queues.depth()[TICKS] == 1, "and no more after that"


def test_when_a_tick_last_came_to_its_end_is_known(queues, clock):
    assert queues.last_tick() is None
    queues.end_dispatch(queues.begin_dispatch(30))
    clock.advance(minutes=1)
    assert queues.last_tick() == START


# --- workers -------------------------------------------------------------------------------------------------------


def test_workers_are_those_that_listen_on_our_queues(queues, redis_client):
    def born(*names: str) -> None:
        SimpleWorker(names, connection=redis_client, job_class=MailJob, serializer=JSONSerializer).register_birth()

    born(*WORKER_QUEUES)
    born("something-else")
    [worker] = queues.workers()
    assert worker.queues == WORKER_QUEUES
    assert worker.last_heartbeat is not None


def test_a_tick_that_failed_is_not_remembered_as_one_that_came_to_its_end(queues, clock):
    queues.end_dispatch(queues.begin_dispatch(30))
    clock.advance(minutes=5)
    queues.end_dispatch(queues.begin_dispatch(30), worked=False)
    assert queues.last_tick() == START
    assert queues.begin_dispatch(30) is not None, "the lock is free again"


# --- who is at work ------------------------------------------------------------------------------------------------


def test_a_worker_that_a_flush_forgot_counts_as_alive_for_a_minute_after_it_began_a_job(queues, clock):
    queues.note_at_work("w1", TICKS)
    clock.advance(seconds=40)
    queues.note_at_work("w1", MAIL)
    [worker] = queues.workers()
    assert (worker.name, worker.queues, worker.last_heartbeat) == (
        "w1",
        (TICKS, MAIL),
        START + timedelta(seconds=39.876544),
    )
    clock.advance(seconds=61)
    assert queues.workers() == []


def test_a_worker_that_rq_knows_is_told_once_and_gone_when_it_has_ended(queues, redis_client):
    worker = SimpleWorker([MAIL], name="w1", connection=redis_client, job_class=MailJob, serializer=JSONSerializer)
    worker.register_birth()
    queues.note_at_work("w1", MAIL)
    assert [known.name for known in queues.workers()] == ["w1"]
    worker.register_death()
    redis_client.delete(worker.key)
    redis_client.srem("rq:workers", worker.key)
    assert queues.workers() == []
