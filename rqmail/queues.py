"""The RQ queues: names, the job class that runs nothing but ours, and the few questions we ask about jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, timedelta
from importlib import import_module
from inspect import isfunction
from typing import Any, ClassVar
from uuid import uuid4

from redis import Redis
from redis.exceptions import ResponseError
from rq import Queue
from rq.exceptions import NoSuchJobError, StopRequested
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import str_to_date

from rqmail.clock import Clock
from rqmail.errors import JobRefusedError
from rqmail.logs import event_log
from rqmail.queue_state import LAST_TICK, MAIL, MAIL_HIGH, TICK_PREFIX, TICKS, WORKER_QUEUES, QueueState
from rqmail.redis_clients import DRIVER
from rqmail.text.scrubbing import scrubbed, scrubbed_start, without_addresses

log = event_log()

#: What RQ's own commands take as ``-j``.
JOB_CLASS = "rqmail.queues.MailJob"

#: What RQ imports and calls. rqmail never imports ``jobs``: it only knows these names.
DISPATCH_JOB = "jobs.mail.dispatch_due_messages"
SEND_JOB = "jobs.mail.send_messages"
RECOVER_JOB = "jobs.mail.recover_messages"
PURGE_JOB = "jobs.mail.purge_messages"
PRUNE_JOB = "jobs.mail.prune_sent_items"
BOUNCES_JOB = "jobs.mail.read_bounces"
WEBHOOKS_JOB = "jobs.mail.tell_webhooks"
TRACES_JOB = "jobs.mail.read_traces"

#: The only module whose functions a job may name.
JOBS_MODULE = "jobs.mail"
_JOB = re.compile(r"jobs\.mail\.([a-z][a-z0-9_]*)")

#: A job begins nothing later than this after its own start: what it still holds as QUEUED has lost its worker. Taking a
#: live job for dead does no harm, for a message put back and claimed again is begun by one of the two jobs only.
_BEGINS_WITHIN = timedelta(seconds=30)

_NUDGE = "rqmail:nudge"

#: Ticks that are asked for lie at least so far apart.
_NUDGE_MS = 100
_DISPATCHING = "rqmail:dispatching"

#: Set by who found another dispatching.
_ONCE_MORE = "rqmail:dispatch-once-more"

#: Free the lock only while it is still ours.
UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class UnreadableJobError(NoSuchJobError):
    """What is stored under this id is no job that can be read."""


class MailJob(Job):
    """An RQ job that is JSON wherever it is made or read, and runs a function of ``jobs.mail`` or nothing.

    Whoever writes to Redis can queue a job. One that names any other function, an object's method, keyword arguments,
    callbacks or webhooks is not ours: it is refused when it is to run, which RQ keeps as a failure, and logged.
    """

    #: Called when this process has moved a tick on; set by what a job needs, once that is imported.
    tick_moved: ClassVar[Callable[[MailJob], None] | None] = None

    def __init__(self, id: str | None = None, connection: Redis | None = None, serializer: Any = None) -> None:
        self._brought: list[str] = []
        # Whatever serializer a worker was started with: RQ's default would unpickle, and that runs code.
        super().__init__(id, connection, serializer=JSONSerializer)

    def restore(self, raw_data: Any) -> None:
        """Take over what is stored of a job, but for the ways in which RQ and rq-scheduler call something else.

        What cannot be read is no job, which RQ's worker and rq-scheduler pass over: any other error would end them.
        """
        try:
            super().restore(raw_data)
            name = self.func_name
            brought = {
                "on_success": self._success_callback_name,
                "on_failure": self._failure_callback_name,
                "on_stopped": self._stopped_callback_name,
                "webhooks": self.webhooks,
                "queue_class_name": self.meta.pop("queue_class_name", None),
            }
        except (NoSuchJobError, StopRequested):
            raise
        except Exception as error:
            log.error("mail.job.unreadable", jobId=self.id, err=type(error).__name__)  # noqa: TRY400 - none of ours
            raise UnreadableJobError(f"job {self.id} cannot be read") from error
        self._brought = [what for what, given in brought.items() if given]
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
        self.webhooks = []
        if isinstance(name, str) and _JOB.fullmatch(name):
            # A stock worker reads the job first and then forks for it: what a job needs is imported here, once.
            try:
                import_module(JOBS_MODULE)
            except StopRequested:  # the worker is told to end meanwhile
                raise
            except Exception:  # noqa: BLE001, S110 - told by the job that runs it
                pass
            self.connection.connection_pool.connection_kwargs.setdefault("driver_info", DRIVER)  # each child connects

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the job; a stock ``rqscheduler``, which stores each tick it moves, keeps the ticks registered then.

        After a flush it would never see one again: it runs nothing of ours but this class.
        """
        super().save(*args, **kwargs)
        if self.tick_moved is not None and self.id.startswith(TICK_PREFIX):
            self.tick_moved()

    def _handle_failure(self, exc_string: str, *args: Any, **kwargs: Any) -> None:
        """Keep why the job failed, in RQ's registry and its results, without secrets and addresses."""
        super()._handle_failure(without_addresses(scrubbed(exc_string)), *args, **kwargs)

    def check(self) -> None:
        """Raise ``JobRefusedError`` unless this is a job of ours."""
        name = self.func_name
        if not isinstance(name, str) or not _JOB.fullmatch(name):
            raise JobRefusedError(
                self.id, f"it names {scrubbed_start(str(name), 200)!r}; only functions of {JOBS_MODULE} are run"
            )
        if self.instance is not None or self.kwargs or not isinstance(self.args, (list, tuple)):
            raise JobRefusedError(self.id, "it calls with an object or keyword arguments; ours never do")
        if self._brought:
            raise JobRefusedError(self.id, f"it brings {', '.join(self._brought)}; ours never do")

    @property
    def func(self) -> Callable[..., Any]:
        """Answer the function to run; raises ``JobRefusedError``, and logs it, where that is none of ours."""
        try:
            self.check()
            name = str(self.func_name).rpartition(".")[2]
            found = vars(import_module(JOBS_MODULE)).get(name)
            if not isfunction(found) or found.__module__ != JOBS_MODULE:
                raise JobRefusedError(self.id, f"{JOBS_MODULE} has no job {name!r}")
        except JobRefusedError as refused:
            log.error("mail.job.refused", jobId=self.id, why=refused.why)  # noqa: TRY400 - nothing of ours broke
            raise
        return found


