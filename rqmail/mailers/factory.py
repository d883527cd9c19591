"""Builds the mailer of each sender and keeps it until the sender is edited."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import parseaddr
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from rqmail.clock import Clock, utc_now
from rqmail.errors import InvalidInputError, MailAuthError
from rqmail.mailers.base import Address, Mail, Mailer, Receipt
from rqmail.mailers.configs import ReadTenant, SystemMailboxConfig, TenantMailConfig, read_tenant
from rqmail.mailers.graph.copies import SentCopies
from rqmail.mailers.graph.entra_app import EntraApp, GrantedToken, SettingNames
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.inbox import GraphInbox
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.mailer import MicrosoftGraphMailer
from rqmail.mailers.graph.token import GraphTokenSource, TokenStore
from rqmail.mailers.graph.traces import GraphTraces
from rqmail.mailers.http.per_process import PerProcess
from rqmail.mailers.http.transport import Transport
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.mailers.sendgrid import SendGridMailer
from rqmail.mailers.staging import ConsoleMailer, FolderMailer, RedirectingMailer
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits, resolve_limits
from rqmail.ratelimit.scopes import TenantBudgets
from rqmail.settings import LOOPBACK_HOSTS, Settings
from rqmail.text.values import checked_line, checked_secret, trimmed

_MOST_MAILERS = 4096
_MOST_TOKEN_SOURCES = 512
_LONGEST_CONNECT_SECONDS = 10.0
_LONGEST_TOKEN_CONNECT_SECONDS = 5.0
_LONGEST_TOKEN_ANSWER_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UnconfiguredMailer:
    """Stands where a mailer cannot be built: every send says which setting is missing or not usable."""

    problem: str

    def send(self, mail: Mail) -> Receipt:
        """Raise ``MailAuthError`` naming the setting: the sender is paused, and its mail waits for the correction."""
        raise MailAuthError(f"Mail cannot be sent: {self.problem}")


class MailerFactory:
    """Answers the mailer of a sender; one HTTP transport and one token source per app serve them all.

    A mailer is kept until any field that matters to it changes, so an edit works without restarting a process.
    """

    def __init__(
        self,
        settings: Settings,
        limiter: MailRateLimiter,
        *,
        transport: Transport | None = None,
        token_store: TokenStore | None = None,
        clock: Clock = utc_now,
        busy_wait_seconds: float = 2.0,
        shared: TenantBudgets | None = None,
    ) -> None:
        self._settings = settings
        self._shared = shared or TenantBudgets()
        self._limiter = limiter
        self._transport = transport or _transport(settings)
        self._entra_transport = transport or _entra_transport(settings)
        self._token_store = token_store
        self._clock = clock
        self._busy_wait_seconds = busy_wait_seconds
        self._mailers: _Kept[Mailer] = _Kept(_MOST_MAILERS)
        self._token_sources: _Kept[GraphTokenSource] = _Kept(_MOST_TOKEN_SOURCES)

    def get_mailer(self, config: TenantMailConfig | None = None) -> Mailer:
        """Answer the mailer of a tenant as its provider says; of no tenant, the default one."""
        tenant = None if config is None else read_tenant(config)
        if tenant is None or tenant.provider == "default":
            return self._mailers.get("default", "", self._build_default)
        if tenant.provider == "sendgrid":
            return self._mailers.get(
                f"tenant {tenant.key}", _fingerprint_of_tenant(tenant), lambda: self._build_sendgrid(tenant)
            )
        if tenant.provider == "microsoft-graph":
            return self._mailers.get(
                f"tenant {tenant.key}", _fingerprint_of_tenant(tenant), lambda: self._build_tenant_graph(tenant)
            )
        raise InvalidInputError("provider", tenant.provider, "'microsoft-graph', 'sendgrid' or 'default'")

    def get_mailer_for_system_mailbox(self, mailbox: SystemMailboxConfig) -> Mailer:
        """Answer the mailer of a system mailbox: always Microsoft Graph, always within budget."""
        fingerprint = _hash(mailbox.address, mailbox.rate_limit_per_minute, mailbox.rate_limit_recipients_per_day)
        return self._mailers.get(f"mailbox {mailbox.key}", fingerprint, lambda: self._build_system_graph(mailbox))

    def app_of(self, config: TenantMailConfig | None = None) -> EntraApp | UnconfiguredMailer:
        """Answer the app a tenant sends with through Graph, or system mailboxes do; else what is missing for it."""
        return self._own_app() if config is None else self._app_of(read_tenant(config))

    def get_graph_mailbox(self, config: TenantMailConfig, *, marked: bool = True) -> GraphMailbox | None:
        """Answer the read side of the mailbox that ``config`` describes; ``None`` where it cannot be reached so.

        ``marked`` is whether what is looked for there carries our property.
        """
        tenant = read_tenant(config)
        app = self._app_of(tenant)
        if tenant.provider != "microsoft-graph" or not tenant.address or isinstance(app, UnconfiguredMailer):
            return None
        return self._graph_mailbox(app, tenant.address, marked=marked)

    def get_inbox(self, config: TenantMailConfig) -> GraphInbox | None:
        """Answer the Inbox of the mailbox that ``config`` describes; ``None`` where it cannot be reached so."""
        tenant = read_tenant(config)
        app = self._app_of(tenant)
        if tenant.provider != "microsoft-graph" or not tenant.address or isinstance(app, UnconfiguredMailer):
            return None
        return GraphInbox(self._graph_http(app), self._settings.graph_base_url, tenant.address, clock=self._clock)

    def get_traces(self, config: TenantMailConfig) -> GraphTraces | None:
        """Answer the message trace of the Entra tenant that ``config`` sends in; ``None`` where it is not reachable."""
        tenant = read_tenant(config)
        app = self._app_of(tenant)
        if tenant.provider != "microsoft-graph" or isinstance(app, UnconfiguredMailer):
            return None
        return GraphTraces(self._graph_http(app), self._settings.graph_base_url, clock=self._clock)

    def get_sent_copies(self, mailbox: SystemMailboxConfig) -> SentCopies | None:
        """Answer our copies in a system mailbox's Sent Items; ``None`` where the app is not configured."""
        app = self._own_app()
        if isinstance(app, UnconfiguredMailer):
            return None
        address = trimmed(mailbox.address)
        return SentCopies(self._graph_http(app), self._settings.graph_base_url, address, clock=self._clock)

    def limits_for_system_mailbox(self, mailbox: SystemMailboxConfig) -> RateLimits:
        """Answer the limits that hold for a system mailbox: its overrides, else the settings' defaults."""
        return self._limits_of(mailbox)

    def _limits_of(self, config: SystemMailboxConfig | ReadTenant) -> RateLimits:
        return resolve_limits(
            config.rate_limit_per_minute, config.rate_limit_recipients_per_day, defaults=self._default_limits()
        )

    def _default_limits(self) -> RateLimits:
        return RateLimits(
            per_minute=self._settings.rate_per_minute,
            recipients_per_day=self._settings.rate_recipients_per_day,
            in_flight=self._settings.rate_in_flight,
        )

    def _build_default(self) -> Mailer:
        if self._settings.transport:
            return self._redirected(self._staged(self._settings.sendgrid_from or "default@rqmail.invalid"))
        if self._settings.sendgrid_api_key is None:
            return UnconfiguredMailer("RQMAIL_SENDGRID_API_KEY is not set")
        if not self._settings.sendgrid_from:
            return UnconfiguredMailer("RQMAIL_SENDGRID_FROM is not set")
        return self._sendgrid(self._settings.sendgrid_api_key.get_secret_value(), self._settings.sendgrid_from)

    def _build_sendgrid(self, tenant: ReadTenant) -> Mailer:
        if self._settings.transport:
            named = tenant.sendgrid_from or tenant.address or f"{tenant.key}@rqmail.invalid"
            return self._redirected(self._staged(named))
        if not tenant.sendgrid_api_key:
            return UnconfiguredMailer(f"sendgridApiKey of tenant {tenant.key} is not set")
        sender = tenant.sendgrid_from or tenant.address
        if not sender:
            return UnconfiguredMailer(f"sendgridFrom of tenant {tenant.key} is not set")
        unfit = _unfit("sendgridApiKey", tenant, tenant.sendgrid_api_key) or _unfit_address(
            "sendgridFrom", tenant, sender
        )
        if unfit:
            return unfit
        return self._sendgrid(tenant.sendgrid_api_key, sender)

    def _build_tenant_graph(self, tenant: ReadTenant) -> Mailer:
        if not tenant.address:
            return UnconfiguredMailer(f"address of tenant {tenant.key} is not set")
        if self._settings.transport:
            staged = self._staged(tenant.address)
            return self._within_budget(staged, tenant.address, self._limits_of(tenant), tenant.graph_tenant_id)
        app = _unfit_address("address", tenant, tenant.address) or self._app_of(tenant)
        if isinstance(app, UnconfiguredMailer):
            return app
        return self._graph(app, tenant.address, self._limits_of(tenant), tenant.graph_tenant_id)

    def _build_system_graph(self, mailbox: SystemMailboxConfig) -> Mailer:
        address, limits = trimmed(mailbox.address), self.limits_for_system_mailbox(mailbox)
        if self._settings.transport:
            return self._within_budget(self._staged(address), address, limits)
        app = self._own_app()
        if isinstance(app, UnconfiguredMailer):
            return app
        return self._graph(app, address, limits)

    def _staged(self, sender: str) -> Mailer:
        """Answer what mail goes to instead of a provider."""
        name, address = parseaddr(sender)
        kind, _, place = (self._settings.transport or "").partition(":")
        return (
            FolderMailer(Address(address, name), Path(place))
            if kind == "folder"
            else ConsoleMailer(Address(address, name))
        )

    def _redirected(self, mailer: Mailer) -> Mailer:
        to = self._settings.redirect_to
        return mailer if to is None else RedirectingMailer(mailer, to)

    def _within_budget(
        self, mailer: Mailer, address: str, limits: RateLimits, entra_tenant: str | None = None
    ) -> Mailer:
        return RateLimitedGraphMailer(
            self._redirected(mailer),
            self._limiter,
            address,
            limits,
            shared=self._shared.of(entra_tenant, address),
            busy_wait_seconds=self._busy_wait_seconds,
        )

    def _sendgrid(self, api_key: str, sender: str) -> Mailer:
        name, address = parseaddr(sender)
        return self._redirected(
            SendGridMailer(
                self._transport, self._settings.sendgrid_base_url, api_key, Address(address, name), clock=self._clock
            )
        )

    def _graph(self, app: EntraApp, address: str, limits: RateLimits, entra_tenant: str | None = None) -> Mailer:
        mailer = MicrosoftGraphMailer(self._graph_http(app), self._settings.graph_base_url, address, clock=self._clock)
        return self._within_budget(mailer, address, limits, entra_tenant)

    def _graph_mailbox(self, app: EntraApp, address: str, *, marked: bool) -> GraphMailbox:
        base_url = self._settings.graph_base_url
        return GraphMailbox(self._graph_http(app), base_url, address, clock=self._clock, marked=marked)

    def _graph_http(self, app: EntraApp) -> GraphHttp:
        proof = (app.client_secret, app.certificate, app.certificate_password, app.identity)
        fingerprint = _hash(app.authority, app.tenant_id, app.client_id, *proof)
        return GraphHttp(
            self._transport,
            self._token_sources.get(fingerprint, "", lambda: self._build_token_source(app)),
            start_within_seconds=self._settings.send_timeout_seconds,
        )

    def _build_token_source(self, app: EntraApp) -> GraphTokenSource:
        scope = graph_scope(self._settings.graph_base_url)

        def grant(claims: str | None = None) -> GrantedToken:
            # MSAL takes longer to import than all of ours, and a job in a fork of its own mostly finds a shared token.
            from rqmail.mailers.graph.entra import Entra  # noqa: PLC0415

            return Entra(app, self._entra_transport, scope, clock=self._clock).grant(claims)

        return GraphTokenSource(app, grant, store=self._token_store, clock=self._clock)

    def _own_app(self) -> EntraApp | UnconfiguredMailer:
        settings = self._settings
        if not settings.graph_tenant_id:
            return UnconfiguredMailer("RQMAIL_GRAPH_TENANT_ID is not set")
        if not settings.graph_client_id:
            return UnconfiguredMailer("RQMAIL_GRAPH_CLIENT_ID is not set")
        has_secret = settings.graph_client_secret is not None or settings.graph_certificate is not None
        if not has_secret and settings.graph_identity is None:
            return UnconfiguredMailer(
                "RQMAIL_GRAPH_CLIENT_SECRET (or RQMAIL_GRAPH_CERTIFICATE, or RQMAIL_GRAPH_IDENTITY) is not set"
            )
        if has_secret and settings.graph_identity is not None:
            return UnconfiguredMailer("RQMAIL_GRAPH_IDENTITY stands beside a secret or certificate; unset one of them")
        secret, password = settings.graph_client_secret, settings.graph_certificate_password
        return EntraApp(
            authority=settings.graph_authority,
            tenant_id=settings.graph_tenant_id,
            client_id=settings.graph_client_id,
            client_secret=secret.get_secret_value() if secret else None,
            certificate=settings.graph_certificate,
            certificate_password=password.get_secret_value() if password else None,
            identity=settings.graph_identity,
        )

    def _app_of(self, tenant: ReadTenant) -> EntraApp | UnconfiguredMailer:
        """Answer the app a tenant sends with: its own, or ours, in its own Entra tenant if it names one."""
        unfit = (
            _unfit("graphTenantId", tenant, tenant.graph_tenant_id)
            or _unfit("graphClientId", tenant, tenant.graph_client_id)
            or _unfit("graphClientSecret", tenant, tenant.graph_client_secret)
        )
        if unfit:
            return unfit
        if tenant.graph_client_id or tenant.graph_client_secret:
            if not tenant.graph_client_id:
                return UnconfiguredMailer(f"graphClientId of tenant {tenant.key} is not set")
            if not tenant.graph_client_secret:
                return UnconfiguredMailer(f"graphClientSecret of tenant {tenant.key} is not set")
            entra_tenant = tenant.graph_tenant_id or self._settings.graph_tenant_id
            if not entra_tenant:
                return UnconfiguredMailer(f"graphTenantId of tenant {tenant.key} is not set")
            return EntraApp(
                self._settings.graph_authority,
                entra_tenant,
                tenant.graph_client_id,
                tenant.graph_client_secret,
                names=_names(tenant, own_app=True),
            )
        own = self._own_app()
        if isinstance(own, EntraApp) and tenant.graph_tenant_id:
            return replace(own, tenant_id=tenant.graph_tenant_id, names=_names(tenant, own_app=False))
        return own


