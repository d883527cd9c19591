"""The RQ queues: names, the JSON job class, and the few questions we ask about jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.exceptions import ResponseError
from rq import Queue, Worker
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import str_to_date

from rqmail.clock import Clock

#: First in every worker's list; then mail a person waits for; then the rest.
TICKS = "ticks"
MAIL_HIGH = "mail-high"
MAIL = "mail"
WORKER_QUEUES = (TICKS, MAIL_HIGH, MAIL)

#: What RQ imports and calls. rqmail never imports ``jobs``: it only knows these names.
DISPATCH_JOB = "jobs.mail.dispatch_due_messages"
SEND_JOB = "jobs.mail.send_messages"
RECOVER_JOB = "jobs.mail.recover_messages"
PURGE_JOB = "jobs.mail.purge_messages"

#: A job begins nothing later than this after its own start: what it still holds as QUEUED has lost its worker. Taking a
#: live job for dead does no harm, for a message put back and claimed again is begun by one of the two jobs only.
_BEGINS_WITHIN = timedelta(seconds=30)

_LAST_TICK = "rqmail:last-tick"
_NUDGE = "rqmail:nudge"
_DISPATCHING = "rqmail:dispatching"

#: Free the lock only while it is still ours.
UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class MailJob(Job):
    """An RQ job whose arguments are JSON wherever it is made or read: nothing in Redis can run code of its own."""

    def __init__(self, id: str | None = None, connection: Redis | None = None, serializer: Any = None) -> None:
        super().__init__(id, connection, serializer=serializer or JSONSerializer)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """One RQ worker as it last reported itself."""

    name: str
    state: str
    queues: tuple[str, ...]
    last_heartbeat: datetime | None


class MailQueues:
    """Pushes message ids to workers and answers whether they are still on their way."""

    def __init__(self, redis: Redis, clock: Clock, *, poll_seconds: int, job_timeout_seconds: int) -> None:
        self._redis = redis
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._job_timeout_seconds = job_timeout_seconds
        self._queues = {
            name: Queue(name, connection=redis, job_class=MailJob, serializer=JSONSerializer) for name in WORKER_QUEUES
        }

    def push(self, batches: Sequence[tuple[str, Sequence[str]]], *, high: bool) -> None:
        """Hand each ``(job id, message ids)`` to the workers; a job id is used once and never again."""
        if not batches:
            return
        jobs = [
            Queue.prepare_data(
                SEND_JOB,
                args=(list(ids),),
                job_id=job_id,
                timeout=self._job_timeout_seconds,
                result_ttl=60,
                failure_ttl=86_400,
                description=f"send {len(ids)} messages",
            )
            for job_id, ids in batches
        ]
        self._queues[MAIL_HIGH if high else MAIL].enqueue_many(jobs)

    def nudge(self) -> bool:
        """Ask for a tick now rather than at the next poll; asked again before that, it is one tick all the same."""
        if not self._redis.set(_NUDGE, "1", nx=True, px=self._poll_seconds * 500):
            return False
        self._queues[TICKS].enqueue_call(
            DISPATCH_JOB,
            job_id=f"nudge-{uuid4()}",
            timeout=60,
            result_ttl=0,
            failure_ttl=3600,
            description="dispatch now",
        )
        return True

    def drop_missed(self, job_id: str) -> int:
        """Take further copies of a tick out of the queues: one that was missed five times runs once."""
        return sum(int(self._redis.lrem(queue.key, 0, job_id)) for queue in self._queues.values())

    def alive(self, job_ids: Iterable[str]) -> set[str]:
        """Answer which of these jobs are waiting in their queue, or began so lately that they still begin messages."""
        wanted = list(dict.fromkeys(job_ids))
        if not wanted:
            return set()
        waiting = {job_id for queue in self._queues.values() for job_id in self._redis.lrange(queue.key, 0, -1)}
        return {job_id for job_id in wanted if job_id.encode() in waiting or self._is_young(job_id)}

    def _is_young(self, job_id: str) -> bool:
        try:
            status, started = self._redis.hmget(MailJob.key_for(job_id), ["status", "started_at"])
            if status != JobStatus.STARTED.value.encode() or not started:
                return False
            return self._clock() - str_to_date(started).replace(tzinfo=UTC) < _BEGINS_WITHIN
        except (ResponseError, ValueError):  # not a job, whatever was written there
            return False

    def begin_dispatch(self, seconds: int) -> str | None:
        """Become the only dispatcher for at most ``seconds``; ``None`` when another one is at it."""
        token = str(uuid4())
        return token if self._redis.set(_DISPATCHING, token, nx=True, ex=seconds) else None

    def end_dispatch(self, token: str, *, worked: bool = True) -> None:
        """Let others dispatch, and remember that a tick came to its end now, if it ``worked``."""
        if worked:
            self._redis.set(_LAST_TICK, str(self._clock().timestamp()), ex=86_400)
        self._redis.eval(UNLOCK, 1, _DISPATCHING, token)

    def last_tick(self) -> datetime | None:
        """Say when a dispatch last came to its end, if that was within a day."""
        raw = self._redis.get(_LAST_TICK)
        return None if raw is None else datetime.fromtimestamp(float(raw), UTC)

    def depth(self) -> dict[str, int]:
        """Count the jobs waiting in each queue."""
        return {name: queue.count for name, queue in self._queues.items()}

    def workers(self) -> list[WorkerState]:
        """List the RQ workers that listen on our queues."""
        ours = set(WORKER_QUEUES)
        return [
            WorkerState(w.name, w.get_state(), tuple(w.queue_names()), w.last_heartbeat)
            for w in Worker.all(connection=self._redis, job_class=MailJob, serializer=JSONSerializer)
            if ours & set(w.queue_names())
        ]
