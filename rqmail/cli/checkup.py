"""The checks of ``rqmail doctor``, each a question with an answer and, where needed, something to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from rqmail.bootstrap import Application, application
from rqmail.cli.errors import explained
from rqmail.errors import MailError, SettingsError
from rqmail.insight.explaining import PATIENCE
from rqmail.mailers.factory import graph_scope
from rqmail.mailers.graph.entra import Entra
from rqmail.mailers.graph.entra_app import EntraApp
from rqmail.mailers.http.transport import Transport
from rqmail.models.migrate import pending
from rqmail.queues import MAIL, MAIL_HIGH

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it (empty when it is well)."""

    name: str
    level: Literal["ok", "warning", "error"]
    text: str
    advice: str = ""


def check_everything() -> list[Finding]:
    """Make every check that can be made; one that cannot is an error among the findings."""
    try:
        app = application()
    except SettingsError as error:
        return [Finding("settings", "error", str(error), f"correct {error.field}")]
    findings = list(_settings(app))
    findings += _made("database", "check RQMAIL_DATABASE_URL and that the server runs", lambda: _database(app))
    redis = _made("redis", "check RQMAIL_REDIS_URL and that the server runs", lambda: _redis(app))
    findings += redis
    if all(one.level != "error" for one in redis):
        findings += _made("machinery", "", lambda: _machinery(app))
    findings += _made("graph", "", lambda: _graph(app))
    return findings


def _made(name: str, advice: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:
        found = explained(error)
        if found is None:
            raise
        return [Finding(name, "error", found.message, advice)]


def _settings(app: Application) -> Iterator[Finding]:
    yield Finding("settings", "ok", "all RQMAIL_* variables are valid")
    if app.settings.secret_key is None:
        yield Finding(
            "secret key",
            "warning",
            "RQMAIL_SECRET_KEY is not set: tenants' secrets cannot be stored, tokens are not shared between processes",
            "set it to 32 random characters, the same for every process",
        )


def _database(app: Application) -> Iterator[Finding]:
    steps = pending()
    kind = app.settings.database_url.partition(":")[0]
    if steps:
        yield Finding("database", "error", f"{kind}: not up to date ({', '.join(steps)})", "run `rqmail init`")
        return
    yield Finding("database", "ok", f"{kind}, up to date")
    if not app.mailboxes.all() and not app.tenants.all():
        yield Finding("senders", "warning", "nobody may send yet", "`rqmail mailbox add KEY --address …`")


def _redis(app: Application) -> Iterator[Finding]:
    health = app.limiter.health()
    if health.state == "ok":
        yield Finding("redis", "ok", "reached; scripts and writes work")
    elif health.state == "unreachable":
        yield Finding("redis", "error", health.text, "start it, or correct RQMAIL_REDIS_URL")
    else:
        yield Finding("redis", "error", f"it refuses us: {health.text}", "this does not pass by itself: correct it")


def _machinery(app: Application) -> Iterator[Finding]:
    last, now = app.queues.last_tick(), app.clock()
    if last is None or now - last > PATIENCE:
        when = "none today" if last is None else f"the last at {last:%H:%M:%S} UTC"
        yield Finding("ticks", "error", f"no dispatch within a minute ({when})", "start `rqmail scheduler`")
    else:
        yield Finding("ticks", "ok", f"the last dispatch was {(now - last).total_seconds():.0f} s ago")
    mail = [worker for worker in app.queues.workers() if {MAIL, MAIL_HIGH} & set(worker.queues)]
    if any(MAIL in worker.queues for worker in mail):
        yield Finding("workers", "ok", f"{len(mail)} listen for mail")
    else:
        yield Finding("workers", "error", f"none listens on the queue {MAIL}", "start `rqmail worker`")


def _graph(app: Application) -> Iterator[Finding]:
    """Fetch a token and look into the first mailbox with it: what sends and reconciliation need."""
    settings = app.settings
    secret = settings.graph_client_secret
    if not (settings.graph_tenant_id and settings.graph_client_id and (secret or settings.graph_certificate)):
        yield Finding(
            "graph",
            "warning",
            "Microsoft Graph is not configured",
            "set RQMAIL_GRAPH_TENANT_ID, _CLIENT_ID and _CLIENT_SECRET (or _CERTIFICATE)",
        )
        return
    own = EntraApp(
        settings.graph_authority,
        settings.graph_tenant_id,
        settings.graph_client_id,
        secret.get_secret_value() if secret else None,
        settings.graph_certificate,
    )
    transport = Transport(
        connect_timeout=_TIMEOUT_SECONDS, answer_timeout=_TIMEOUT_SECONDS, ca_bundle=settings.ca_bundle
    )
    try:
        token = Entra(own, transport, graph_scope(settings.graph_base_url), clock=app.clock).grant().value
    except MailError as error:
        yield Finding("graph token", "error", str(error), "check the app registration and its secret or certificate")
        return
    yield Finding("graph token", "ok", "granted")
    for mailbox in app.mailboxes.all():
        yield _reading(transport, settings.graph_base_url, token, mailbox.key, mailbox.address)


def _reading(transport: Transport, base_url: str, token: str, key: str, address: str) -> Finding:
    name = f"mailbox {key}"
    url = f"{base_url}/users/{quote(address, safe='')}/mailFolders/sentitems/messages?$top=1&$select=id"
    try:
        answer = transport.request("GET", url, {"Authorization": f"Bearer {token}", "Accept": "application/json"})
    except OSError as error:
        return Finding(name, "error", f"Graph cannot be reached ({type(error).__name__})", "check the network or proxy")
    if answer.status == 200:
        return Finding(name, "ok", "Graph knows it, and its Sent Items may be read: lost answers are looked up")
    if answer.status == 403:
        return Finding(
            name,
            "warning",
            "its Sent Items may not be read: a message with a lost answer waits for a decision",
            "grant Mail.Read to the app, restricted to its mailboxes, if that is wanted",
        )
    if answer.status == 404:
        return Finding(name, "error", "Graph does not know this mailbox", f"correct it: `rqmail mailbox set {key}`")
    return Finding(name, "error", f"Graph answered {answer.status}", "try again; see the app's permissions if it stays")
