"""The scheduler process: keeps the ticks coming. The only file that knows rq-scheduler."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.exceptions import RedisError
from rq.exceptions import NoSuchJobError
from rq_scheduler import Scheduler

from rqmail.bootstrap import Application, application
from rqmail.errors import JobRefusedError
from rqmail.logs import event_log
from rqmail.processes import worker
from rqmail.queue_state import MAIL_HIGH, TICKS
from rqmail.queues import JOBS_MODULE, UNLOCK, MailJob
from rqmail.ticks import Timetable

log = event_log()

#: How often the loop looks for what is due; rq-scheduler counts whole seconds.
_LOOP_SECONDS = 1.0

#: The lock is held for one look; a dead holder is waited for no longer than this.
_LOCK_SECONDS = 5

#: What asks a process to end.
_ENDING = (signal.SIGTERM, signal.SIGINT)

#: How often a small worker looks for its parent, and how long it may take to end without one: longer than a send.
_LOOK_SECONDS, _ORPHAN_SECONDS = 0.5, 40.0


class _MovedJob(MailJob):
    """A job as our own scheduler moves it, whose loop keeps the ticks registered itself."""

    tick_moved = None


class MailScheduler(Scheduler):  # type: ignore[misc]
    """rq-scheduler, made to outlive a flush, a dead predecessor's lock and a job it cannot read."""

    def __init__(self, redis: Redis, timetable: Timetable) -> None:
        super().__init__(queue_name=TICKS, interval=_LOOP_SECONDS, connection=redis, job_class=_MovedJob)
        self._timetable = timetable
        self._token = str(uuid4())

    def pass_once(self) -> None:
        """See that every tick is registered, and queue what is due; nothing while another holds the lock."""
        if not self.acquire_lock():
            return
        try:
            for tick_id in self._timetable.register():
                log.info("mail.scheduler.tickRegistered", tick=tick_id)
            self.enqueue_jobs()
        finally:
            self.remove_lock()

    def acquire_lock(self) -> bool:
        """Take rq-scheduler's own lock, under a token of ours."""
        self._lock_acquired = bool(self.connection.set(self.scheduler_lock_key, self._token, ex=_LOCK_SECONDS, nx=True))
        return self._lock_acquired

    def remove_lock(self) -> None:
        """Give the lock back if it is still ours."""
        if self._lock_acquired:
            self.connection.eval(UNLOCK, 1, self.scheduler_lock_key, self._token)
            self._lock_acquired = False

    def get_jobs(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield the scheduled jobs that are ours to run; the others are taken off the schedule and named in the log."""
        until = kwargs.get("until", args[0] if args else "+inf")
        for raw in self.connection.zrangebyscore(self.scheduled_jobs_key, 0, until):
            job_id = raw.decode(errors="replace")
            try:
                job = self.job_class.fetch(job_id, connection=self.connection)
                job.check()
            except RedisError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever was written there, the loop goes on
                self.connection.zrem(self.scheduled_jobs_key, raw)
                if isinstance(error, JobRefusedError):
                    log.error("mail.job.refused", jobId=job_id, why=error.why)  # noqa: TRY400 - nothing of ours broke
                elif type(error) is not NoSuchJobError:
                    log.error(  # noqa: TRY400 - the traceback says nothing about the job
                        "mail.scheduler.unreadableJob", jobId=job_id, err=type(error.__cause__ or error).__name__
                    )
                continue
            yield job


def run(app: Application) -> int:
    """Keep the ticks coming until SIGTERM or SIGINT; answer the exit code.

    Beside the loop run two small workers: one on ``ticks``, so that a tick never waits for a mail job, one on
    ``mail-high``, so that mail a person waits for never waits for a campaign.
    """
    stopping = threading.Event()

    def stop(_signum: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    scheduler = MailScheduler(app.redis, app.timetable)
    helpers = _SmallWorkers((TICKS, MAIL_HIGH))
    away = False
    try:
        while not stopping.is_set():
            helpers.keep_alive()
            try:
                scheduler.pass_once()
                if away:
                    log.info("mail.scheduler.redisIsBack")
                away = False
            except RedisError as error:
                if not away:
                    log.warning("mail.scheduler.waitingForRedis", err=type(error).__name__)
                away = True
            stopping.wait(_LOOP_SECONDS)
    finally:
        helpers.stop()
    return 0


class _SmallWorkers:
    """One worker process per queue, started again when it dies and ended with its parent, however that ends."""

    def __init__(self, queues: tuple[str, ...]) -> None:
        # Forked after the imports, a small worker shares their memory with this process.
        if sys.platform == "linux":
            self._process = multiprocessing.get_context("fork").Process
        else:
            self._process = multiprocessing.get_context("spawn").Process
        import_module(JOBS_MODULE)
        self._running: dict[str, BaseProcess | None] = dict.fromkeys(queues)

    def keep_alive(self) -> None:
        for name, process in self._running.items():
            if process is None or not process.is_alive():
                fresh = self._process(target=_work_on, args=(name,), name=f"rqmail-{name}", daemon=True)
                # A signal for the new process must not meet the handlers of this one.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
                try:
                    fresh.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                self._running[name] = fresh

    def stop(self) -> None:
        alive = [process for process in self._running.values() if process is not None and process.is_alive()]
        for process in alive:
            process.terminate()
        for process in alive:
            process.join(timeout=120)


def _work_on(queue: str) -> None:
    """Be a worker on one queue for as long as the parent lives."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    raise SystemExit(worker.run(application(), queues=(queue,)))


def _end_with_parent() -> None:
    """Ask this worker to end once its parent is gone, and end it when it has not: what it sends is over by then."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    while os.getppid() == parent.pid:
        time.sleep(_LOOK_SECONDS)
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while time.monotonic() < deadline:
        os.kill(os.getpid(), signal.SIGTERM)  # a further one changes nothing; one at the very start may be missed
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
