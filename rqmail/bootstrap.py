"""The only place that constructs: settings in, a wired application out, each part made when it is first asked for."""

# A command pays for the parts it uses: `rqmail status` needs no HTTP client, a dispatch no pages.
# ruff: noqa: PLC0415

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from rqmail import logs
from rqmail.clock import Clock, from_epoch_ms, utc_now
from rqmail.errors import SettingsError
from rqmail.models.base import connect
from rqmail.settings import Settings, load_settings
from rqmail.text.scrubbing import keep_secret

if TYPE_CHECKING:
    from redis import Redis

    from rqmail.administration.access import Access
    from rqmail.administration.audit import Audit
    from rqmail.administration.campaigns import CampaignChanges
    from rqmail.administration.changes import Changes
    from rqmail.administration.checks import Checks
    from rqmail.administration.checkup import Checkup
    from rqmail.administration.mailboxes import Mailboxes
    from rqmail.administration.restoring import Restoring
    from rqmail.administration.rotation import KeyRotation
    from rqmail.administration.tenants import Tenants
    from rqmail.administration.webhooks import Webhooks
    from rqmail.campaigns.campaign import Campaigns
    from rqmail.campaigns.suppression import Suppressions
    from rqmail.campaigns.unsubscribing import Unsubscribing
    from rqmail.content_store import ContentStore
    from rqmail.delivery.bounces import Bounces
    from rqmail.delivery.dispatch import Dispatcher
    from rqmail.delivery.feeding import Feeder
    from rqmail.delivery.lanes import Lanes, LanesReport
    from rqmail.delivery.outcomes import MailProviderService
    from rqmail.delivery.pruning import SentPruner
    from rqmail.delivery.recovery import Recovery
    from rqmail.delivery.retention import Retention
    from rqmail.delivery.senders import Senders
    from rqmail.delivery.traces import Traces
    from rqmail.delivery.webhooks import WebhookDeliverer
    from rqmail.insight.overview import Overview
    from rqmail.insight.planning import Planning
    from rqmail.insight.progress import CampaignProgress
    from rqmail.insight.readiness import Readiness
    from rqmail.insight.waiting import Waiting
    from rqmail.intake.draft import Intake
    from rqmail.intake.idempotency import Submission
    from rqmail.intake.importing import Imports
    from rqmail.mailers.webhook import WebhookCaller
    from rqmail.metrics import Metrics
    from rqmail.queue_state import QueueState
    from rqmail.queues import MailJob, MailQueues
    from rqmail.ratelimit.history import Told
    from rqmail.ratelimit.limiter import MailRateLimiter
    from rqmail.ratelimit.limits import RateLimits
    from rqmail.ratelimit.scopes import TenantBudgets
    from rqmail.ticks import Timetable
    from rqmail.vault import SecretBox

#: A job begins sends for this long; with the wait for the last ones it is over within about as much again.
JOB_SECONDS = 10.0

#: At its end a job leaves lanes idle for about half a call: spread over so many calls that is a few percent. More would
#: not begin in time where calls take longer than half a second, and leave fewer jobs for the workers to share.
_MESSAGES_PER_LANE = 16

#: Ids in the queues at most: enough to keep any number of workers busy until the next ticks, few enough to lose.
_QUEUED_AT_MOST = 10_000

#: What a line carries at least, as the mailers have it: they are not imported for this.
_SLOWEST_BYTES_A_SECOND = 100_000

T = TypeVar("T")


