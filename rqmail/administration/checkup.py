"""Everything mail needs, checked: each check a question with an answer and, where needed, something to do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

from rqmail.administration.checks import Checks
from rqmail.administration.mailboxes import Mailboxes
from rqmail.administration.rotation import KeyRotation
from rqmail.administration.sending import look_at_domains
from rqmail.administration.tenants import Tenants
from rqmail.clock import Clock
from rqmail.domains import Domains
from rqmail.errors import told
from rqmail.insight.bouncing import too_many_back
from rqmail.insight.checked import CheckView, last_checks
from rqmail.insight.explaining import stopped
from rqmail.insight.readiness import machinery_of
from rqmail.insight.standing import Sentence
from rqmail.mailers.graph.certificate import read_certificate
from rqmail.models.base import forgetful_settings, standbys_not_waited_for
from rqmail.models.deliveries import readings
from rqmail.models.mailbox import Provider, unmarked_mailboxes
from rqmail.models.migrate import pending
from rqmail.queue_state import MAIL, MAIL_HIGH, QueueState
from rqmail.queues import JOB_CLASS
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import mailbox_key
from rqmail.setting_files import SUFFIX, readable_by_others
from rqmail.settings import PREFIX, Settings, secret_files

Level = Literal["ok", "warning", "error"]

#: So long before its end a credential is warned of.
_WARNED_AHEAD = timedelta(days=30)

_GRAPH = Provider.MICROSOFT_GRAPH.value

#: Secrets that a finding names.
_NAMED = 5

_NOTHING = Sentence("nothing-to-do", "")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it (empty when it is well); an error needs a person.

    ``name`` is what was looked at: a part of the installation, or a sender (``mailbox KEY``, ``tenant KEY``).
    """

    name: str
    level: Level
    text: Sentence
    advice: Sentence = _NOTHING

    @property
    def kind(self) -> str:
        """``mailbox`` or ``tenant`` of a sender, else the name."""
        kind, _, key = self.name.partition(" ")
        return kind if key and kind in {"mailbox", "tenant"} else self.name

    @property
    def key(self) -> str:
        """The sender's key; empty where it is no sender."""
        return self.name[len(self.kind) + 1 :]


@dataclass(frozen=True, slots=True)
class SendersFound:
    """What the providers said when they were last asked; the oldest of that was said ``since`` then.

    ``unasked`` senders were never asked about.
    """

    findings: list[Finding]
    unasked: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Asked:
    """How many senders' providers were asked anew, and for how many the time did not suffice."""

    senders: int
    left: int


