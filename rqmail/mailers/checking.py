"""Asks the providers about senders, so that a wrong one is found when it is saved and not by its first mail."""

from __future__ import annotations

import threading
from dataclasses import replace

from rqmail.clock import Clock
from rqmail.errors import MailAuthError, MailError
from rqmail.mailers.base import Checked
from rqmail.mailers.configs import SystemMailboxConfig, TenantMailConfig, read_tenant
from rqmail.mailers.factory import MailerFactory, UnconfiguredMailer, graph_scope
from rqmail.mailers.graph.checking import check_mailbox, roles_of
from rqmail.mailers.graph.entra_app import EntraApp
from rqmail.mailers.http.transport import Transport
from rqmail.mailers.sendgrid import check_api_key
from rqmail.settings import Settings

_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 4.0


class SenderChecker:
    """Checks any number of senders, from any thread, with one fresh token for each app.

    A provider that was away is not asked again for the others: made anew for every round of checks.
    """

    def __init__(self, settings: Settings, factory: MailerFactory, clock: Clock) -> None:
        self._settings = settings
        self._factory = factory
        self._clock = clock
        self._transport = Transport(
            connect_timeout=_CONNECT_SECONDS, answer_timeout=_ANSWER_SECONDS, ca_bundle=settings.ca_bundle
        )
        self._lock = threading.Lock()
        self._tokens: dict[EntraApp, str | MailError] = {}
        self._away: Checked | None = None

    @property
    def has_own_app(self) -> bool:
        """Whether the settings name an app, right or wrong."""
        return not isinstance(self._factory.app_of(), UnconfiguredMailer)

    def own_app(self) -> Checked:
        """Ask for a token of the app of the settings, which all system mailboxes send with.

        ``may_send`` where the token names Mail.Send: that is for every mailbox of the tenant.
        """
        app = self._factory.app_of()
        checked = self._app(app)
        if checked.problem is not None or isinstance(app, UnconfiguredMailer):
            return checked
        return replace(checked, may_send=True if "mail.send" in roles_of(str(self._token(app))) else None)

    def mailbox(self, mailbox: SystemMailboxConfig) -> Checked:
        """Check a system mailbox."""
        return self._graph(self._factory.app_of(), mailbox.address)

    def tenant(self, config: TenantMailConfig) -> Checked:
        """Check a tenant as its provider says; of the default one, the SendGrid account of the settings."""
        tenant = read_tenant(config)
        if tenant.provider == "microsoft-graph":
            return self._graph(self._factory.app_of(config), tenant.address or "")
        key = self._settings.sendgrid_api_key
        if tenant.provider == "sendgrid":
            if not tenant.sendgrid_api_key:
                return _unconfigured(f"sendgridApiKey of tenant {tenant.key} is not set")
            return self._sendgrid(tenant.sendgrid_api_key)
        if key is None:
            return _unconfigured("RQMAIL_SENDGRID_API_KEY is not set")
        return self._sendgrid(key.get_secret_value())

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _app(self, app: EntraApp | UnconfiguredMailer) -> Checked:
        if isinstance(app, UnconfiguredMailer):
            return _unconfigured(app.problem)
        token = self._token(app)
        if isinstance(token, MailError):
            if isinstance(token, MailAuthError):
                return Checked(may_send=False, problem=str(token))
            return Checked(problem=str(token), outcome="away")
        return Checked()

    def _graph(self, app: EntraApp | UnconfiguredMailer, address: str) -> Checked:
        checked = self._app(app)
        if checked.problem is not None or isinstance(app, UnconfiguredMailer):
            return checked
        if self._away is not None:
            return self._away
        token = str(self._token(app))
        checked = check_mailbox(self._transport, self._settings.graph_base_url, token, address)
        if checked.outcome == "away":
            self._away = checked
        return checked

    def _token(self, app: EntraApp) -> str | MailError:
        from rqmail.mailers.graph.entra import Entra  # noqa: PLC0415 - MSAL takes longer to import than all of ours

        with self._lock:
            if app not in self._tokens:
                scope = graph_scope(self._settings.graph_base_url)
                try:
                    self._tokens[app] = Entra(app, self._transport, scope, clock=self._clock).grant().value
                except MailError as error:
                    self._tokens[app] = error
            return self._tokens[app]

    def _sendgrid(self, api_key: str) -> Checked:
        return check_api_key(self._transport, self._settings.sendgrid_base_url, api_key)


def _unconfigured(problem: str) -> Checked:
    return Checked(may_send=False, problem=problem, outcome="unconfigured")