class _Kept(Generic[T]):
    """Keeps one value a key for as long as its fingerprint is the same; beyond ``most`` the longest unused one goes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[str, T]] = OrderedDict()
        self._lock = PerProcess(threading.Lock)

    def get(self, key: str, fingerprint: str, build: Callable[[], T]) -> T:
        """Answer the value kept under ``key``, built anew if there is none or its fingerprint differs."""
        with self._lock.get():
            kept = self._values.get(key)
            if kept is None or kept[0] != fingerprint:
                kept = (fingerprint, build())
                self._values[key] = kept
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)
            return kept[1]


def _names(tenant: ReadTenant, *, own_app: bool) -> SettingNames:
    """Name what is to be corrected when Entra refuses: the tenant's fields where it has them, else the settings."""
    names = SettingNames()
    if own_app:
        names = replace(
            names,
            client_id=f"graphClientId of tenant {tenant.key}",
            client_secret=f"graphClientSecret of tenant {tenant.key}",
        )
    return replace(names, tenant_id=f"graphTenantId of tenant {tenant.key}") if tenant.graph_tenant_id else names


def _unfit(field: str, tenant: ReadTenant, value: str | None) -> UnconfiguredMailer | None:
    """Answer the mailer that names a stored value in which something unfit is left, ``None`` for a good one."""
    try:
        checked_secret(value or "")
    except ValueError as allowed:
        return UnconfiguredMailer(f"{field} of tenant {tenant.key} is not usable; allowed: {allowed}")
    return None


