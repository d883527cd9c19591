"""The checks of ``rqmail doctor``, each a question with an answer and, where needed, something to do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from rqmail.administration.checks import CheckView
from rqmail.bootstrap import Application, application
from rqmail.cli.errors import explained
from rqmail.errors import SettingsError
from rqmail.insight.explaining import stopped
from rqmail.insight.readiness import machinery_of
from rqmail.models.migrate import pending
from rqmail.queues import MAIL, MAIL_HIGH, WORKER_QUEUES

_KEYS_NAMED = 3

#: What there can be many of, and how many of them are called.
_MANY = {"mailbox": "mailboxes", "tenant": "tenants"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it (empty when it is well)."""

    name: str
    level: Literal["ok", "warning", "error"]
    text: str
    advice: str = ""


#: What the stock processes take as ``-j``.
_JOB_CLASS = "rqmail.queues.MailJob"


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
    """Judge as readiness does: a tick that just ran proves nothing where nobody schedules the next one."""
    machinery, now = machinery_of(app.limiter, app.queues), app.clock()
    if machinery.redis != "ok":
        return
    url = _shown_in_a_shell(app.settings.redis_url)
    still = {"workers" if one.code == "no-worker" else "ticks": str(one) for one in stopped(machinery, now)}
    if "ticks" in still:
        stock = f"`rqscheduler -j {_JOB_CLASS} -i 1 -u {url}` after `rqmail init`"
        yield Finding("ticks", "error", still["ticks"], f"start `rqmail scheduler`, or {stock}")
    elif machinery.last_tick_on is not None:
        yield Finding(
            "ticks", "ok", f"the last dispatch was {(now - machinery.last_tick_on).total_seconds():.0f} s ago"
        )
    if "workers" in still:
        stock = f"`rq worker -j {_JOB_CLASS} -u {url} {' '.join(WORKER_QUEUES)}`"
        yield Finding("workers", "error", still["workers"], f"start `rqmail worker`, or {stock}")
    else:
        mail = [worker for worker in machinery.workers if {MAIL, MAIL_HIGH} & set(worker.queues)]
        yield Finding("workers", "ok", f"{len(mail)} listen for mail")


def _shown_in_a_shell(redis_url: str) -> str:
    """Answer the address as a shell takes it; one that may hold a password only by its variable's name."""
    parts = urlsplit(redis_url)
    return '"$RQMAIL_REDIS_URL"' if "@" in parts.netloc or parts.query else shlex.quote(redis_url)


def _graph(app: Application) -> Iterator[Finding]:
    """Ask for a token of the app of the settings, and about every sender with it or with its own."""
    names = [f"tenant:{tenant.key}" for tenant in app.tenants.all()]
    token = app.checks.check_own_app()
    if token.outcome == "unconfigured":
        yield Finding(
            "graph",
            "warning",
            "Microsoft Graph is not configured",
            "set RQMAIL_GRAPH_TENANT_ID, _CLIENT_ID and _CLIENT_SECRET (or _CERTIFICATE)",
        )
    elif token.problem:
        yield Finding("graph token", "error", token.problem, "check the app registration and its secret or certificate")
    else:
        yield Finding("graph token", "ok", "granted")
        names = [f"mailbox:{mailbox.key}" for mailbox in app.mailboxes.all()] + names
    for name, check in app.checks.check_all(names).items():
        yield _about(name, check)


def _about(sender: str, check: CheckView) -> Finding:
    kind, _, key = sender.partition(":")
    name, about = f"{kind} {key}", f"`rqmail {kind} set KEY`"
    if check.exists is False:
        return Finding(name, "error", "Graph does not know this mailbox", f"correct it: {about}")
    if check.level == "error":
        return Finding(name, "error", check.problem or "it may not send", f"correct it: {about}")
    if check.may_read is False:
        return Finding(
            name,
            "warning",
            "its Sent Items may not be read: a message with a lost answer waits for a decision",
            "grant Mail.Read to the app, restricted to its mailboxes, if that is wanted",
        )
    if check.outcome != "answered":
        return Finding(
            name, "warning", check.problem or "not known", "try again; see the app's permissions if it stays"
        )
    if check.may_read:
        return Finding(name, "ok", "Graph knows it, and its Sent Items may be read: lost answers are looked up")
    return Finding(name, "ok", "its provider lets it send")


def alike_as_one(findings: Iterable[Finding]) -> list[Finding]:
    """Put what is the same of many mailboxes or tenants into one finding, with their number and the first few keys."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for one in findings:
        kind, _, key = one.name.partition(" ")
        about = kind if key and kind in _MANY else one.name
        groups.setdefault((about, one.level, one.text, one.advice), []).append(one)
    return [members[0] if len(members) == 1 else _together(about, members) for (about, *_), members in groups.items()]


def _together(kind: str, members: list[Finding]) -> Finding:
    keys = [one.name.partition(" ")[2] for one in members]
    more = f" and {len(keys) - _KEYS_NAMED:,} more" if len(keys) > _KEYS_NAMED else ""
    text = f"{members[0].text} ({', '.join(keys[:_KEYS_NAMED])}{more})"
    return replace(members[0], name=f"{len(keys):,} {_MANY[kind]}", text=text)
