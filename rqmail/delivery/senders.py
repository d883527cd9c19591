"""Who a sender is: from the name on a message to the mailbox behind it, its limits and its mailer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from rqmail.clock import Clock, monotonic, utc_now
from rqmail.errors import NotFoundError
from rqmail.mailers.base import Checked, Mailer
from rqmail.mailers.checking import SenderChecker
from rqmail.mailers.factory import MailerFactory
from rqmail.mailers.graph.copies import SentCopies
from rqmail.mailers.graph.inbox import GraphInbox
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.traces import GraphTraces
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import (
    Provider,
    SentItems,
    SystemMailbox,
    TenantMailSetting,
    takes_no_property,
    unmarked_mailboxes,
)
from rqmail.models.message import Route
from rqmail.ratelimit.limits import RateLimits, mailbox_key, resolve_limits
from rqmail.ratelimit.pacing import Pacing
from rqmail.ratelimit.scopes import NOTHING_SHARED, SharedBudgets, TenantBudgets
from rqmail.vault import SecretBox

#: How long a row read from the database is trusted: an edit is seen by every process within this many seconds.
_BELIEVED_SECONDS = 1.0

MAILBOX_PREFIX = "mailbox:"
TENANT_PREFIX = "tenant:"
DEFAULT_SENDER = "default"


@dataclass(frozen=True, slots=True)
class TenantConfig:
    """A tenant's mail setting with its secrets in the clear: lives in memory only."""

    key: str
    provider: str
    address: str | None
    graph_tenant_id: str | None
    graph_client_id: str | None
    graph_client_secret: str | None
    sendgrid_api_key: str | None
    sendgrid_from: str | None
    rate_limit_per_minute: int | None = None
    rate_limit_recipients_per_day: int | None = None

    def __repr__(self) -> str:
        return f"TenantConfig(key={self.key!r}, provider={self.provider!r})"


@dataclass(frozen=True, slots=True)
class Sender:
    """One sender; budget and pause are counted under ``budget_key``; without a budget ``limits`` is ``None``."""

    name: str
    budget_key: str
    limits: RateLimits | None
    row: SystemMailbox | TenantMailSetting | None
    provider: str = Provider.MICROSOFT_GRAPH.value
    entra_tenant: str | None = None
    app_id: str | None = None
    pacing: Pacing = "burst"
    #: Whether a copy of each mail is kept in Sent Items.
    copied: bool = True
    #: Whether the mailbox takes the property by which a mail is found again.
    marked: bool = True
    #: How many of its mails one job has under way at once, where ``limits`` do not say.
    in_flight_without_limits: int = 32
    #: What it shares with other mailboxes.
    shared: SharedBudgets = NOTHING_SHARED
    #: What a mail of this sender goes through now.
    route: Route = field(init=False)

    def __post_init__(self) -> None:
        """Say once what its mails go through: it is asked for several times a mail."""
        route = Route(self.provider, self.budget_key, self.entra_tenant, self.app_id, self.copied, self.marked)
        object.__setattr__(self, "route", route)

    @property
    def in_flight(self) -> int:
        """How many of its mails one job has under way at once."""
        return self.limits.in_flight if self.limits else self.in_flight_without_limits

    @property
    def paused_until(self) -> datetime | None:
        """Until when a person has paused it, if somebody has."""
        return None if self.row is None else self.row.paused_until


