"""The only place that constructs: settings in, a wired application out, in order of dependence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from rqmail import logs
from rqmail.administration.access import Access
from rqmail.administration.audit import Audit
from rqmail.administration.changes import Changes
from rqmail.administration.mailboxes import Mailboxes
from rqmail.administration.tenants import Tenants
from rqmail.clock import Clock, from_epoch_ms, utc_now
from rqmail.delivery.dispatch import Dispatcher
from rqmail.delivery.lanes import Lanes, LanesReport
from rqmail.delivery.outcomes import MailProviderService
from rqmail.delivery.recovery import Recovery
from rqmail.delivery.retention import Retention
from rqmail.delivery.senders import Senders
from rqmail.insight.overview import Overview
from rqmail.insight.readiness import Readiness
from rqmail.intake.draft import Intake
from rqmail.intake.idempotency import Submission
from rqmail.mailers.factory import MailerFactory
from rqmail.metrics import Metrics
from rqmail.models.base import connect
from rqmail.models.ledger import sends_since
from rqmail.queues import MailQueues
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.settings import Settings, load_settings
from rqmail.token_store import RedisTokenStore
from rqmail.vault import SecretBox

#: A job begins sends for this long; with the wait for the last ones it is over within about as much again.
JOB_SECONDS = 10.0

#: At its end a job leaves lanes idle for about half a call: spread over so many calls that is a few percent. More would
#: not begin in time where calls take longer than half a second, and leave fewer jobs for the workers to share.
_MESSAGES_PER_LANE = 16

#: Ids in the queues at most: enough to keep any number of workers busy until the next ticks, few enough to lose.
_QUEUED_AT_MOST = 10_000


@dataclass(frozen=True)
class Application:
    """Everything, wired: what the doors (CLI, jobs, web) call."""

    settings: Settings
    clock: Clock
    redis: Redis
    limiter: MailRateLimiter
    queues: MailQueues
    box: SecretBox
    senders: Senders
    service: MailProviderService
    dispatcher: Dispatcher
    lanes: Lanes
    recovery: Recovery
    retention: Retention
    metrics: Metrics
    intake: Intake
    submission: Submission
    mailboxes: Mailboxes
    tenants: Tenants
    changes: Changes
    overview: Overview
    readiness: Readiness
    access: Access
    audit: Audit

    def send(self, ids: Sequence[str]) -> LanesReport:
        """Send one job's messages, and add what was counted meanwhile to the shared totals."""
        try:
            return self.lanes.send(ids)
        finally:
            self.metrics.flush()


def build(settings: Settings | None = None, clock: Clock = utc_now) -> Application:
    """Wire an application; connects to nothing yet, but points the models at the settings' database."""
    settings = settings or load_settings()
    logs.configure(settings.log_format)
    connect(settings.database_url)

    # Waiting for a place in flight, one fresh token, one send, and what a busy machine adds.
    lease = timedelta(seconds=3 * settings.send_timeout_seconds + 30)

    redis = _redis(settings.redis_url)
    defaults = RateLimits(settings.rate_per_minute, settings.rate_recipients_per_day, settings.rate_in_flight)
    metrics = Metrics(redis, clock)
    limiter = _limiter_for_tests or MailRateLimiter.from_url(
        settings.redis_url,
        window=settings.rate_window,
        clock=None if clock is utc_now else clock,
        history=lambda key, since_ms, _now_ms: sends_since(key, from_epoch_ms(since_ms)),
        lease_ms=round(lease.total_seconds() * 1000),
        on_fail_open=lambda: metrics.count("fail-open", "reserve"),
    )
    job_timeout = JOB_SECONDS + 2 * settings.send_timeout_seconds + 30
    queues = MailQueues(redis, clock, poll_seconds=settings.poll_seconds, job_timeout_seconds=round(job_timeout))
    box = SecretBox(settings.secret_key.get_secret_value() if settings.secret_key else None)
    factory = MailerFactory(
        settings,
        limiter,
        token_store=RedisTokenStore(redis, box) if box.usable else None,
        clock=clock,
        busy_wait_seconds=5.0,
    )
    senders = Senders(factory, box, defaults)
    service = MailProviderService(senders, limiter, clock, metrics, max_attempts=settings.max_attempts)
    intake = Intake(clock, queues.nudge)
    mailboxes = Mailboxes(clock, limiter)
    tenants = Tenants(clock, box)
    overview = Overview(limiter, queues, clock, defaults)
    access = Access(clock, settings.admin_token.get_secret_value() if settings.admin_token else None)
    audit = Audit(clock)
    return Application(
        settings=settings,
        clock=clock,
        redis=redis,
        limiter=limiter,
        queues=queues,
        box=box,
        senders=senders,
        service=service,
        dispatcher=Dispatcher(
            senders,
            limiter,
            queues,
            clock,
            reserve_for_high=settings.reserve_for_high,
            job_size=settings.send_lanes * _MESSAGES_PER_LANE,
            queued_at_most=_QUEUED_AT_MOST,
        ),
        lanes=Lanes(
            service,
            senders,
            clock,
            width=settings.send_lanes,
            lease=lease,
            start_within_seconds=JOB_SECONDS,
        ),
        recovery=Recovery(
            senders,
            queues,
            clock,
            unknown_policy=settings.unknown_policy,
            grace=timedelta(seconds=settings.unknown_grace_seconds),
            max_attempts=settings.max_attempts,
        ),
        retention=Retention(clock),
        metrics=metrics,
        intake=intake,
        submission=Submission(clock, intake),
        mailboxes=mailboxes,
        tenants=tenants,
        changes=Changes(mailboxes, tenants, access, audit, overview, senders, clock),
        overview=overview,
        readiness=Readiness(limiter, queues, clock, poll_seconds=settings.poll_seconds),
        access=access,
        audit=audit,
    )


_process: tuple[int, Application] | None = None
_limiter_for_tests: MailRateLimiter | None = None


def application() -> Application:
    """Answer this process's application, built from the environment at first use (and anew after a fork)."""
    global _process  # noqa: PLW0603 - one application a process
    if _process is None or _process[0] != os.getpid():
        _process = (os.getpid(), build())
    return _process[1]


def get_mail_rate_limiter() -> MailRateLimiter:
    """Answer the limiter this process shares."""
    return application().limiter


def set_mail_rate_limiter_for_tests(limiter: MailRateLimiter | None) -> None:
    """Make applications built from now on use ``limiter``; ``None`` ends that."""
    global _limiter_for_tests, _process  # noqa: PLW0603 - a seam for tests
    _limiter_for_tests = limiter
    _process = None


def _redis(url: str) -> Redis:
    """Make the client for queues, tokens and metrics: patient with a restart, never for ever."""
    make = partial(Redis.from_url, url, socket_connect_timeout=2, socket_timeout=5, health_check_interval=30)
    client: Redis = make(retry=Retry(ExponentialBackoff(cap=1, base=0.05), 3))
    return client