class _Part(Generic[T]):
    """A part of an application: made at its first use, once, whichever thread asks first."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, application: None, _owner: type) -> _Part[T]: ...
    @overload
    def __get__(self, application: Application, _owner: type) -> T: ...
    def __get__(self, application: Application | None, _owner: type) -> _Part[T] | T:
        # Without __set__, what stands in the application's __dict__ is found before this is called.
        if application is None:
            return self
        with application.making:
            made: T
            if self._name in application.__dict__:
                made = application.__dict__[self._name]
            else:
                made = application.__dict__[self._name] = self._make(application)
            return made


class Application:
    """Everything, wired: what the doors (CLI, jobs, web) call.

    A part is made, and the libraries it stands on are imported, when it is first asked for.
    """

    def __init__(self, settings: Settings, clock: Clock, limiter: MailRateLimiter | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.making = threading.RLock()
        self._limiter = limiter

    @_Part
    def redis(self) -> Redis:
        """The client for queues, tokens and metrics: retried during a restart, for a bounded time."""
        from redis.backoff import ExponentialBackoff
        from redis.retry import Retry

        from rqmail.redis_clients import redis_client

        return redis_client(
            self.settings.redis_url,
            ca_file=self.settings.redis_authority,
            connect_timeout=2,
            timeout=5,
            health_check_interval=30,
            retry=Retry(ExponentialBackoff(cap=1, base=0.05), 3),
        )

    @_Part
    def metrics(self) -> Metrics:
        """What happened, counted over all processes."""
        from rqmail.metrics import Metrics

        return Metrics(self.redis, self.clock)

    @_Part
    def limiter(self) -> MailRateLimiter:
        """The brake this process shares."""
        if self._limiter is not None:
            return self._limiter
        from rqmail.models.ledger import external_since, sends_since
        from rqmail.ratelimit.limiter import MailRateLimiter
        from rqmail.ratelimit.scopes import tenant_of

        def history(mailbox_key: str, since_ms: int, now_ms: int) -> Sequence[Told]:
            tenant = tenant_of(mailbox_key)
            if tenant is None:
                return sends_since(mailbox_key, from_epoch_ms(since_ms))
            return external_since(tenant[0], from_epoch_ms(since_ms), onmicrosoft=tenant[1])

        return MailRateLimiter.from_url(
            self.settings.redis_url,
            window=self.settings.rate_window,
            clock=None if self.clock is utc_now else self.clock,
            history=history,
            lease_ms=round(self._lease.total_seconds() * 1000),
            ca_file=self.settings.redis_authority,
            on_fail_open=lambda: self.metrics.count("fail-open", "reserve"),
        )

    @_Part
    def queues(self) -> MailQueues:
        """The RQ queues."""
        from rqmail.queues import MailQueues

        # The last mail begun may be the largest, over the slowest line that is waited for; each call has its own bound.
        largest = 2 * self.settings.max_message_bytes / _SLOWEST_BYTES_A_SECOND
        timeout = JOB_SECONDS + 2 * self.settings.send_timeout_seconds + 30 + largest
        return MailQueues(
            self.redis, self.clock, poll_seconds=self.settings.poll_seconds, job_timeout_seconds=round(timeout)
        )

    @_Part
    def queue_state(self) -> QueueState:
        """What carries the mail, without RQ."""
        from rqmail.queue_state import QueueState

        return QueueState(self.redis, self.clock, self.settings.poll_seconds)

    @_Part
    def timetable(self) -> Timetable:
        """What runs periodically, kept on the schedule."""
        from rqmail.ticks import Timetable

        return Timetable(self.redis, self.clock, self.settings.poll_seconds)

    @_Part
    def box(self) -> SecretBox:
        """What encrypts secrets at rest."""
        from rqmail.vault import SecretBox

        key = self.settings.secret_key
        former = self.settings.secret_keys[1:] if key else ()
        return SecretBox(key.get_secret_value() if key else None, former)

    @_Part
    def senders(self) -> Senders:
        """Who may send, with its mailer and its limits."""
        from rqmail.delivery.senders import Senders
        from rqmail.mailers.factory import MailerFactory
        from rqmail.token_store import RedisTokenStore

        factory = MailerFactory(
            self.settings,
            self.limiter,
            token_store=RedisTokenStore(self.redis, self.box) if self.box.usable else None,
            clock=self.clock,
            busy_wait_seconds=5.0,
            shared=self._tenant_budgets,
        )
        own_app = (self.settings.graph_tenant_id, self.settings.graph_client_id)
        return Senders(
            factory,
            self.box,
            self._default_limits,
            own_app=own_app,
            pacing=self.settings.pacing,
            sendgrid_in_flight=self.settings.sendgrid_in_flight,
            shared=self._tenant_budgets,
            clock=self.clock,
        )

    @_Part
    def service(self) -> MailProviderService:
        """What happens to one message."""
        from rqmail.delivery.outcomes import MailProviderService

        return MailProviderService(
            self.senders,
            self.limiter,
            self.clock,
            self.metrics,
            contents=self.contents,
            unsubscribe_headers=lambda message, address: self.unsubscribing.headers_for(
                address, message.sender, message_id=message.id
            ),
            max_attempts=self.settings.max_attempts,
            lease=self._lease,
        )

    @_Part
    def dispatcher(self) -> Dispatcher:
        """From the table to the queues."""
        from rqmail.delivery.dispatch import Dispatcher
        from rqmail.ratelimit.pacing import Pacer

        return Dispatcher(
            self.senders,
            self.limiter,
            self.queues,
            self.clock,
            Pacer(self.redis, poll_seconds=self.settings.poll_seconds),
            self.metrics,
            reserve_for_high=self.settings.reserve_for_high,
            lanes=self.settings.send_lanes,
            rounds=_MESSAGES_PER_LANE,
            queued_at_most=_QUEUED_AT_MOST,
            feed=self.feeder.feed,
        )

    @_Part
    def feeder(self) -> Feeder:
        """What makes messages of the people campaigns go to."""
        from rqmail.delivery.feeding import Feeder
        from rqmail.models.suppression import suppressed_among

        return Feeder(
            self.senders,
            self.limiter,
            self.clock,
            reserve_for_high=self.settings.reserve_for_high,
            suppressed=suppressed_among,
        )

    @_Part
    def campaign_changes(self) -> CampaignChanges:
        """Campaigns made and steered, audited."""
        from rqmail.administration.campaigns import CampaignChanges

        return CampaignChanges(self.campaigns, self.audit)

    @_Part
    def restoring(self) -> Restoring:
        """What is done after a backup was restored, audited."""
        from rqmail.administration.restoring import Restoring

        return Restoring(self.senders, self.audit, self.clock)

    @_Part
    def campaign_progress(self) -> CampaignProgress:
        """How campaigns stand."""
        from rqmail.insight.progress import CampaignProgress

        return CampaignProgress(self.planning, self.clock)

    @_Part
    def campaigns(self) -> Campaigns:
        """One text for many people: made and steered."""
        from rqmail.campaigns.campaign import Campaigns
        from rqmail.models.suppression import suppressed_among

        return Campaigns(self.clock, self.intake, suppressed_among, self._unsubscribing_needs)

    @_Part
    def lanes(self) -> Lanes:
        """One job's messages, sent side by side."""
        from rqmail.delivery.lanes import Lanes

        return Lanes(
            self.service,
            self.senders,
            self.clock,
            width=self.settings.send_lanes,
            lease=self._lease,
            start_within_seconds=JOB_SECONDS,
        )

    @_Part
    def recovery(self) -> Recovery:
        """What finds what was lost on the way."""
        from rqmail.delivery.recovery import Recovery

        return Recovery(
            self.senders,
            self.queues,
            self.clock,
            unknown_policy=self.settings.unknown_policy,
            grace=timedelta(seconds=self.settings.unknown_grace_seconds),
            max_attempts=self.settings.max_attempts,
        )

    @_Part
    def retention(self) -> Retention:
        """What deletes what came to its end long ago."""
        from rqmail.delivery.retention import Retention

        def days(number: int) -> timedelta | None:
            return timedelta(days=number) if number else None

        return Retention(
            self.clock,
            self.contents,
            messages_for=days(self.settings.retention_days),
            audit_for=days(self.settings.audit_retention_days),
        )

    @_Part
    def pruner(self) -> SentPruner:
        """What keeps Sent Items from filling up."""
        from rqmail.delivery.pruning import SentPruner

        return SentPruner(self.senders, self.clock)

    @_Part
    def bounces(self) -> Bounces:
        """What reads the reports of mail that did not arrive."""
        from rqmail.delivery.bounces import Bounces

        return Bounces(self.senders, self.limiter, self.clock)

    @_Part
    def webhook_caller(self) -> WebhookCaller:
        """What tells receivers of events."""
        from rqmail.mailers.webhook import WebhookCaller

        settings = self.settings
        return WebhookCaller(self.clock, allow_private=settings.webhook_allow_private, ca_bundle=settings.ca_bundle)

    @_Part
    def webhook_deliverer(self) -> WebhookDeliverer:
        """What tells webhooks of what happened."""
        from rqmail.delivery.webhooks import WebhookDeliverer

        return WebhookDeliverer(self.box, self.webhook_caller, self.clock)

    @_Part
    def webhooks(self) -> Webhooks:
        """Who is told of what happens."""
        from rqmail.administration.webhooks import Webhooks

        allow_private = self.settings.webhook_allow_private
        return Webhooks(self.clock, self.box, lambda: self.webhook_caller, allow_private=allow_private)

    @_Part
    def traces(self) -> Traces:
        """What reads whether mail was delivered."""
        from rqmail.delivery.traces import Traces

        return Traces(self.senders, self.clock)

    @_Part
    def intake(self) -> Intake:
        """Where mail comes in."""
        from rqmail.intake.draft import Intake
        from rqmail.intake.nudging import Nudger

        return Intake(
            self.clock,
            Nudger(self.queues.nudge),
            self.timetable.keep_in_passing,
            contents=self.contents,
            max_message_bytes=self.settings.max_message_bytes,
            unsubscribing_needs=self._unsubscribing_needs,
        )

    def _unsubscribing_needs(self) -> str | None:
        return self.unsubscribing.missing()

    @_Part
    def contents(self) -> ContentStore:
        """Where the bytes of attached files are kept."""
        from rqmail.content_store import ContentStore

        return ContentStore(self.clock, self.settings.attachments_url)

    @_Part
    def imports(self) -> Imports:
        """Where files of mail come in."""
        from rqmail.intake.importing import Imports

        return Imports(self.clock, self.intake)

    @_Part
    def suppressions(self) -> Suppressions:
        """Who gets no mail."""
        from rqmail.campaigns.suppression import Suppressions

        return Suppressions(self.clock)

    @_Part
    def unsubscribing(self) -> Unsubscribing:
        """The links by which people unsubscribe."""
        from rqmail.campaigns.unsubscribing import Unsubscribing

        return Unsubscribing(self.clock, self.settings.web_url, self.settings.secret_keys)

    @_Part
    def submission(self) -> Submission:
        """Where a repeated request is taken once."""
        from rqmail.intake.idempotency import Submission

        return Submission(self.clock, self.intake)

    @_Part
    def mailboxes(self) -> Mailboxes:
        """The system mailboxes."""
        from rqmail.administration.mailboxes import Mailboxes

        return Mailboxes(self.clock, self.limiter)

    @_Part
    def tenants(self) -> Tenants:
        """The tenants and their mail settings."""
        from rqmail.administration.tenants import Tenants

        return Tenants(self.clock, self.box, self.limiter)

    @_Part
    def rotation(self) -> KeyRotation:
        """The change of the key that secrets are stored with."""
        from rqmail.administration.rotation import KeyRotation
        from rqmail.token_store import RedisTokenStore

        return KeyRotation(self.box, RedisTokenStore(self.redis, self.box))

    @_Part
    def changes(self) -> Changes:
        """Every change, audited."""
        from rqmail.administration.changes import Changes

        return Changes(
            self.mailboxes,
            self.tenants,
            self.access,
            self.audit,
            self.overview,
            self.senders,
            self.imports,
            self.suppressions,
            self.unsubscribing,
            self.rotation,
            self.webhooks,
            self.clock,
        )

    @_Part
    def checks(self) -> Checks:
        """What the providers say about the senders."""
        from rqmail.administration.checks import Checks
        from rqmail.mailers.checking import SenderChecker
        from rqmail.mailers.factory import MailerFactory

        factory = MailerFactory(self.settings, self.limiter, clock=self.clock)
        return Checks(self.senders, lambda: SenderChecker(self.settings, factory, self.clock), self.clock)

    @_Part
    def checkup(self) -> Checkup:
        """What looks at everything mail needs, and says what to do about what is missing."""
        from rqmail.administration.checkup import Checkup

        return Checkup(
            self.settings,
            self.limiter,
            self.queue_state,
            self.mailboxes,
            self.tenants,
            self.checks,
            self.rotation,
            self.clock,
        )

    @_Part
    def overview(self) -> Overview:
        """How things stand."""
        from rqmail.insight.overview import Overview

        return Overview(
            self.limiter,
            self.queue_state,
            self.clock,
            self._default_limits,
            pacing=self.settings.pacing,
            shared=self._tenant_budgets,
            denied_last_hour=self.metrics.denied_last_hour,
        )

    @_Part
    def planning(self) -> Planning:
        """When the mail will be through, and what if."""
        from rqmail.insight.planning import Planning

        return Planning(
            self.limiter,
            self.clock,
            self._default_limits,
            pacing=self.settings.pacing,
            shared=self._tenant_budgets,
        )

    @_Part
    def waiting(self) -> Waiting:
        """Why one message waits."""
        from rqmail.insight.waiting import Waiting

        return Waiting(self.overview, self.clock)

    @_Part
    def readiness(self) -> Readiness:
        """Whether mail that is handed in now will go out."""
        from rqmail.insight.readiness import Readiness

        return Readiness(self.limiter, self.queue_state, self.clock)

    @_Part
    def access(self) -> Access:
        """Who may do what."""
        from rqmail.administration.access import Access

        token = self.settings.admin_token
        return Access(self.clock, token.get_secret_value() if token else None)

    @_Part
    def audit(self) -> Audit:
        """Who changed what."""
        from rqmail.administration.audit import Audit

        return Audit(self.clock)

    @property
    def _default_limits(self) -> RateLimits:
        from rqmail.ratelimit.limits import RateLimits

        settings = self.settings
        return RateLimits(settings.rate_per_minute, settings.rate_recipients_per_day, settings.rate_in_flight)

    @_Part
    def _tenant_budgets(self) -> TenantBudgets:
        """What the mailboxes of an Entra tenant share."""
        from rqmail.ratelimit.scopes import TenantBudgets

        settings = self.settings
        return TenantBudgets.told(
            settings.graph_tenant_id,
            settings.tenant_licences or {},
            settings.tenant_recipients_per_day or {},
            settings.accepted_domains or {},
        )

    @property
    def _lease(self) -> timedelta:
        """How long a message begun is left alone: a wait for a place, a fresh token, one send, a busy machine."""
        return timedelta(seconds=3 * self.settings.send_timeout_seconds + 30)

    def send(self, ids: Sequence[str]) -> LanesReport:
        """Send one job's messages, and add what was counted meanwhile to the shared totals."""
        try:
            return self.lanes.send(ids)
        finally:
            self.metrics.flush()


