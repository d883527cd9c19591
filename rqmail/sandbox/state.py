"""Everything the sandbox remembers; touched by its event loop only, so nothing here needs a lock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from rqmail.clock import Clock
from rqmail.sandbox.answers import GraphRefusal
from rqmail.sandbox.directory import SandboxDirectory
from rqmail.sandbox.faults import FaultPlan
from rqmail.sandbox.ledger import Ledger
from rqmail.sandbox.limits import SandboxLimits
from rqmail.sandbox.mailbox import Mailbox
from rqmail.sandbox.people import SignedInPeople
from rqmail.sandbox.tokens import TokenStore
from rqmail.sandbox.uploads import UploadSession
from rqmail.sandbox.windows import RollingWindow

#: What Exchange's message trace says of a mail to one recipient.
TRACE_STATUSES = ("gettingStatus", "pending", "failed", "delivered", "expanded", "quarantined", "filteredAsSpam")

#: The status of a bounce.
_CODE = re.compile(r"[245]\.\d{1,3}\.\d{1,3}")


class SandboxState:
    """The tenant, its mailboxes, the faults in force and the list of accepted mail."""

    def __init__(
        self,
        *,
        clock: Clock,
        limits: SandboxLimits,
        directory: SandboxDirectory,
        latency_ms: float,
        sent_items_delay_seconds: float,
        bounces: Mapping[str, str] | None = None,
        traces: Mapping[str, str] | None = None,
    ) -> None:
        self._clock = clock
        self._initial = (limits, directory, latency_ms, sent_items_delay_seconds)
        self._bounces = checked_bounces(bounces or {})
        self._traces = checked_traces(traces or {})
        self.origin = ""
        self.tokens = TokenStore()
        self.people = SignedInPeople()
        self.reset()

    def reset(self) -> None:
        """Forget mail, faults, uploads and every change made since the start; tokens stay alive."""
        self.limits, self.directory, self.latency_ms, self.sent_items_delay_seconds = self._initial
        self.bounces = dict(self._bounces)
        self.traces = dict(self._traces)
        self.trace_delay_seconds = 0.0
        self.trace_calls = RollingWindow(300)
        self.mailboxes: dict[str, Mailbox] = {}
        self.addresses: dict[str, str] = {}
        self.faults = FaultPlan()
        self.ledger = Ledger()
        self.uploads: dict[str, UploadSession] = {}

    def now(self) -> datetime:
        """Answer the sandbox's present moment."""
        return self._clock()

    def find_mailbox(self, user: str) -> Mailbox:
        """Answer the mailbox behind an address or object id, or refuse as Graph does for an unknown user."""
        address = user.strip().lower()
        address = self.addresses.get(address, address)
        mailbox = self.mailboxes.get(address)
        if mailbox is None:
            if not self.directory.has_mailbox(address):
                raise GraphRefusal(404, "ErrorInvalidUser", f"The requested user '{user}' is invalid.")
            mailbox = self.mailboxes[address] = Mailbox(address)
            self.addresses[mailbox.user_id] = address
        return mailbox

    @contextmanager
    def in_flight(self, mailbox: Mailbox) -> Iterator[None]:
        """Hold one of the mailbox's concurrent calls, or refuse as Graph throttles."""
        wait = {"Retry-After": str(self.limits.retry_after_seconds)}
        if mailbox.calls.add(self.now().timestamp(), 1) > self.limits.requests_per_ten_minutes:
            raise GraphRefusal(429, "ApplicationThrottled", "Application is over its MailboxRequests limit.", wait)
        if mailbox.in_flight >= self.limits.in_flight:
            raise GraphRefusal(429, "ApplicationThrottled", "Application is over its MailboxConcurrency limit.", wait)
        mailbox.enter()
        try:
            yield
        finally:
            mailbox.leave()

    def configure(self, wish: dict[str, Any]) -> None:
        """Change settings until the next reset; a ``TypeError`` or ``ValueError`` says what is wrong with the wish."""
        known = {
            "limits",
            "directory",
            "latency_ms",
            "sent_items_delay_seconds",
            "bounces",
            "traces",
            "trace_delay_seconds",
        }
        if unknown := sorted(set(wish) - known):
            raise ValueError(f"unknown setting {unknown[0]!r}; allowed: {', '.join(sorted(known))}")
        limits = _changed(self.limits, wish.get("limits", {}))
        people = _changed(self.directory, wish.get("directory", {}))
        latency = float(wish.get("latency_ms", self.latency_ms))
        delay = float(wish.get("sent_items_delay_seconds", self.sent_items_delay_seconds))
        trace_delay = float(wish.get("trace_delay_seconds", self.trace_delay_seconds))
        if latency < 0 or delay < 0 or trace_delay < 0:
            raise ValueError("latency_ms, sent_items_delay_seconds and trace_delay_seconds cannot be negative")
        self.bounces = checked_bounces(wish.get("bounces", self.bounces))
        self.traces, self.trace_delay_seconds = checked_traces(wish.get("traces", self.traces)), trace_delay
        self.limits, self.directory, self.latency_ms, self.sent_items_delay_seconds = limits, people, latency, delay

    def stats(self) -> dict[str, Any]:
        """Answer every count; nothing is computed by walking the accepted mail."""
        ledger = self.ledger
        duplicates = ledger.duplicates
        return {
            "accepted": len(ledger.mails),
            "refused": dict(ledger.refused),
            "nonDelivered": dict(ledger.non_delivered),
            "overMinute": ledger.over_minute,
            "duplicates": duplicates,
            "duplicateCount": sum(duplicates.values()) - len(duplicates),
            "faultsFired": dict(self.faults.fired),
            "maxInFlight": max((mailbox.max_in_flight for mailbox in self.mailboxes.values()), default=0),
            "maxPerMinute": max((mailbox.sends.peak for mailbox in self.mailboxes.values()), default=0),
            "maxRecipientsPerDay": max((mailbox.recipients.peak for mailbox in self.mailboxes.values()), default=0),
            "maxUploaded": max((mailbox.uploaded.peak for mailbox in self.mailboxes.values()), default=0),
            "uploadsOpen": len(self.uploads),
            "maxTraceCalls": self.trace_calls.peak,
            "tokens": {
                "issued": self.tokens.issued,
                "refused": self.tokens.refused,
                "lastClaims": self.tokens.last_claims,
            },
            "limits": asdict(self.limits),
            "mailboxes": {
                address: {
                    "accepted": mailbox.accepted,
                    "refused": mailbox.refused,
                    "inFlight": mailbox.in_flight,
                    "maxInFlight": mailbox.max_in_flight,
                    "maxPerMinute": mailbox.sends.peak,
                    "maxRecipientsPerDay": mailbox.recipients.peak,
                }
                for address, mailbox in self.mailboxes.items()
            },
        }


