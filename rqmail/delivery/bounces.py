"""What came back: non-delivery reports are read from the Inbox of each mailbox that sends, and acted on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from rqmail.clock import Clock, monotonic
from rqmail.delivery.outcomes import reported, settle_accepted
from rqmail.delivery.reports import MAX_BYTES, Failure, Report, read_report
from rqmail.delivery.senders import Sender, Senders
from rqmail.errors import MailboxNotReadableError, MailError, PauseCause
from rqmail.logs import event_log
from rqmail.mailers.graph.inbox import GraphInbox, ReportItem
from rqmail.mailers.graph.message import named_in
from rqmail.models import bounces, events, suppression
from rqmail.models.base import pooled_connection
from rqmail.models.bounces import Bounced, BounceReading
from rqmail.models.mailbox import Provider
from rqmail.models.message import Message, MessageStatus
from rqmail.models.suppression import Entry, Reason, scopes_of
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.reservation import Reservation
from rqmail.text.addresses import same_person

log = event_log()

#: Statuses that say the address itself is wrong: mail to it only harms who sends it.
NO_SUCH_RECIPIENT = frozenset({"5.1.0", "5.1.1", "5.1.10", "5.4.1"})

#: Statuses that are about the sender: for how long it rests, and for what. Of the second, its whole Entra tenant.
_MAILBOX_RESTS: Final[dict[str, tuple[timedelta, PauseCause]]] = {
    "5.1.8": (timedelta(hours=6), "blocked"),
    "5.1.90": (timedelta(hours=1), "quota"),
}
_TENANT_RESTS: Final[dict[str, tuple[timedelta, PauseCause]]] = {
    "5.7.233": (timedelta(hours=1), "quota"),
    "5.7.705": (timedelta(hours=6), "blocked"),
    "5.7.750": (timedelta(hours=6), "blocked"),
}

#: Mailboxes read side by side, one call at a time each; reports of one that a pass reads; how long a pass begins more.
_AT_ONCE = 8
_MOST_REPORTS = 100
_PASS_SECONDS = 30.0

#: How soon a mailbox is looked at again, doubled for each look that finds nothing up to the second.
_SOON = timedelta(minutes=1)
_SELDOM = timedelta(minutes=15)
_NOT_READABLE = timedelta(hours=1)
_FAILED = timedelta(minutes=5)

#: How far back the first look goes.
_FIRST_LOOK = timedelta(days=1)


@dataclass(slots=True)
class _Look:
    """What one look into one mailbox came to."""

    sender: Sender
    read_to: datetime
    last_ids: list[str]
    quiet: int
    reports: int = 0
    problem: str | None = None
    wait: timedelta | None = None


class Bounces:
    """Reads the reports that came since the last look, mailbox by mailbox; one mailbox's trouble is never another's.

    A call takes one of the mailbox's places in flight and nothing of its budgets.
    """

    def __init__(
        self, senders: Senders, limiter: MailRateLimiter, clock: Clock, monotonic: Callable[[], float] = monotonic
    ) -> None:
        self._senders = senders
        self._limiter = limiter
        self._clock = clock
        self._monotonic = monotonic

    def run(self) -> dict[str, int]:
        """Look into the mailboxes that are due; answer how many reports were read in each that had any."""
        due = self._due()
        if not due:
            return {}
        until = self._monotonic() + _PASS_SECONDS
        with ThreadPoolExecutor(min(_AT_ONCE, len(due))) as threads:
            looks = list(threads.map(lambda look: self._look(look, until), due))
        for look in looks:
            self._note(look)
        return {look.sender.budget_key: look.reports for look in looks if look.reports}

    def _due(self) -> list[_Look]:
        """Answer what to look into, each mailbox once, those first that have waited longest."""
        now = self._clock()
        known = BounceReading.all()
        mailboxes: dict[str, Sender] = {}
        for sender in self._senders.all().values():
            if sender.provider == Provider.MICROSOFT_GRAPH.value and sender.row is not None:
                mailboxes.setdefault(sender.budget_key, sender)
        due: list[tuple[datetime, _Look]] = []
        for key, sender in mailboxes.items():
            row = known.get(key)
            if row is not None and row.next_on > now:
                continue
            look = _Look(sender, now - _FIRST_LOOK, [], 0)
            if row is not None:
                look = _Look(sender, row.read_to, json.loads(row.last_ids), row.quiet)
            if bounces.has_sent(key, now):
                due.append((look.read_to if row is None else row.next_on, look))
        return [look for _, look in sorted(due, key=lambda one: one[0])]

    def _look(self, look: _Look, until: float) -> _Look:
        if self._monotonic() > until:
            look.wait = timedelta()
            return look
        try:
            inbox = self._senders.inbox_of(look.sender.route)
            if inbox is None:
                look.problem, look.wait = "The app that reaches the mailbox is not configured", _NOT_READABLE
                return look
            with self._place(look.sender) as has_place:
                if has_place:
                    self._read(inbox, look, until)
                else:
                    look.wait = timedelta()
        except MailboxNotReadableError as error:
            look.problem, look.wait = str(error), _NOT_READABLE
        except MailError as error:
            asked = getattr(error, "retry_after", None)
            look.problem, look.wait = str(error), max(_FAILED, timedelta(seconds=min(asked or 0, 86_400)))
        except Exception as fault:
            log.exception("mail.bounces.failed", mailbox=look.sender.budget_key)
            look.problem = f"A fault of rqmail's own ({type(fault).__name__}); the log has the details"
            look.wait = _FAILED
        return look

    @contextmanager
    def _place(self, sender: Sender) -> Iterator[bool]:
        """Hold one of the mailbox's places in flight; a paused mailbox has all of them free."""
        limits = sender.limits
        if limits is None:
            yield True
            return
        wide = replace(limits, per_minute=1_000_000, recipients_per_day=1_000_000_000)
        place = self._limiter.check_and_reserve(sender.budget_key, 1, wide)
        if isinstance(place, Reservation):
            try:
                yield True
            finally:
                self._limiter.release(place)
        else:
            yield place.reason == "paused"

    def _read(self, inbox: GraphInbox, look: _Look, until: float) -> None:
        # At the very second of the last report there may be more: those are asked for again, and known by their ids.
        listed = inbox.reports(look.read_to, _MOST_REPORTS + len(look.last_ids))
        new = [item for item in listed if item.id not in set(look.last_ids)]
        for item in new[:_MOST_REPORTS]:
            if self._monotonic() > until:
                look.wait = timedelta()
                return
            self._act(look.sender, item, inbox.content(item, MAX_BYTES))
            look.reports += 1
            second = item.received_on.replace(microsecond=0)
            look.last_ids = [*(look.last_ids if second == look.read_to else []), item.id]
            look.read_to = second
        if len(new) > _MOST_REPORTS:
            look.wait = timedelta()

    # --- what a report brings about ------------------------------------------------------------------------------

    def _act(self, sender: Sender, item: ReportItem, source: bytes) -> None:
        report = read_report(source)
        if report is None:
            return
        mine = self._certainly(report, sender.budget_key)
        if mine is not None:
            self._prove_accepted(mine, report.failures[0])
        for failure in report.failures:
            found, probable = mine, False
            if found is None:
                found, probable = self._probably(report, failure, sender.budget_key, item.received_on), True
            address = None if found is None else bounces.among(failure.addresses, found.recipients)
            if found is None or address is None:
                log.info("mail.bounce.unmatched", mailbox=sender.budget_key, code=failure.code)
                continue
            self._bounced(found, address, failure, item.received_on, probable=probable)
            if not probable:
                self._rest(sender, failure, item.received_on)

    @staticmethod
    def _certainly(report: Report, mailbox: str) -> Bounced | None:
        """Find the message by our own mark in what was returned, then by the Message-ID that unmarked mail has."""
        for message_id in (report.message_id, named_in(report.internet_message_id or "")):
            found = None if not message_id else bounces.of_message(message_id.strip().lower(), mailbox)
            if found is not None:
                return found
        return None

    @staticmethod
    def _probably(report: Report, failure: Failure, mailbox: str, received_on: datetime) -> Bounced | None:
        for address in failure.addresses:
            found = bounces.probably_of(address, report.subject or report.about or "", mailbox, received_on)
            if found is not None:
                return found
        return None

    @staticmethod
    def _bounced(found: Bounced, address: str, failure: Failure, at: datetime, *, probable: bool) -> None:
        is_new = bounces.note_bounce(
            found.message_id, address, code=failure.code, detail=failure.text, at=at, probable=probable
        )
        if not is_new:
            return
        log.info("mail.bounced", messageUuid=found.message_id, code=failure.code, probable=probable)
        if failure.code in NO_SUCH_RECIPIENT and not probable:
            kept = same_person(address)
            source = f"report of message {found.message_id}"
            suppression.keep([Entry(kept, scopes_of(found.sender)[-1], Reason.HARD_BOUNCE, source, at)])

    def _prove_accepted(self, found: Bounced, failure: Failure) -> None:
        """Settle a message of which nobody knew whether it was accepted: what comes back has been."""
        with pooled_connection():
            message = Message.get_or_none(Message.id == found.message_id)
        if message is not None and message.status == MessageStatus.UNKNOWN.value:
            settle_accepted(message, reported(failure.code), self._clock())

    def _rest(self, sender: Sender, failure: Failure, at: datetime) -> None:
        """Pause who the report says may not send: the mailbox, or every mailbox of its Entra tenant."""
        rests = _MAILBOX_RESTS.get(failure.code) or _TENANT_RESTS.get(failure.code)
        if rests is None:
            return
        duration, cause = rests
        left = at + duration - self._clock()
        if left <= timedelta():
            return
        names = {sender.budget_key: sender.name}
        if failure.code in _TENANT_RESTS:
            names |= {
                other.budget_key: other.name
                for other in self._senders.all().values()
                if other.provider == sender.provider and other.entra_tenant == sender.entra_tenant
            }
        reason = f"a non-delivery report says {failure.code}: {failure.text}"[:500]
        for key, name in names.items():
            self._limiter.pause(key, round(left.total_seconds() * 1000), reason, cause=cause)
            log.warning("mail.mailbox.paused", mailboxKey=key, reason=reason, code=failure.code)
            events.tell_of_pause(name, reason, at + duration, self._clock())

    # --- when to look again --------------------------------------------------------------------------------------

    def _note(self, look: _Look) -> None:
        quiet = 0 if look.reports else look.quiet + 1
        wait = look.wait if look.wait is not None else min(_SOON * 2 ** min(quiet, 10), _SELDOM)
        BounceReading.note(
            look.sender.budget_key,
            read_to=look.read_to,
            last_ids=look.last_ids[-_MOST_REPORTS:],
            next_on=self._clock() + wait,
            quiet=quiet,
            problem=look.problem,
        )
        if look.problem:
            log.warning("mail.bounces.notRead", mailbox=look.sender.budget_key, reason=look.problem)