def build(settings: Settings | None = None, clock: Clock = utc_now) -> Application:
    """Wire an application; connects to nothing yet, but points the models at the settings' database."""
    return _opened(Application(settings or load_settings(), clock, _limiter_for_tests))


def _opened(application: Application, *, embedded: bool = False) -> Application:
    """Make this process the application's: its log (unless it is ``embedded``), its secrets, its database."""
    settings = application.settings
    keep_secret(*settings.secrets)
    if embedded:
        logs.configure_embedded()
    else:
        logs.configure(settings.log_format)
    connect(settings.database_url)
    return application


def preload() -> None:
    """Import and wire what a job needs, for a stock worker, which forks a child for each job.

    Nothing is connected and nothing of this process changed: a child opens its own. Settings that are wrong are left
    for it to tell. A stock ``rqscheduler`` keeps the ticks registered from then on.
    """
    global _wired_by_parent  # noqa: PLW0603 - what a child finds after the fork
    from rqmail import ticks, token_store, vault
    from rqmail.administration import changes
    from rqmail.delivery import dispatch, lanes, outcomes, recovery, retention, traces, webhooks
    from rqmail.insight import readiness
    from rqmail.intake import importing, nudging
    from rqmail.mailers import factory
    from rqmail.mailers.graph import entra
    from rqmail.queues import MailJob

    needed = (ticks, token_store, vault, changes, dispatch, lanes, outcomes, recovery, retention, traces, webhooks)
    _ = (*needed, readiness, importing, nudging, factory, entra)
    logs.prepare()
    MailJob.tick_moved = _keep_ticks
    with suppress(SettingsError):
        wired = Application(load_settings(), utc_now)
        _ = (wired.queues, wired.timetable, wired.dispatcher, wired.lanes)
        _wired_by_parent = (os.getpid(), wired)
    gc.unfreeze()  # a command starts without looking for garbage
    gc.collect()
    gc.freeze()  # what a child does not look through, it does not copy


