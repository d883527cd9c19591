"""The ticks: what runs again and again, and that it stays on rq-scheduler's schedule, whatever empties Redis."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

from redis import Redis, RedisError
from rq.job import JobStatus

from rqmail.clock import Clock
from rqmail.logs import event_log
from rqmail.queue_state import DISPATCH_TICK, MAIL, SCHEDULE, TICK_PREFIX, TICKS
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

log = event_log()

#: A tick that has not ended by then is taken for hung.
_TICK_TIMEOUT_SECONDS = 120

#: How often a process that stays looks whether the ticks are still there.
LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Something that runs again and again, under a fixed id so that it is never registered twice."""

    id: str
    function: str
    every_seconds: int
    queue: str = TICKS


def ticks(poll_seconds: int) -> tuple[Tick, ...]:
    """List what runs periodically; what may take seconds waits among the mail: a dispatch never waits for it."""
    return (
        Tick(DISPATCH_TICK, DISPATCH_JOB, poll_seconds),
        Tick(f"{TICK_PREFIX}recover", RECOVER_JOB, 10, MAIL),
        Tick(f"{TICK_PREFIX}purge", PURGE_JOB, 3600, MAIL),
        Tick(f"{TICK_PREFIX}prune", PRUNE_JOB, 600, MAIL),
        Tick(f"{TICK_PREFIX}bounces", BOUNCES_JOB, 30, MAIL),
        Tick(f"{TICK_PREFIX}webhooks", WEBHOOKS_JOB, 5, MAIL),
        Tick(f"{TICK_PREFIX}traces", TRACES_JOB, 60, MAIL),
    )


class Timetable:
    """Keeps the ticks registered; any process may, for each tick has one id and one place on the schedule."""

    def __init__(self, redis: Redis, clock: Clock, poll_seconds: int) -> None:
        self._redis = redis
        self._clock = clock
        self._ticks = ticks(poll_seconds)
        self._keeper: threading.Thread | None = None
        self._over = threading.Event()

    def register(self) -> list[str]:
        """Put the ticks on the schedule that are missing or not as wanted, due now; answer their ids."""
        missing = self._missing()
        for tick in missing:
            self._put(tick)
        return [tick.id for tick in missing]

    def missing(self) -> list[str]:
        """Answer the ids that :meth:`register` would put on the schedule; nothing is changed."""
        return [tick.id for tick in self._missing()]

    def _missing(self) -> list[Tick]:
        pipe = self._redis.pipeline(transaction=False)
        for tick in self._ticks:
            pipe.zscore(SCHEDULE, tick.id)
            pipe.hmget(MailJob.key_for(tick.id), "meta", "origin", "data")
        found = pipe.execute(raise_on_error=False)
        return [
            tick
            for tick, due, stored in zip(self._ticks, found[::2], found[1::2], strict=True)
            if not isinstance(due, float) or not _is_as_wanted(tick, stored)
        ]

    def keep(self) -> list[str]:
        """Register what is missing and answer its ids; while Redis is away that is nothing."""
        try:
            return self.register()
        except RedisError:
            return []

    def keep_in_passing(self) -> None:
        """Register what is missing, unless this process looks by itself every few seconds: then that is soon enough."""
        if self._keeper is None or not self._keeper.is_alive():
            self.keep()

    def keep_in_background(self) -> None:
        """Look every few seconds until :meth:`stop_keeping`; asked again, it is one thread all the same."""
        if self._keeper is None or not self._keeper.is_alive():
            self._over.clear()
            self._keeper = threading.Thread(target=self._keep_looking, name="rqmail-ticks", daemon=True)
            self._keeper.start()

    def stop_keeping(self) -> None:
        """End what :meth:`keep_in_background` began; harmless when it did not."""
        self._over.set()
        if self._keeper is not None:
            self._keeper.join(LOOK_SECONDS)

    def _keep_looking(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for tick_id in self.keep():
                log.info("mail.scheduler.tickRegistered", tick=tick_id)

    def _put(self, tick: Tick) -> None:
        job = MailJob.create(
            tick.function,
            id=tick.id,
            connection=self._redis,
            timeout=_TICK_TIMEOUT_SECONDS,
            result_ttl=-1,
            description=tick.function,
            origin=tick.queue,
            meta={"interval": tick.every_seconds},
            status=JobStatus.SCHEDULED,
        )
        pipe = self._redis.pipeline()
        # What is left of the hash may be somebody else's, or the end of a tick that ran while Redis was emptied.
        pipe.delete(job.key)
        pipe.hset(job.key, mapping=job.to_dict())
        pipe.zadd(SCHEDULE, {tick.id: int(self._clock().timestamp())})
        pipe.execute()


def _is_as_wanted(tick: Tick, stored: object) -> bool:
    if not isinstance(stored, list):
        return False
    meta, origin, data = stored
    try:
        return bool(data) and origin == tick.queue.encode() and json.loads(meta)["interval"] == tick.every_seconds
    except (TypeError, ValueError, KeyError):
        return False
