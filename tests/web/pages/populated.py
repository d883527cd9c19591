"""An installation in the middle of a working day: what the pages look like when there is something to see."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from rqmail.bootstrap import Application
from rqmail.intake.attachments import Attachment, Reader
from rqmail.models.base import pooled_connection
from rqmail.models.content import AttachedFile, Extras, Importance, Person
from rqmail.models.message import Message, MessageStatus, NewMessage, NewRecipient, Priority, RecipientKind
from rqmail.ratelimit.limiter import Reservation
from rqmail.ratelimit.limits import RateLimits
from support.clock import MovableClock
from web.machinery import start_machinery

NAMES = (
    "Sanne de Vries",
    "Daan Bakker",
    "Fleur van den Berg",
    "Bram Visser",
    "Noor Smit",
    "Jurriën Mulder",
    "Lotte Jansen",
    "Thijs Hoekstra",
    "Roos Dijkstra",
    "Sem Kuipers",
    "Maud Peters",
    "Ruben Vermeulen",
)
SUBJECTS = (
    "Uitnodiging: open dag op 28 november",
    "Uw factuur van november",
    "Nieuwsbrief: winterprogramma",
    "Bevestiging van uw afspraak",
    "Herinnering: jaarvergadering",
    "Uw wachtwoord is gewijzigd",
)
HTML = """<div style="font:16px Georgia,serif;color:#233;max-width:34em">
<h1 style="font-weight:normal;color:#0f5f8a">Open dag op 28 november</h1>
<p>Beste Sanne,</p>
<p>Op <b>zaterdag 28 november</b> zetten wij onze deuren open. U bent van harte welkom tussen 10.00 en 16.00 uur,
met koffie, rondleidingen en een kijkje in de werkplaats.</p>
<p><a href="https://example.org/open-dag"
style="background:#0f5f8a;color:#fff;padding:.5em 1em;text-decoration:none;border-radius:4px">Ik kom graag</a></p>
<p style="color:#667">Met vriendelijke groet,<br>Stichting De Werkplaats</p></div>"""
TEXT = (
    "Beste Sanne,\n\nOp zaterdag 28 november zetten wij onze deuren open, van tien tot vier.\n\nStichting De Werkplaats"
)


EXTRAS = Extras(
    reply_to=(Person("opendag@dewerkplaats.nl", "Open dag"),),
    importance=Importance.HIGH,
    headers=(
        ("List-Unsubscribe", "<https://dewerkplaats.nl/afmelden/4711>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    ),
)
FILES = (
    Attachment("Programma open dag.pdf", b"%PDF-1.7" + b" " * 348_000),
    Attachment("Plattegrond.png", b"\x89PNG\r\n\x1a\n" + b" " * 1_240_000),
)

#: Key, address, its own limits, and what is used of the minute and the day.
MAILBOXES = (
    ("nieuws", "nieuws@dewerkplaats.nl", None, None, (28, 6120)),
    ("facturen", "facturen@dewerkplaats.nl", 20, 4000, (7, 1287)),
    ("info", "info@dewerkplaats.nl", None, 2500, (3, 2310)),
    ("afspraken", "afspraken@dewerkplaats.nl", 10, None, (2, 143)),
    ("wachtwoorden", "noreply@dewerkplaats.nl", None, None, (1, 37)),
    ("jaarvergadering", "bestuur@dewerkplaats.nl", None, 500, (0, 500)),
)


def populate(application: Application, clock: MovableClock, *, sent: int = 10) -> dict[str, str]:
    """Fill the tables and Redis; answer the ids of a few messages by what they are there to show.

    ``sent`` is how many of the last hours' messages are there one by one, rather than only counted.
    """
    with pooled_connection():
        return Day(application, clock, sent).pass_by()


class Day:
    """What happened until now, told in the order in which it happened: ids sort by the time they were made."""

    def __init__(self, application: Application, clock: MovableClock, sent: int) -> None:
        self.app = application
        self.clock = clock
        self.now = clock()
        self.number_sent = sent
        self.chance = random.Random(7)
        self.shown: dict[str, str] = {}
        self.events: list[tuple[datetime, Callable[[], object]]] = []

    def pass_by(self) -> dict[str, str]:
        """Let it all happen."""
        self.plan_administration()
        self.plan_messages()
        for at, happens in sorted(self.events, key=lambda event: event[0]):
            self.clock.set(at)
            happens()
        self.count_the_hour()
        start_machinery(self.app, self.now)
        self.clock.set(self.now)
        return self.shown

    def at(self, happens: Callable[[], object], **ago: float) -> datetime:
        """Plan what happened so long ago."""
        moment = self.now - timedelta(**ago)
        self.events.append((moment, happens))
        return moment

    # --- who may send, and who may come in ------------------------------------------------------------------------

    def plan_administration(self) -> None:
        """Plan mailboxes, tenants, tokens and a pause, each with its line in the audit."""
        mailboxes, tenants = self.app.mailboxes, self.app.tenants
        for number, (key, address, per_minute, per_day, (minute, day)) in enumerate(MAILBOXES):
            limits = {"rate_limit_per_minute": per_minute, "rate_limit_recipients_per_day": per_day}
            add = partial(mailboxes.add, key, address, **limits)
            self.at(partial(self.audited, "admin", "mailbox.add", f"mailbox:{key}", add), days=19, minutes=-7 * number)
            self.at(partial(self.use, address, 1, day - minute), hours=5)
            self.at(partial(self.use, address, minute, 1), seconds=0)
        self.change_mailbox("sanne", "set", "nieuws", partial(mailboxes.set, "nieuws", rate_limit_per_minute=28), 3)
        pause = partial(
            mailboxes.pause, "afspraken", reason="Verkeerde sjabloon, wacht op Daan", duration=timedelta(hours=4)
        )
        self.change_mailbox("sanne", "pause", "afspraken", pause, 22 / 1440)

        for number, (key, provider, fields) in enumerate(
            (
                (
                    "gemeente-aalst",
                    "microsoft-graph",
                    {"address": "post@aalst.example", "graph_tenant_id": "b1946ac9-2492-4d23-8b65-3f1c5a7e9d02"},
                ),
                (
                    "bakkerij-bloem",
                    "sendgrid",
                    {"sendgrid_from": "bestel@bakkerijbloem.example", "sendgrid_api_key": "k"},
                ),
                ("sportclub-vooruit", "default", {}),
            )
        ):
            add = partial(tenants.add, key, provider, **fields)
            self.at(partial(self.audited, "admin", "tenant.add", f"tenant:{key}", add), days=5, minutes=-9 * number)
        secret = {"graph_client_id": "0f3d7a52-77aa-4a0c-8f1e-5b1d0c9e7a11", "graph_client_secret": "not-shown"}
        self.at(
            lambda: self.audited(
                "sanne",
                "tenant.set",
                "tenant:gemeente-aalst",
                partial(tenants.set, "gemeente-aalst", **secret),
                before=tenants.get("gemeente-aalst"),
            ),
            days=4,
        )
        for days, name, scopes, used in (
            (41, "nieuwsbrief-app", ["send"], timedelta(minutes=2)),
            (30, "grafana", ["read"], timedelta(seconds=40)),
            (12, "sanne", ["admin"], timedelta(hours=3)),
            (8, "oude-koppeling", ["send", "read"], None),
        ):
            self.at(partial(self.issue, name, scopes, used), days=days)
        self.at(
            lambda: self.audited(
                "sanne",
                "token.revoke",
                "token:oude-koppeling",
                partial(self.app.access.revoke, "oude-koppeling"),
                before=self.app.access.token("oude-koppeling"),
            ),
            days=2,
        )

    def change_mailbox(self, who: str, verb: str, key: str, act: Callable[[], object], days: float) -> None:
        """Plan a change of a mailbox."""
        look = self.app.mailboxes.get
        self.at(lambda: self.audited(who, f"mailbox.{verb}", f"mailbox:{key}", act, before=look(key)), days=days)

    def audited(self, who: str, action: str, subject: str, act: Callable[[], object], before: object = None) -> None:
        """Do it as the web process does."""
        with self.app.audit.change(who, action, subject) as change:
            change.before = before
            change.after = act()

    def issue(self, name: str, scopes: list[str], used: timedelta | None) -> None:
        """Issue a token that was last used a while ago."""
        expires = self.now + timedelta(days=90) if name == "nieuwsbrief-app" else None
        with self.app.audit.change("admin", "token.create", f"token:{name}") as change:
            change.after, token = self.app.access.create(name, scopes, by="admin", expires_on=expires)
        if used is not None:
            self.clock.set(self.now - used)
            self.app.access.authenticate(token)

    # --- messages -------------------------------------------------------------------------------------------------

    def plan_messages(self) -> None:
        """Plan a morning of mail: much of it sent, a campaign under way, and some of everything else."""
        s = MessageStatus
        for number in range(min(300, self.number_sent)):
            key = ("nieuws", "nieuws", "facturen", "info", "nieuws", "wachtwoorden")[number % 6]
            subject = {"nieuws": 0, "facturen": 1, "info": 2, "wachtwoorden": 5}[key]
            self.at(partial(self.sent, key, SUBJECTS[subject]), minutes=5 + number * 0.55)
        self.at(partial(self.campaign, "nieuws", SUBJECTS[0], 348), minutes=41)
        for hours, share in ((6, 0.36), (4, 0.16), (0.66, 0.48)):
            number = round(share * max(0, self.number_sent - 300))
            self.at(partial(self.sent_many, "nieuws", SUBJECTS[0], number), hours=hours)
        self.at(partial(self.campaign, "jaarvergadering", SUBJECTS[4], 31, to=4), minutes=9)
        self.at(partial(self.campaign, "afspraken", SUBJECTS[3], 12), minutes=6)
        self.at(partial(self.campaign, "facturen", SUBJECTS[1], 4, later=timedelta(hours=6)), minutes=4)
        self.at(partial(self.one, s.CANCELLED, "info", SUBJECTS[2]), hours=2)
        self.at(partial(self.one, s.EXPIRED, "info", SUBJECTS[3]), hours=3)

        at = self.now - timedelta(minutes=2)
        log = _log(at, "throttled", 429, "ApplicationThrottled", "Application is over its MailboxConcurrency limit.")
        later = self.now - timedelta(minutes=1)
        log += _log(later, "not-sent", None, None, "Could not connect to graph.microsoft.com: timed out after 10 s")
        self.at(
            lambda: self.one(
                s.SCHEDULED,
                "nieuws",
                SUBJECTS[0],
                to=3,
                name="waiting",
                priority=Priority.HIGH,
                content={"attachments": self.attached(), "extras": EXTRAS},
                attempts=1,
                deferrals=2,
                scheduled_on=self.now + timedelta(seconds=38),
                waiting_for="minute",
                mailbox_key="nieuws@dewerkplaats.nl",
                attempted_on=later,
                attempt_log=log,
            ),
            minutes=3,
        )
        self.at(self.failed, minutes=2.5)
        for minutes, status, code, why in (
            (26, 504, "UnknownError", "HTTP 504 UnknownError: no answer in time; the mail may have been accepted."),
            (14, None, None, "The connection was lost after the request had been sent; it may have been accepted."),
            (
                1.6,
                None,
                None,
                "The worker stopped while the message was being sent; it may or may not have been accepted.",
            ),
        ):
            self.at(partial(self.undecided, status, code, why), minutes=minutes)

    def mail(self, key: str, subject: str, to: int = 1, **fields: Any) -> NewMessage:
        """Write a mail of a mailbox to some of the people."""
        kinds = [RecipientKind.TO] * max(1, to - 1) + [RecipientKind.CC] * (to > 1)
        recipients = tuple(
            NewRecipient(kind, f"{name.split()[0].lower().replace('ë', 'e')}@example.nl", name)
            for kind, name in zip(kinds, self.chance.sample(NAMES, to), strict=True)
        )
        return NewMessage(f"mailbox:{key}", subject, recipients, text=TEXT, html=HTML, **fields)

    def attached(self) -> tuple[AttachedFile, ...]:
        """Keep the bytes of some files."""
        files = tuple(Reader().read(one) for one in FILES)
        self.app.contents.keep(files)
        return files

    def one(
        self,
        status: MessageStatus,
        key: str,
        subject: str,
        *,
        to: int = 1,
        name: str = "",
        priority: Priority = Priority.NORMAL,
        content: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Hand in one message and put it where it is to be; ``content`` is what it carries beside its text."""
        mail = self.mail(key, subject, to, priority=priority, **(content or {}))
        [message_id] = Message.submit([mail], self.clock())
        Message.update(status=status.value, **fields).where(Message.id == message_id).execute()
        self.shown[name or status.value.lower()] = message_id
        return message_id

    def campaign(self, key: str, subject: str, number: int, *, to: int = 1, later: timedelta | None = None) -> None:
        """Hand in many at once."""
        at = None if later is None else self.now + later
        Message.submit([self.mail(key, subject, to, requested_on=at) for _ in range(number)], self.clock())

    def sent(self, key: str, subject: str) -> None:
        """Send one."""
        at = self.clock()
        log = _log(at, "accepted", 202, duration=self.chance.randint(210, 640))
        held = {"sent_on": at + timedelta(seconds=2), "attempted_on": at, "attempts": 1, "attempt_log": log}
        self.one(MessageStatus.SENT, key, subject, mailbox_key=f"{key}@dewerkplaats.nl", **held)

    def sent_many(self, key: str, subject: str, number: int) -> None:
        """Send as many."""
        at = self.clock()
        ids = Message.submit([self.mail(key, subject) for _ in range(number)], at)
        for start in range(0, number, 500):
            these = Message.id.in_(ids[start : start + 500])
            Message.update(status=MessageStatus.SENT.value, sent_on=at, attempted_on=at, attempts=1).where(
                these
            ).execute()

    def failed(self) -> None:
        """Let one be refused."""
        why = "ErrorInvalidRecipients: At least one recipient is not valid; 'piet@example' does not resolve."
        log = _log(self.clock(), "rejected", 400, "ErrorInvalidRecipients", why)
        held = {"attempts": 1, "attempted_on": self.clock(), "last_error": why, "attempt_log": log}
        self.one(MessageStatus.ERROR, "facturen", SUBJECTS[1], **held)

    def undecided(self, status: int | None, code: str | None, why: str) -> None:
        """Lose the answer to one."""
        at = self.clock()
        log = _log(at, "worker-lost" if "worker" in why else "unknown", status, code, why, 30_004 if status else 1_204)
        self.one(
            MessageStatus.UNKNOWN,
            "nieuws",
            SUBJECTS[len(why) % 3],
            to=1 + len(why) % 3,
            attempts=1,
            attempted_on=at,
            mailbox_key="nieuws@dewerkplaats.nl",
            lease_until=self.now + timedelta(minutes=3),
            last_error=why,
            attempt_log=log,
        )

    # --- what Redis holds ------------------------------------------------------------------------------------------

    def use(self, address: str, calls: int, recipients: int) -> None:
        """Use up budget as real sends do; a paused mailbox uses none."""
        wide = RateLimits(10**6, 10**6, 4)
        for _ in range(calls):
            taken = self.app.limiter.check_and_reserve(address, recipients, wide)
            if isinstance(taken, Reservation):
                self.app.limiter.settle(taken)

    def count_the_hour(self) -> None:
        """Count what was sent, put off and refused, minute by minute."""
        for ago in range(59, -1, -1):
            self.clock.set(self.now - timedelta(minutes=ago))
            busy = ago < 41
            for _ in range(self.chance.randint(24, 35) if busy else self.chance.randint(4, 12)):
                self.app.metrics.count("sent", "nieuws@dewerkplaats.nl", 0.3)
            for _ in range(self.chance.randint(0, 5) if busy else 0):
                self.app.metrics.count("deferred", "minute")
            if ago in {2, 33, 34}:
                self.app.metrics.count("failed", "rejected")
            self.app.metrics.flush()


def _log(
    at: datetime,
    outcome: str,
    status: int | None,
    code: str | None = None,
    detail: str | None = None,
    duration: int = 312,
) -> str:
    entry = {"at": at.isoformat(), "outcome": outcome, "duration_ms": duration, "status": status, "code": code}
    entry |= {"detail": detail, "client_request_id": "5c2b8c1e-0d42-4f6e-9a58-7f0f5f6a2f11"}
    if status is not None:
        entry["request_id"] = "a3f6c0de-91b4-4a27-8a0b-6d3c2e8f4b19"
    return json.dumps({name: value for name, value in entry.items() if value is not None}) + "\n"