def _unfit_address(field: str, tenant: ReadTenant, value: str) -> UnconfiguredMailer | None:
    try:
        checked_line(value, "an address on one line")
    except ValueError as allowed:
        return UnconfiguredMailer(f"{field} of tenant {tenant.key} is not usable; allowed: {allowed}")
    return None


def graph_scope(base_url: str) -> str:
    """Answer the scope that asks Entra for every permission the app has on the Graph behind ``base_url``."""
    parts = urlsplit(base_url)
    host = "graph.microsoft.com" if parts.hostname in LOOPBACK_HOSTS else parts.netloc
    return f"https://{host}/.default"


def _transport(settings: Settings) -> Transport:
    seconds = settings.send_timeout_seconds
    return Transport(
        connect_timeout=min(_LONGEST_CONNECT_SECONDS, seconds),
        answer_timeout=seconds,
        ca_bundle=settings.ca_bundle,
        connections=settings.send_lanes,
    )


def _entra_transport(settings: Settings) -> Transport:
    # All lanes wait for a token, so it is given up sooner than a send.
    return Transport(
        connect_timeout=min(_LONGEST_TOKEN_CONNECT_SECONDS, settings.send_timeout_seconds),
        answer_timeout=min(_LONGEST_TOKEN_ANSWER_SECONDS, settings.send_timeout_seconds),
        ca_bundle=settings.ca_bundle,
        connections=2,
    )


def _fingerprint_of_tenant(tenant: ReadTenant) -> str:
    return _hash(
        tenant.provider,
        tenant.address,
        tenant.graph_tenant_id,
        tenant.graph_client_id,
        tenant.graph_client_secret,
        tenant.sendgrid_api_key,
        tenant.sendgrid_from,
        tenant.rate_limit_per_minute,
        tenant.rate_limit_recipients_per_day,
    )


def _hash(*fields: object) -> str:
    return hashlib.sha256(repr(fields).encode()).hexdigest()