class Senders:
    """Finds senders by the name a message carries; thread-safe, and never more than a second behind the tables.

    ``own_app`` is the Entra tenant and the app of the settings, through which whoever has none of its own sends.
    """

    def __init__(
        self,
        factory: MailerFactory,
        box: SecretBox,
        defaults: RateLimits,
        *,
        own_app: tuple[str | None, str | None] = (None, None),
        pacing: Pacing = "even",
        sendgrid_in_flight: int = 32,
        shared: TenantBudgets | None = None,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._clock = clock
        self._factory = factory
        self._box = box
        self._defaults = defaults
        self._shared = shared or TenantBudgets()
        self._own_tenant, self._own_app_id = own_app
        self._pacing = pacing
        self._sendgrid_in_flight = sendgrid_in_flight
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, Sender] = {}
        self._read_at = float("-inf")

    def find(self, name: str) -> Sender:
        """Answer the sender of this name; raises :class:`~rqmail.errors.NotFoundError` when there is none."""
        sender = self.all().get(name)
        if sender is None:
            kind, _, key = name.partition(":")
            raise NotFoundError(kind, key or name)
        return sender

    def all(self) -> dict[str, Sender]:
        """Answer every sender by name, read at most a second ago."""
        with self._lock:
            if self._monotonic() - self._read_at > _BELIEVED_SECONDS:
                self._known = self._read()
                self._read_at = self._monotonic()
            return self._known

    def forget(self) -> None:
        """Read the tables anew at the next question: something in them was changed in this process."""
        with self._lock:
            self._read_at = float("-inf")

    def go_unmarked(self, sender: Sender) -> None:
        """Remember that the sender's mailbox takes no property of ours: its next mails go without."""
        takes_no_property(sender.budget_key, self._clock())
        self.forget()

    def mailer(self, sender: Sender) -> Mailer:
        """Answer the mailer of a sender, wrapped by the limiter where it sends through Microsoft Graph."""
        match sender.row:
            case SystemMailbox() as mailbox:
                return self._factory.get_mailer_for_system_mailbox(mailbox)
            case TenantMailSetting() as tenant:
                return self._factory.get_mailer(self._tenant_config(tenant))
            case None:
                return self._factory.get_mailer()

    def check(self, sender: Sender, checker: SenderChecker) -> Checked:
        """Ask the sender's provider whether it would send, without a mail."""
        match sender.row:
            case SystemMailbox() as mailbox:
                return checker.mailbox(mailbox)
            case TenantMailSetting() as tenant:
                return checker.tenant(self._tenant_config(tenant))
            case None:
                raise ValueError("the default sender is neither a mailbox nor a tenant")

    def can_look(self, route: Route) -> bool:
        """Say whether what went through ``route`` can be looked up: the access it went with is still there."""
        return route.provider == Provider.MICROSOFT_GRAPH.value and self.mailbox_of(route) is not None

    def mailbox_of(self, route: Route) -> GraphMailbox | None:
        """Answer the read side of the mailbox an attempt went through, with the access it went with.

        Whose address that mailbox is by now, and what its sender sends through, does not matter. ``None`` where that
        access is gone: the app is no longer the settings' nor any tenant's.
        """
        access = self._access_of(route)
        return None if access is None else self._factory.get_graph_mailbox(access, marked=route.marked)

    def inbox_of(self, route: Route) -> GraphInbox | None:
        """Answer the Inbox of a mailbox, as :meth:`mailbox_of` does its read side."""
        access = self._access_of(route)
        return None if access is None else self._factory.get_inbox(access)

    def traces_of(self, route: Route) -> GraphTraces | None:
        """Answer the message trace of the Entra tenant a mailbox is in, as :meth:`mailbox_of` does its read side."""
        access = self._access_of(route)
        return None if access is None else self._factory.get_traces(access)

    def _access_of(self, route: Route) -> TenantConfig | None:
        if route.provider != Provider.MICROSOFT_GRAPH.value:
            raise ValueError(f"a mail that went through {route.provider} is in no mailbox")
        access = TenantConfig(
            key=f"what went through {route.mailbox_key}",
            provider=route.provider,
            address=route.mailbox_key,
            graph_tenant_id=route.entra_tenant,
            graph_client_id=None,
            graph_client_secret=None,
            sendgrid_api_key=None,
            sendgrid_from=None,
        )
        if _is_app(self._own_app_id, route.app_id):
            return access
        for tenant in (sender.row for sender in self.all().values()):
            if isinstance(tenant, TenantMailSetting) and _is_app(tenant.graph_client_id, route.app_id):
                secret = self._open(tenant.graph_client_secret_encrypted)
                return replace(access, graph_client_id=route.app_id, graph_client_secret=secret)
        return None

    def sent_copies(self, mailbox: SystemMailbox) -> SentCopies | None:
        """Answer our copies in a mailbox's Sent Items; ``None`` where the app that reaches it is not configured."""
        return self._factory.get_sent_copies(mailbox)

    def _read(self) -> dict[str, Sender]:
        with pooled_connection():
            mailboxes = list(SystemMailbox.select())
            tenants = list(TenantMailSetting.select())
            unmarked = unmarked_mailboxes(self._clock())
        graph = Provider.MICROSOFT_GRAPH.value
        known = {DEFAULT_SENDER: self._without_limits(DEFAULT_SENDER, DEFAULT_SENDER, None)}
        own = (self._own_tenant, self._own_app_id)
        for mailbox in mailboxes:
            name = MAILBOX_PREFIX + mailbox.key
            pacing: Pacing = mailbox.pacing or self._pacing
            known[name] = Sender(
                name,
                budget_key_of(mailbox),
                self._limits_of(mailbox),
                mailbox,
                graph,
                *own,
                pacing=pacing,
                copied=mailbox.sent_items != SentItems.NONE.value,
                marked=budget_key_of(mailbox) not in unmarked,
                shared=self._shared.of(None, mailbox.address),
            )
        for tenant in tenants:
            name = TENANT_PREFIX + tenant.key
            if tenant.provider == Provider.MICROSOFT_GRAPH.value:
                app = (tenant.graph_tenant_id or self._own_tenant, tenant.graph_client_id or self._own_app_id)
                key = budget_key_of(tenant)
                known[name] = Sender(
                    name,
                    key,
                    self._limits_of(tenant),
                    tenant,
                    graph,
                    *app,
                    pacing=self._pacing,
                    marked=key not in unmarked,
                    shared=self._shared.of(tenant.graph_tenant_id, tenant.address or ""),
                )
            else:
                known[name] = self._without_limits(name, budget_key_of(tenant), tenant)
        return known

    def _limits_of(self, row: SystemMailbox | TenantMailSetting) -> RateLimits:
        return resolve_limits(row.rate_limit_per_minute, row.rate_limit_recipients_per_day, defaults=self._defaults)

    def _without_limits(self, name: str, key: str, tenant: TenantMailSetting | None) -> Sender:
        """Answer a sender whose mail leaves through SendGrid, which has limits of its own."""
        return Sender(
            name, key, None, tenant, Provider.SENDGRID.value, in_flight_without_limits=self._sendgrid_in_flight
        )

    def _tenant_config(self, row: TenantMailSetting) -> TenantConfig:
        return TenantConfig(
            key=row.key,
            provider=row.provider,
            address=row.address,
            graph_tenant_id=row.graph_tenant_id,
            graph_client_id=row.graph_client_id,
            graph_client_secret=self._open(row.graph_client_secret_encrypted),
            sendgrid_api_key=self._open(row.sendgrid_api_key_encrypted),
            sendgrid_from=row.sendgrid_from,
            rate_limit_per_minute=row.rate_limit_per_minute,
            rate_limit_recipients_per_day=row.rate_limit_recipients_per_day,
        )

    def _open(self, secret: str | None) -> str | None:
        return None if secret is None else self._box.decrypt(secret)


def _is_app(app_id: str | None, other: str | None) -> bool:
    """Say whether both are one app: its id is a GUID, which people write in either case."""
    return (app_id or "").lower() == (other or "").lower()


def budget_key_of(row: SystemMailbox | TenantMailSetting) -> str:
    """Answer the key under which a sender is counted and paused: its mailbox, or itself where it has none."""
    if isinstance(row, SystemMailbox) or row.provider == Provider.MICROSOFT_GRAPH.value:
        return mailbox_key(row.address or "")
    return mailbox_key(TENANT_PREFIX + row.key)
