"""The ticks stay on rq-scheduler's schedule, each once, whoever looks after them."""

from __future__ import annotations

import json
import threading

import pytest

from rqmail.queue_state import DISPATCH_TICK
from rqmail.queues import MailJob
from rqmail.ticks import SCHEDULE, Timetable
from support.clock import START

EVERY = {
    "rqmail-tick-dispatch": 2,
    "rqmail-tick-recover": 10,
    "rqmail-tick-purge": 3600,
    "rqmail-tick-prune": 600,
    "rqmail-tick-bounces": 30,
    "rqmail-tick-webhooks": 5,
    "rqmail-tick-traces": 60,
}


@pytest.fixture
def timetable(redis_client, clock) -> Timetable:
    return Timetable(redis_client, clock, 2)


def registered(redis_client) -> dict[str, int]:
    """The ticks on the schedule, and every how many seconds each runs."""
    return {
        job_id.decode(): MailJob.fetch(job_id.decode(), connection=redis_client).meta["interval"]
        for job_id in redis_client.zrange(SCHEDULE, 0, -1)
    }


def test_missing_ticks_are_registered_due_now_and_named(timetable, redis_client):
    assert timetable.register() == list(EVERY)
    assert registered(redis_client) == EVERY
    assert set(dict(redis_client.zrange(SCHEDULE, 0, -1, withscores=True)).values()) == {int(START.timestamp())}


def test_registering_again_changes_nothing_and_another_interval_replaces_the_old_one(timetable, redis_client, clock):
    timetable.register()
    assert timetable.register() == []
    assert Timetable(redis_client, clock, 5).register() == [DISPATCH_TICK]
    assert registered(redis_client) == EVERY | {DISPATCH_TICK: 5}


def test_a_process_that_looks_by_itself_does_not_look_with_each_mail(timetable, redis_client, monkeypatch):
    monkeypatch.setattr("rqmail.ticks.LOOK_SECONDS", 600.0)
    timetable.keep_in_background()
    timetable.keep_in_passing()
    assert registered(redis_client) == {}
    timetable.stop_keeping()
    timetable.keep_in_passing()
    assert registered(redis_client) == EVERY


def test_a_flush_is_made_good_at_the_next_look_however_many_look_at_once(timetable, redis_client, clock):
    timetable.register()
    redis_client.flushall()
    together = threading.Barrier(6)

    def look() -> None:
        together.wait()
        Timetable(redis_client, clock, 2).keep()

    lookers = [threading.Thread(target=look) for _ in range(6)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    assert registered(redis_client) == EVERY
    assert redis_client.zcard(SCHEDULE) == len(EVERY)


@pytest.mark.parametrize(
    "poison",
    [
        lambda redis, key: redis.delete(key),
        lambda redis, key: redis.hset(key, "meta", b"not json"),
        lambda redis, key: redis.hset(key, "meta", json.dumps([1])),
        lambda redis, key: redis.hdel(key, "data"),
        lambda redis, key: redis.delete(key) and redis.set(key, "text"),
    ],
    ids=["no hash", "meta that is no JSON", "meta of another kind", "no data", "no hash at all"],
)
def test_a_tick_that_is_on_the_schedule_but_cannot_run_is_registered_anew(timetable, redis_client, poison):
    timetable.register()
    poison(redis_client, MailJob.key_for(DISPATCH_TICK))
    assert timetable.register() == [DISPATCH_TICK]
    assert registered(redis_client) == EVERY


def test_while_redis_is_away_nothing_is_registered_and_nothing_raised(clock):
    from redis import Redis

    with Redis.from_url("redis://127.0.0.1:1/0", retry=None) as away:
        Timetable(away, clock, 2).keep()