def _keep_ticks(_moved: MailJob) -> None:
    application().timetable.keep_in_background()


_wired_by_parent: tuple[int, Application] | None = None
_process: tuple[int, Application] | None = None
_limiter_for_tests: MailRateLimiter | None = None


def application(*, embedded: bool = False) -> Application:
    """Answer this process's application, built from the environment at first use (and anew after a fork).

    ``embedded`` in a process that is somebody else's: how that one logs stays as it is.
    """
    global _process  # noqa: PLW0603 - one application a process
    if _process is None or _process[0] != os.getpid():
        wired = _wired_by_parent
        by_parent = wired is not None and wired[0] == os.getppid()
        opened = wired[1] if wired and by_parent else Application(load_settings(), utc_now, _limiter_for_tests)
        _process = (os.getpid(), _opened(opened, embedded=embedded))
    return _process[1]


def get_mail_rate_limiter() -> MailRateLimiter:
    """Answer the limiter this process shares."""
    return application().limiter


def set_mail_rate_limiter_for_tests(limiter: MailRateLimiter | None) -> None:
    """Make applications built from now on use ``limiter``; ``None`` ends that."""
    global _limiter_for_tests, _process  # noqa: PLW0603 - a seam for tests
    _limiter_for_tests = limiter
    _process = None
