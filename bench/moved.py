"""A campaign in moved time: dispatcher, limiter, lanes, queues and database under a clock that the bench moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from bench.system import System
from rqmail.bootstrap import Application, set_mail_rate_limiter_for_tests
from rqmail.queue_state import MAIL, MAIL_HIGH
from rqmail.queues import MailJob
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits


class MovedClock:
    """Stands still until it is moved; begins within a minute, so that no window ends with its start."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(second=20, microsecond=123_456)

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float = 1) -> None:
        self.now += timedelta(seconds=seconds)


class CountingLimiter(MailRateLimiter):
    """The limiter, counting how often it is asked for a place."""

    tried = 0
    _counting = threading.Lock()

    def check_and_reserve(
        self,
        mailbox_key: str,
        recipient_count: int,
        limits: RateLimits,
        reservation_id: str | None = None,
        **more: Any,
    ) -> Reservation | Denial:
        with self._counting:
            self.tried += 1
        return super().check_and_reserve(mailbox_key, recipient_count, limits, reservation_id, **more)


class MovedCampaign:
    """Ticks and jobs as the processes run them, second by second of the moved clock, by ``workers`` at once."""

    def __init__(self, parts: System, workers: int = 1) -> None:
        self.clock = MovedClock()
        self.limiter = CountingLimiter.from_url(parts.environment["RQMAIL_REDIS_URL"], clock=self.clock)
        set_mail_rate_limiter_for_tests(self.limiter)
        try:
            self._workers = [parts.application(self.clock) for _ in range(workers)]
        finally:
            set_mail_rate_limiter_for_tests(None)
        self._redis = parts.redis
        self.ticks = 0
        self.jobs = 0
        self.handed_over = 0
        self.sent_off = 0

    def second(self) -> None:
        """Run one tick and all it led to, then let a second pass."""
        self._workers[0].dispatcher.tick()
        self.ticks += 1
        if len(self._workers) == 1:
            self._work(self._workers[0])
        else:
            with ThreadPoolExecutor(len(self._workers)) as pool:
                list(pool.map(self._work, self._workers))
        self.clock.move()

    def _work(self, worker: Application) -> None:
        for ids in _jobs(self._redis):
            report = worker.send(ids)
            self.jobs += 1
            self.handed_over += len(ids)
            self.sent_off += report.sent_off


def _jobs(redis: Redis) -> Iterator[list[str]]:
    """Take jobs off the mail queues until none is left, and answer the ids each carries."""
    queues = [Queue(name, connection=redis, job_class=MailJob, serializer=JSONSerializer) for name in (MAIL_HIGH, MAIL)]
    while found := Queue.dequeue_any(queues, None, redis, job_class=MailJob, serializer=JSONSerializer):
        job, _ = found
        yield list(job.args[0])
        job.delete()
