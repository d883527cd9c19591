"""Our own worker process: RQ's, without a fork per job; it retries while Redis is away."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType

from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.serializers import JSONSerializer

from rqmail.bootstrap import Application
from rqmail.logs import event_log
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import MailJob
from rqmail.redis_clients import redis_client

log = event_log()

#: How long to wait before asking an absent Redis again.
_ASK_AGAIN_SECONDS = 1.0


class MailWorker(SimpleWorker):
    """An RQ worker that keeps its connections and tokens warm from job to job.

    On SIGTERM or SIGINT it finishes what is in flight, puts the rest of its job back and ends.
    """

    application: Application

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Beat, and register anew where an emptied Redis has forgotten this worker."""
        if pipeline is None and not self.connection.hexists(self.key, "birth"):
            self.connection.delete(self.key)
            self.register_birth()  # type: ignore[no-untyped-call]
        super().heartbeat(timeout, pipeline)

    def _install_signal_handlers(self) -> None:
        """Listen to signals, and to one that came while this worker was being started."""
        super()._install_signal_handlers()  # type: ignore[no-untyped-call]
        if self.application.lanes.stopping.is_set():
            self._stop_requested = True

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Begin nothing new; RQ then ends after the present job."""
        self.application.lanes.stop()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """Ignore a second signal: what is in flight ends within its timeout, and killing it would lose its outcome."""


def run(application: Application, *, burst: bool = False, queues: Sequence[str] = WORKER_QUEUES) -> int:
    """Work until told to stop (or, with ``burst``, until the queues are empty); answer the exit code.

    Waits for Redis at start and after an outage instead of ending.
    """
    if burst:
        return _work(application, queues, burst=True)
    application.timetable.keep_in_background()
    try:
        return _work(application, queues, burst=False)
    finally:
        application.timetable.stop_keeping()


def _work(application: Application, queues: Sequence[str], *, burst: bool) -> int:
    # RQ stretches its connection's timeouts to wait for work: it gets one of its own.
    settings = application.settings
    redis = redis_client(settings.redis_url, ca_file=settings.redis_authority, connect_timeout=2)
    stopping = application.lanes.stopping
    warned = False
    while not stopping.is_set():
        _stop_on_signals(application)
        try:
            redis.ping()
            warned = False
            worker = MailWorker(
                [Queue(name, connection=redis, job_class=MailJob, serializer=JSONSerializer) for name in queues],
                connection=redis,
                job_class=MailJob,
                serializer=JSONSerializer,
            )
            worker.application = application
            worker.work(burst=burst, logging_level="WARNING")
            if burst:
                return 0
            # RQ has logged why it gave up; a cause that stays must not make this a busy loop.
            stopping.wait(_ASK_AGAIN_SECONDS)
        except StopRequested:
            break
        except RedisError as error:
            if not warned:
                log.warning("mail.worker.waitingForRedis", err=type(error).__name__)
                warned = True
            stopping.wait(_ASK_AGAIN_SECONDS)
    return 0


def _stop_on_signals(application: Application) -> None:
    """End cleanly on SIGTERM and SIGINT also while no RQ worker is running."""

    def stop(_signum: int, _frame: FrameType | None) -> None:
        application.lanes.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