class Checkup:
    """Checks the installation and its senders; what cannot be looked at is an error among the findings."""

    def __init__(
        self,
        settings: Settings,
        limiter: MailRateLimiter,
        queues: QueueState,
        mailboxes: Mailboxes,
        tenants: Tenants,
        checks: Checks,
        rotation: KeyRotation,
        clock: Clock,
        domains: Callable[[], Domains] = Domains,
    ) -> None:
        self._settings = settings
        self._limiter = limiter
        self._queues = queues
        self._mailboxes = mailboxes
        self._tenants = tenants
        self._checks = checks
        self._rotation = rotation
        self._make_domains = domains
        self._clock = clock

    def everything(self) -> list[Finding]:
        """Make every check there is, and ask the providers about every sender: that takes a while."""
        providers = _made("graph", _NOTHING, self._providers)
        return [*self.installation(), *providers, *_made("dns", _NOTHING, self._domains)]

    def installation(self) -> list[Finding]:
        """Check what all senders need, but for their providers: that takes a moment."""
        database = Sentence("check-database", "check RQMAIL_DATABASE_URL and that the server runs")
        server = Sentence("check-redis", "check RQMAIL_REDIS_URL and that the server runs")
        stored = _made("database", database, self._database)
        findings = [*self._variables(), *stored]
        if all(one.level != "error" for one in stored):
            findings += _made("message trace", _NOTHING, self._traces)
        if self._settings.secret_key is not None and all(one.level != "error" for one in findings):
            findings += _made("secret key", database, self._secret_key)
        redis = _made("redis", server, self._redis)
        findings += redis
        if all(one.level != "error" for one in redis):
            findings += _made("machinery", _NOTHING, self._machinery)
        findings += _made("graph", _NOTHING, self._graph)
        correct = Sentence("correct-certificate", "correct RQMAIL_GRAPH_CERTIFICATE")
        return [*findings, *_made("graph certificate", correct, self._certificate)]

    def senders(self) -> SendersFound:
        """Tell what the providers said about each sender when they were last asked."""
        names = [*self._named_mailboxes(), *self._named_tenants()]
        last = last_checks()
        known = {name: last[name] for name in names if name in last}
        since = min((check.checked_on for check in known.values()), default=None)
        found = [one for name, check in known.items() for one in _about(name, check)]
        return SendersFound([*found, *self._unmarked(), *self._bouncing()], len(names) - len(known), since)

    def ask(self, within: float) -> Asked:
        """Ask the providers about senders for so many seconds, first about those not asked for longest."""
        names = [*self._named_mailboxes(), *self._named_tenants()]
        last = last_checks()
        names.sort(key=lambda name: (name in last, last[name].checked_on if name in last else self._clock()))
        answered = self._checks.check_all(names, within=within)
        return Asked(len(answered), len(names) - len(answered))

    def _variables(self) -> Iterator[Finding]:
        yield Finding("settings", "ok", Sentence("settings-valid", "all RQMAIL_* variables are valid"))
        for name, path in secret_files().items():
            if readable_by_others(path):
                variable = f"{PREFIX}{name.upper()}{SUFFIX}"
                text = f"everybody on this machine may read the file of {variable}"
                yield Finding(
                    "settings",
                    "warning",
                    Sentence("secret-file-open", text, variable=variable),
                    Sentence("close-secret-file", "take that right away: chmod 600, in Kubernetes defaultMode 0400"),
                )
        if self._settings.transport is not None:
            staged = Sentence(
                "mail-staged", f"no mail leaves: it goes to {self._settings.transport}", place=self._settings.transport
            )
            yield Finding("transport", "warning", staged, Sentence("unset-transport", "unset RQMAIL_TRANSPORT to send"))
        if self._settings.redirect_to is not None:
            to = self._settings.redirect_to
            redirected = Sentence("mail-redirected", f"all mail goes to {to}, whoever it is for", address=to)
            yield Finding(
                "redirect", "warning", redirected, Sentence("unset-redirect", "unset RQMAIL_REDIRECT_TO to send")
            )
        if self._settings.secret_key is None:
            text = (
                "RQMAIL_SECRET_KEY is not set: tenants' secrets cannot be stored,"
                " tokens are not shared between processes"
            )
            advice = "set it to 32 random characters, the same for every process"
            yield Finding("secret key", "warning", Sentence("no-secret-key", text), Sentence("set-secret-key", advice))

    def _database(self) -> Iterator[Finding]:
        steps = ", ".join(pending())
        kind = self._settings.database_url.partition(":")[0]
        if steps:
            text = Sentence("database-behind", f"{kind}: not up to date ({steps})", kind=kind, steps=steps)
            yield Finding("database", "error", text, Sentence("run-init", "run `rqmail init`"))
            return
        yield Finding("database", "ok", Sentence("database-current", f"{kind}, up to date", kind=kind))
        off = ", ".join(forgetful_settings())
        if off:
            lost = f"a power cut makes it forget what it said was written ({off})"
            advice = Sentence("keep-writes", "turn that on: a message forgotten so may be lost, or sent twice")
            yield Finding("durability", "warning", Sentence("database-forgets", lost, settings=off), advice)
        behind = standbys_not_waited_for()
        if behind:
            lost = f"it does not wait for its standbys ({behind}): a failover forgets what they lack"
            advice = Sentence(
                "wait-for-standby", "set `synchronous_standby_names`: a message forgotten so may be lost, or sent twice"
            )
            yield Finding("replication", "warning", Sentence("standbys-behind", lost, number=behind), advice)
        if not self._mailboxes.all() and not self._tenants.all():
            advice = Sentence("add-mailbox", "`rqmail mailbox add KEY --address …`")
            yield Finding("senders", "warning", Sentence("no-senders", "nobody may send yet"), advice)

    def _secret_key(self) -> Iterator[Finding]:
        """Tell which stored secrets the present key does not open."""
        report = self._rotation.status()
        if report.unreadable:
            names = ", ".join(report.unreadable[:_NAMED])
            number = len(report.unreadable)
            text = Sentence(
                "no-key-opens", f"no key opens {number:,} stored secrets ({names})", number=number, names=names
            )
            advice = "put the key they were stored with into RQMAIL_FORMER_SECRET_KEYS, or store them anew"
            yield Finding("secret key", "error", text, Sentence("add-former-key", advice))
        tokens = 0 if report.tokens is None else report.tokens.former
        if report.former:
            text = Sentence(
                "need-former-key",
                f"encrypted with a former key: secrets {report.secrets.former:,}, tokens {tokens:,}",
                secrets=report.secrets.former,
                tokens=tokens,
            )
            yield Finding("secret key", "warning", text, Sentence("rotate-vault", "run `rqmail vault rotate`"))
        elif self._settings.former_secret_keys and not report.unreadable and report.tokens is not None:
            text = Sentence("no-former-key-needed", "nothing stored needs a former key any more")
            yield Finding("secret key", "ok", text)

    def _traces(self) -> Iterator[Finding]:
        """Tell whether Exchange's message trace was read when it was last asked for; nothing where it never was."""
        for tenant, reading in readings().items():
            if reading.problem is None:
                text = Sentence("traces-read", "it is read: whether mail was delivered is known")
                yield Finding("message trace", "ok", text)
            else:
                problem = f"{tenant}: {reading.problem}" if tenant else reading.problem
                advice = "whether mail was delivered stays unknown until then, nothing else does"
                yield Finding("message trace", "warning", _said(problem), Sentence("no-traces", advice))

    def _redis(self) -> Iterator[Finding]:
        health = self._limiter.health()
        if health.state == "ok":
            yield Finding("redis", "ok", Sentence("redis-well", "reached; scripts and writes work"))
            policy = self._queues.eviction()
            if policy is not None:
                text = f"it throws keys away once its memory is full ({policy}): queues and counts would be lost"
                advice = Sentence("keep-keys", "set `maxmemory-policy noeviction`")
                yield Finding("redis", "warning", Sentence("redis-evicts", text, policy=policy), advice)
            yield from self._persistence()
        elif health.state == "unreachable":
            advice = Sentence("start-redis", "start it, or correct RQMAIL_REDIS_URL")
            yield Finding("redis", "error", Sentence("redis-away", health.text, detail=health.text), advice)
        else:
            text = Sentence("redis-refuses", f"it refuses us: {health.text}", detail=health.text)
            advice = Sentence("correct-redis", "this does not pass by itself: correct it")
            yield Finding("redis", "error", text, advice)

    def _persistence(self) -> Iterator[Finding]:
        """Tell whether Redis keeps its data; no mail is lost without, for the table knows all that matters."""
        match self._queues.persistence():
            case "failing":
                text = Sentence("redis-cannot-save", "it cannot write to its disk, and refuses writes before long")
                room = Sentence("make-room", "make room on its disk; its log says what is wrong")
                yield Finding("redis", "warning", text, room)
            case "none":
                text = Sentence(
                    "redis-forgets", "it keeps nothing on disk: a restart empties the queues and the counts"
                )
                advice = "no mail is lost by that; turn on `appendonly` or `save` where statistics should stay"
                yield Finding("redis persistence", "ok", text, Sentence("keep-data", advice))
            case "kept" | "untold":
                pass

    def _machinery(self) -> Iterator[Finding]:
        """Judge as readiness does: a tick that just ran proves nothing where nobody schedules the next one."""
        machinery, now = machinery_of(self._limiter, self._queues), self._clock()
        if machinery.redis != "ok":
            return
        url = _shown_in_a_shell(self._settings.redis_url)
        still = {"workers" if one.code == "no-worker" else "ticks": one for one in stopped(machinery, now)}
        if "ticks" in still:
            stock = f"rqscheduler -j {JOB_CLASS} -i 1 -u {url}"
            advice = f"start `rqmail scheduler`, or `{stock}` after `rqmail init`"
            yield Finding("ticks", "error", still["ticks"], Sentence("start-scheduler", advice, stock=stock))
        elif machinery.last_tick_on is not None:
            age = now - machinery.last_tick_on
            text = f"the last dispatch was {age.total_seconds():.0f} s ago"
            yield Finding("ticks", "ok", Sentence("last-dispatch", text, age=age))
        if "workers" in still:
            stock = f"rq worker -c rqmail.rqconfig -j {JOB_CLASS}"
            advice = f"start `rqmail worker`, or `{stock}`"
            yield Finding("workers", "error", still["workers"], Sentence("start-worker", advice, stock=stock))
        else:
            mail = sum(1 for worker in machinery.workers if {MAIL, MAIL_HIGH} & set(worker.queues))
            yield Finding("workers", "ok", Sentence("workers-listen", f"{mail} listen for mail", number=mail))

    def _graph(self) -> Iterator[Finding]:
        if not self._checks.has_own_app():
            advice = "set RQMAIL_GRAPH_TENANT_ID, _CLIENT_ID and _CLIENT_SECRET (or _CERTIFICATE)"
            text = Sentence("no-graph", "Microsoft Graph is not configured")
            yield Finding("graph", "warning", text, Sentence("set-graph", advice))

    def _certificate(self) -> Iterator[Finding]:
        """Tell until when the app's certificate is valid."""
        if self._settings.graph_certificate is None:
            return
        password, now = self._settings.graph_certificate_password, self._clock()
        found = read_certificate(
            self._settings.graph_certificate, now, password.get_secret_value() if password else None
        )
        ends, days = f"{found.valid_until:%Y-%m-%d}", (found.valid_until.date() - now.date()).days
        if found.valid_until - now <= _WARNED_AHEAD:
            text = Sentence("certificate-ends", f"it expires on {ends}, in {days} days", date=ends, days=days)
            advice = "make a new one, upload it to the app registration, then put it into RQMAIL_GRAPH_CERTIFICATE"
            yield Finding("graph certificate", "warning", text, Sentence("renew-certificate", advice))
        else:
            yield Finding("graph certificate", "ok", Sentence("certificate-valid", f"valid until {ends}", date=ends))

    def _providers(self) -> Iterator[Finding]:
        """Ask for a token of the app of the settings, and about every sender with it or with its own."""
        names = self._named_tenants()
        token = self._checks.check_own_app()
        if token.outcome != "unconfigured" and token.problem:
            advice = "check the app registration and its secret or certificate"
            yield Finding("graph token", "error", _said(token.problem), Sentence("check-app", advice))
        elif token.outcome != "unconfigured":
            yield Finding("graph token", "ok", Sentence("token-granted", "granted"))
            if token.may_send:
                wide = "the token names Mail.Send for every mailbox of the tenant, not only for those configured here"
                advice = "restrict it by RBAC for Applications in Exchange Online and take it away in Entra"
                advice += "; well where an application access policy restricts it already"
                yield Finding(
                    "graph permissions", "warning", Sentence("send-as-all", wide), Sentence("restrict-app", advice)
                )
            names = self._named_mailboxes() + names
        for name, check in self._checks.check_all(names).items():
            yield from _about(name, check)
        yield from self._unmarked()
        yield from self._bouncing()

    def _domains(self) -> Iterator[Finding]:
        """Tell of the domains mail is sent from what makes others doubt it."""
        senders = [(one.address, _GRAPH) for one in self._mailboxes.all()]
        for tenant in self._tenants.all():
            if tenant.provider == _GRAPH and tenant.address:
                senders.append((tenant.address, tenant.provider))
            elif tenant.provider == "sendgrid" and tenant.sendgrid_from:
                senders.append((tenant.sendgrid_from, tenant.provider))
        if self._settings.sendgrid_from:
            senders.append((self._settings.sendgrid_from, "sendgrid"))
        for one in look_at_domains(self._make_domains(), senders):
            yield Finding(f"domain {one.domain}" if one.domain else "dns", one.level, one.text, one.advice)

    def _bouncing(self) -> Iterator[Finding]:
        """Tell of which senders so much mail comes back that others begin to refuse it."""
        back = too_many_back(self._clock())
        senders = [(f"mailbox {one.key}", one.address) for one in self._mailboxes.all()]
        senders += [(f"tenant {one.key}", one.address or "") for one in self._tenants.all()]
        for name, address in senders if back else ():
            one = back.get(mailbox_key(address)) if address else None
            if one is not None:
                number = f"{one.bounced:,} of {one.recipients:,} recipients"
                text = f"{one.percent:g} % of its mail came back in 7 days ({number})"
                values = {"percent": one.percent, "bounced": one.bounced, "recipients": one.recipients}
                advice = Sentence("clean-lists", "others begin to refuse it: clean the lists its addresses come from")
                yield Finding(name, "warning", Sentence("comes-back", text, **values), advice)

    def _unmarked(self) -> Iterator[Finding]:
        """Tell which mailboxes take no property of ours."""
        unmarked = unmarked_mailboxes(self._clock())
        for mailbox in self._mailboxes.all() if unmarked else ():
            if mailbox_key(mailbox.address) in unmarked:
                text = "Exchange lets it create no more named properties: its mail goes without ours, and a lost answer"
                text += " is looked up by header and Message-ID"
                advice = "move the mailbox to make room for names; it is tried again after a week"
                yield Finding(
                    f"mailbox {mailbox.key}", "warning", Sentence("no-names", text), Sentence("make-names", advice)
                )

    def _named_mailboxes(self) -> list[str]:
        return [f"mailbox:{mailbox.key}" for mailbox in self._mailboxes.all()]

    def _named_tenants(self) -> list[str]:
        return [f"tenant:{tenant.key}" for tenant in self._tenants.all()]


def alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Put together what was found of mailboxes, or of tenants, in the same words."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.kind, one.level, one.text, one.advice), []).append(one)
    return list(groups.values())


def _made(name: str, advice: Sentence, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:
        text = told(error)
        if text is None:
            raise
        return [Finding(name, "error", _said(text), advice)]


def _about(sender: str, check: CheckView) -> Iterator[Finding]:
    """Say how a sender stands, and beside that what its large mails lack."""
    yield _standing(sender, check)
    if check.may_write is False and check.level != "error":
        text = Sentence("may-not-write", "Mail.ReadWrite is missing for mails over 4 MB: these wait")
        advice = "grant Mail.ReadWrite to the app, restricted to its mailboxes, if that is wanted"
        yield Finding(sender.replace(":", " ", 1), "warning", text, Sentence("grant-write", advice))


def _standing(sender: str, check: CheckView) -> Finding:
    kind, _, key = sender.partition(":")
    name, command = f"{kind} {key}", f"rqmail {kind} set KEY"
    correct = Sentence("correct-sender", f"correct it: `{command}`", command=command)
    if check.exists is False:
        return Finding(name, "error", Sentence("mailbox-not-found", "Graph does not know this mailbox"), correct)
    if check.level == "error":
        text = _said(check.problem) if check.problem else Sentence("may-not-send", "it may not send")
        return Finding(name, "error", text, correct)
    if check.may_read is False:
        text = Sentence(
            "may-not-read", "its Sent Items may not be read: a message with a lost answer waits for a decision"
        )
        advice = "grant Mail.Read to the app, restricted to its mailboxes, if that is wanted"
        return Finding(name, "warning", text, Sentence("grant-read", advice))
    if check.outcome != "answered":
        text = _said(check.problem) if check.problem else Sentence("not-known", "not known")
        advice = "try again; see the app's permissions if it stays"
        return Finding(name, "warning", text, Sentence("try-again", advice))
    if check.may_read:
        both = "Graph knows it, and its Sent Items may be read: lost answers are looked up"
        return Finding(name, "ok", Sentence("may-read", both))
    return Finding(name, "ok", Sentence("may-send", "its provider lets it send"))


def _said(text: str) -> Sentence:
    """Hand on the words of a provider or a server, which nobody translates."""
    return Sentence("said", text)


def _shown_in_a_shell(redis_url: str) -> str:
    """Answer the address as a shell takes it; one that may hold a password by the name of its variable or file."""
    file = secret_files().get("redis_url")
    if file is not None:
        return f'"$(cat {shlex.quote(str(file))})"'
    parts = urlsplit(redis_url)
    return '"$RQMAIL_REDIS_URL"' if "@" in parts.netloc or parts.query else shlex.quote(redis_url)