def _changed(present: Any, wish: Any) -> Any:
    """Answer the dataclass ``present`` with some fields changed, each to a value of the type it had."""
    changes: dict[str, Any] = {}
    if not isinstance(wish, dict):
        raise ValueError(f"{type(present).__name__}: a JSON object is expected")  # noqa: TRY004 - as all wrong wishes
    for name, value in wish.items():
        expected = type(getattr(present, name, None))
        changes[name] = tuple(value) if expected is tuple and isinstance(value, list) else value
        if expected is type(None) or type(changes[name]) is not expected:
            raise ValueError(f"{name}: {value!r} is not valid for {type(present).__name__}")
    return replace(present, **changes)


def checked_bounces(wish: Any) -> dict[str, str]:
    """Answer which addresses bounce with which status; a ``ValueError`` says what is wrong with the wish."""
    if not isinstance(wish, Mapping) or not all(_CODE.fullmatch(str(code)) for code in wish.values()):
        raise ValueError('bounces: {"ADDRESS": "5.1.1", …} is expected, each with a status such as 5.1.1')
    return {str(address).strip().lower(): str(code) for address, code in wish.items()}


def checked_traces(wish: Any) -> dict[str, str]:
    """Answer as what mail to which address is traced; a ``ValueError`` says what is wrong with the wish."""
    if not isinstance(wish, Mapping) or not all(status in TRACE_STATUSES for status in wish.values()):
        raise ValueError(f'traces: {{"ADDRESS": "quarantined", …}} is expected, each of {", ".join(TRACE_STATUSES)}')
    return {str(address).strip().lower(): str(status) for address, status in wish.items()}
