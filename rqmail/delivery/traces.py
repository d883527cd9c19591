"""What became of mail at its recipients: read from the message trace of each Entra tenant that mail is sent in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rqmail.clock import Clock, monotonic
from rqmail.delivery.outcomes import TRACED, settle_accepted
from rqmail.delivery.senders import Senders
from rqmail.errors import MailError, MailThrottledError, TracesNotReadableError
from rqmail.logs import event_log
from rqmail.mailers.graph.message import named_in
from rqmail.mailers.graph.traces import GraphTraces, Trace
from rqmail.models import bounces, deliveries
from rqmail.models.base import pooled_connection
from rqmail.models.deliveries import Delivery, Reading, Sent
from rqmail.models.mailbox import Provider
from rqmail.models.message import Message, MessageStatus, Route
from rqmail.text.addresses import same_person

log = event_log()

#: Of the 100 requests that Microsoft allows a tenant in five minutes, for all of its apps.
MOST_REQUESTS = 80
_REQUESTS_WITHIN = timedelta(minutes=5)

#: Tenants read side by side, and how long a pass begins more pages.
_AT_ONCE = 8
_PASS_SECONDS = 30.0

#: How soon a tenant is looked at again, doubled for each look that finds nothing new up to the second.
_SOON = timedelta(minutes=2)
_SELDOM = timedelta(minutes=15)
_NOT_READABLE = timedelta(hours=1)
_FAILED = timedelta(minutes=5)

#: Rows come minutes late, and two clocks differ: a look ends before now, and begins long before the last one ended.
_OVERLAP = timedelta(minutes=30)
_NOT_YET = timedelta(minutes=2)

#: How far back the first look goes, and how far it goes for what is unclear; the longest period Graph answers for.
_FIRST_LOOK = timedelta(days=1)
_LONGEST = timedelta(days=10)

#: How often it is looked back for what was pending, and how long a mail stays that.
_LOOK_BACK_EVERY = timedelta(hours=1)
_PENDING_FOR = timedelta(days=2)

#: Exchange takes a mail when we send it, or somewhat later where its mailbox sends faster than it may.
_TAKEN_WITHIN = timedelta(hours=1)
_CLOCKS_DIFFER = timedelta(minutes=2)


#: Of two rows of one moment the later one here tells more.
_FINALITY = ("pending", "expanded", "delivered", "spam", "quarantined", "failed")


@dataclass(slots=True)
class _Look:
    """One look at one tenant: through which apps, for which mailboxes, and what it came to."""

    reading: Reading
    routes: list[Route]
    mailboxes: set[str]
    looks_back: bool = False
    new: int = 0
    wait: timedelta | None = None


@dataclass(slots=True)
class _Tenant:
    routes: dict[str, Route] = field(default_factory=dict)
    mailboxes: set[str] = field(default_factory=set)


class Traces:
    """Reads the trace of each tenant on from where it was read, a page a call, within a count of its own."""

    def __init__(self, senders: Senders, clock: Clock, monotonic: Callable[[], float] = monotonic) -> None:
        self._senders = senders
        self._clock = clock
        self._monotonic = monotonic

    def run(self) -> dict[str, int]:
        """Look at the tenants that are due; answer of how many recipients each that told anything new did."""
        due = self._due()
        if not due:
            return {}
        until = self._monotonic() + _PASS_SECONDS
        with ThreadPoolExecutor(min(_AT_ONCE, len(due))) as threads:
            looks = list(threads.map(lambda look: self._look(look, until), due))
        return {look.reading.tenant: look.new for look in looks if look.new}

    def _due(self) -> list[_Look]:
        now, known = self._clock(), deliveries.readings()
        tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
        for sender in self._senders.all().values():
            if sender.provider == Provider.MICROSOFT_GRAPH.value and sender.row is not None:
                tenant = tenants[(sender.entra_tenant or "").lower()]
                tenant.routes.setdefault((sender.app_id or "").lower(), sender.route)
                tenant.mailboxes.add(sender.budget_key)
        due = []
        for name, tenant in tenants.items():
            reading = known.get(name)
            is_due = reading is None or reading.next_on is None or reading.next_on <= now
            if is_due and any(bounces.has_sent(mailbox, now) for mailbox in sorted(tenant.mailboxes)):
                looked = reading or Reading(name, now - _FIRST_LOOK)
                due.append(_Look(looked, list(tenant.routes.values()), tenant.mailboxes))
        return due

    def _look(self, look: _Look, until: float) -> _Look:
        reading = look.reading
        reading.problem = "The app that sends in this tenant is not configured"
        look.wait = _NOT_READABLE
        try:
            for route in look.routes:
                traces = self._senders.traces_of(route)
                if traces is None:
                    continue
                try:
                    self._read(traces, look, until)
                    break
                except TracesNotReadableError as error:
                    reading.problem, look.wait = str(error), _NOT_READABLE
        except MailError as error:
            asked = getattr(error, "retry_after", None)
            reading.problem, look.wait = str(error), max(_FAILED, timedelta(seconds=min(asked or 0, 86_400)))
            if not isinstance(error, MailThrottledError):
                reading.next_link = None  # its place may be gone: the period is read anew
        except Exception as fault:
            log.exception("mail.traces.failed", tenant=reading.tenant)
            reading.problem = f"A fault of rqmail's own ({type(fault).__name__}); the log has the details"
            look.wait = _FAILED
        self._note(look)
        return look

    # --- reading -------------------------------------------------------------------------------------------------

    def _read(self, traces: GraphTraces, look: _Look, until: float) -> None:
        reading = look.reading
        start, end = reading.period or self._period(look)
        while True:
            wait = self._must_wait(reading)
            if wait is None and self._monotonic() > until:
                wait = timedelta()
            if wait is not None:
                reading.problem, look.wait = None, wait
                return
            reading.asked_on.append(self._clock().timestamp())
            page = traces.page(start, end, reading.next_link)
            look.new += self._act(page.rows, look.mailboxes)
            reading.period, reading.next_link = (start, end), page.next_link
            if look.looks_back:
                reading.looked_back_on = self._clock()
            if page.next_link is None:
                break
            reading.keep(self._clock())  # what was read stays read, whatever ends this process
        reading.read_to, reading.period, reading.problem = max(end, reading.read_to), None, None
        look.wait = timedelta() if end < self._clock() - _OVERLAP else None

    def _period(self, look: _Look) -> tuple[datetime, datetime]:
        """Answer what to read next: on from where it was read, now and then from where something is unclear."""
        reading, now = look.reading, self._clock().replace(microsecond=0)
        start, last = max(reading.read_to - _OVERLAP, now - _LONGEST), reading.looked_back_on
        look.looks_back = last is None or now - last >= _LOOK_BACK_EVERY
        if look.looks_back:
            since = now - (_LONGEST if last is None else _PENDING_FOR)
            start = min(start, deliveries.oldest_open(look.mailboxes, since, unknown=last is None) or start)
        return start, max(start, now - _NOT_YET)

    def _must_wait(self, reading: Reading) -> timedelta | None:
        """Answer how long until the tenant may be asked again, ``None`` for now."""
        now, window = self._clock().timestamp(), _REQUESTS_WITHIN.total_seconds()
        reading.asked_on = [at for at in reading.asked_on if now - window < at <= now]
        if len(reading.asked_on) < MOST_REQUESTS:
            return None
        return timedelta(seconds=reading.asked_on[0] + window - now)

    def _note(self, look: _Look) -> None:
        reading = look.reading
        reading.quiet = 0 if look.new else reading.quiet + 1
        wait = look.wait if look.wait is not None else min(_SOON * 2 ** min(reading.quiet, 10), _SELDOM)
        reading.keep(self._clock() + wait)
        if reading.problem:
            log.warning("mail.traces.notRead", tenant=reading.tenant, reason=reading.problem)

    # --- what a trace tells of -----------------------------------------------------------------------------------

    def _act(self, rows: Iterable[Trace], mailboxes: set[str]) -> int:
        """Write down what became of our mail; of anybody else's nothing is kept. Answer how much of it was new."""
        ours = [row for row in rows if row.sender in mailboxes or named_in(row.internet_message_id)]
        if not ours:
            return 0
        start = min(row.received_on for row in ours) - _TAKEN_WITHIN
        end = max(row.received_on for row in ours) + _CLOCKS_DIFFER
        sent: defaultdict[str, list[Sent]] = defaultdict(list)
        for one in deliveries.sent_to({row.recipient for row in ours}, mailboxes, start, end):
            sent[same_person(one.address)].append(one)
        told: dict[tuple[str, str], tuple[Sent, Delivery]] = {}
        for row in sorted(ours, key=lambda row: (row.received_on, _FINALITY.index(row.status))):
            found, now = _matching(row, sent[same_person(row.recipient)]), self._clock()
            if found:
                one = found[0]
                delivery = Delivery(one.address, row.status, row.received_on, now, probable=len(found) > 1)
                told[one.message_id, one.address] = (one, delivery)
        new = deliveries.note_deliveries({key: delivery for key, (_, delivery) in told.items()})
        for key in new:
            self._tell(*told[key])
        for one, delivery in told.values():
            if one.status == MessageStatus.UNKNOWN.value and not delivery.probable:
                self._prove_accepted(one.message_id)
        return len(new)

    @staticmethod
    def _tell(sent: Sent, delivery: Delivery) -> None:
        """Tell what is new of a mail at one recipient: whoever is to hear of it hears it from here."""
        said, probable = delivery.status, delivery.probable
        log.info("mail.delivery.changed", messageUuid=sent.message_id, status=said, probable=probable)

    def _prove_accepted(self, message_id: str) -> None:
        """Settle a message of which nobody knew whether it was accepted: what is traced has been."""
        with pooled_connection():
            message = Message.get_or_none(Message.id == message_id, Message.status == MessageStatus.UNKNOWN.value)
        if message is not None:
            settle_accepted(message, TRACED, self._clock())


def _matching(row: Trace, sent: Iterable[Sent]) -> list[Sent]:
    """Answer which mails to this recipient a row may be of, the likeliest first: by Message-ID there is only one."""
    named = named_in(row.internet_message_id)
    if named is not None:
        return [one for one in sent if one.message_id == named]
    like = [
        one
        for one in sent
        if one.mailbox == row.sender
        and one.subject.strip() == row.subject.strip()
        and one.attempted_on - _CLOCKS_DIFFER <= row.received_on <= one.attempted_on + _TAKEN_WITHIN
    ]
    return sorted(like, key=lambda one: abs(row.received_on - one.attempted_on))