class MailQueues(QueueState):
    """Pushes message ids to workers and answers whether they are still on their way."""

    def __init__(self, redis: Redis, clock: Clock, *, poll_seconds: int, job_timeout_seconds: int) -> None:
        super().__init__(redis, clock, poll_seconds)
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
        """Ask for a tick now rather than at the next poll; ``False`` where one was asked for just before."""
        if not self._redis.set(_NUDGE, "1", nx=True, px=_NUDGE_MS):
            return False
        self._ask_for_a_tick()
        return True

    def _ask_for_a_tick(self) -> None:
        self._queues[TICKS].enqueue_call(
            DISPATCH_JOB,
            job_id=f"nudge-{uuid4()}",
            timeout=60,
            result_ttl=0,
            failure_ttl=3600,
            description="dispatch now",
        )

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
        """Become the only dispatcher for at most ``seconds``; ``None`` while another process dispatches.

        That one may have looked before the mail came that this was asked for: at its end it asks for one more tick.
        """
        token = str(uuid4())
        for _ in range(2):  # it may have ended before it could be told
            if self._redis.set(_DISPATCHING, token, nx=True, ex=seconds):
                self._redis.delete(_ONCE_MORE)
                return token
            self._redis.set(_ONCE_MORE, "1", ex=seconds)
        return None

    def end_dispatch(self, token: str, *, worked: bool = True) -> None:
        """Let others dispatch, and remember that a tick came to its end now, if it ``worked``."""
        pipe = self._redis.pipeline(transaction=False)
        if worked:
            pipe.set(LAST_TICK, str(self._clock().timestamp()), ex=86_400)
        pipe.eval(UNLOCK, 1, _DISPATCHING, token)
        pipe.delete(_ONCE_MORE)
        if pipe.execute()[-1] and worked:
            self._ask_for_a_tick()
