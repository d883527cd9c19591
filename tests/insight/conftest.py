"""A limiter on a real Valkey, and queues with a worker and a scheduler at work."""

from __future__ import annotations

import pytest

from rqmail.queue_state import WorkerState
from rqmail.queues import MailQueues
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ticks import Timetable


class Queues(MailQueues):
    """The real queues, with workers that are only said to be there."""

    crew: list[WorkerState]

    def workers(self) -> list[WorkerState]:
        return self.crew


@pytest.fixture
def limiter(redis_client, clock):
    return MailRateLimiter(redis_client, clock=clock)


@pytest.fixture
def queues(redis_client, clock):
    queues = Queues(redis_client, clock, poll_seconds=1, job_timeout_seconds=60)
    queues.crew = [WorkerState("w1", "idle", ("ticks", "mail-high", "mail"), clock())]
    queues.end_dispatch(queues.begin_dispatch(5))
    Timetable(redis_client, clock, 1).register()
    return queues
