"""How things stand: what is told about the mail, its senders and what carries it. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from rqmail.errors import PauseCause
from rqmail.queue_state import WorkerState
from rqmail.ratelimit.scopes import ScopeName

Source = Literal["default", "override"]
State = Literal["ok", "near", "limited", "paused", "unknown"]
Level = Literal["ok", "near", "full", "unknown"]

#: Whose turn it is: a pause's cause, or what else the mail of a sender waits for.
TurnCode = (
    PauseCause | Literal["paused", "redis", "nobody", "day-full", "full-speed", "retrying", "sending", "later", "idle"]
)

#: A pause that ends no sooner was made to last until somebody ends it.
ENDLESS = timedelta(days=182)

#: From this share of a budget on a mailbox is called near its limit.
NEAR = 0.9


class Sentence(str):
    """A sentence in English that also tells what it says, for whoever speaks to people in another language.

    ``code`` names the sentence, ``values`` is what fills it in: numbers, moments, durations, names.
    """

    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, text: str, **values: Any) -> Sentence:
        """Make the sentence ``text``."""
        made = super().__new__(cls, text)
        made.code = code
        made.values = values
        return made


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that runs: until when, why in words, and, as far as known, for programs and by whom."""

    until: datetime
    reason: str | None
    cause: PauseCause | None = None
    by: str | None = None


def pause_end(until: datetime, now: datetime) -> datetime | None:
    """Answer when a pause ends, ``None`` where it was made to last until somebody ends it."""
    return None if until - now > ENDLESS else until


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is: what a sender's mail waits for, and whether that ends by itself or ``needs_person``.

    ``until`` is when it ends or is tried again, where that is known; ``by`` is who paused it.
    """

    code: TurnCode
    text: Sentence
    needs_person: bool
    until: datetime | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class WindowView:
    """One limit of a mailbox: its value and where that comes from, and what is used of it.

    ``used`` is what the limiter holds against the limit: the larger of ``bucket`` (the calendar minute or UTC day) and
    ``rolling`` (the last 60 s or 24 h, absent with fixed windows). All but the limit are ``None`` where Redis could not
    tell.
    """

    limit: int
    source: Source
    used: int | None
    remaining: int | None
    bucket: int | None
    rolling: int | None


@dataclass(frozen=True, slots=True)
class ScopeView:
    """What a mailbox shares with others of its Entra tenant: external recipients in 24 hours.

    ``name`` is ``tenant``, or ``onmicrosoft`` for all senders on ``*.onmicrosoft.com``. What is used and remains is
    ``None`` where Redis could not tell.
    """

    name: ScopeName
    limit: int
    used: int | None
    remaining: int | None
    next_free_on: datetime | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What one mailbox may still send.

    ``known`` is false when Redis could not tell: then mail goes out uncounted, and nothing is told of what is used.
    ``uploaded_bytes`` is what was uploaded in five minutes; some of it counts no more at ``uploads_free_on``.
    ``waits_for`` is what ends at ``next_free_on``: of several budgets that are used up, the one that frees last.
    """

    known: bool
    per_minute: WindowView
    recipients_per_day: WindowView
    in_flight: int | None
    in_flight_limit: int
    paused_until: datetime | None
    pause_reason: str | None
    next_free_on: datetime | None
    waits_for: Literal["minute", "day", "in_flight", "paused"] | None = None
    uploaded_bytes: int | None = None
    uploads_free_on: datetime | None = None
    upload_bytes_limit: int = 0
    scopes: tuple[ScopeView, ...] = ()

    @property
    def full_scope(self) -> ScopeView | None:
        """The shared budget that has no room, of several the one that has some last; ``None`` without any."""
        full = [(one.next_free_on, one) for one in self.scopes if one.remaining == 0 and one.next_free_on is not None]
        return max(full, key=lambda found: found[0])[1] if full else None


def level(window: WindowView, budget: Budget) -> Level:
    """Say how near a window is to its limit; a minute is there to be used up, so a full one is well."""
    if window.used is None:
        return "unknown"
    if window is budget.per_minute:
        return "ok"
    if window.remaining == 0:
        return "full"
    return "near" if window.used >= NEAR * window.limit else "ok"


@dataclass(frozen=True, slots=True)
class SenderStatus:
    """One sender's mail.

    ``waiting`` is wanted by now and not finished, ``deferred`` the part of it that is held back (no budget, a pause, a
    later try), ``scheduled_later`` is not wanted yet. ``done_on`` is when the backlog will be through, ``None`` when
    there is none or nobody can tell. ``budget`` is absent where the mail leaves without one (SendGrid). A pause, a
    person's or one the provider's answers brought about, holds for every kind of sender.
    """

    key: str
    address: str | None
    state: State
    messages: dict[str, int]
    waiting: int
    waiting_recipients: int
    deferred: int
    scheduled_later: int
    oldest_waiting_on: datetime | None
    next_on: datetime | None
    done_on: datetime | None
    explanation: Sentence
    turn: Turn
    budget: Budget | None
    paused_until: datetime | None = None
    pause_reason: str | None = None
    pause_cause: PauseCause | None = None
    paused_by: str | None = None
    #: How often the limiter denied its mailbox in the last hour, by reason; ``None`` where nobody can tell.
    denied_last_hour: Mapping[str, int] | None = None


def told_state(sender: SenderStatus) -> State | Literal["full-speed"]:
    """Say how a sender stands, as people are told: one that uses up its minutes is at full speed, and well."""
    budget = sender.budget
    if sender.state not in {"near", "limited"} or budget is None:
        return sender.state
    match level(budget.recipients_per_day, budget):
        case "full":
            return "limited"
        case "near":
            return "near"
        case _:
            return "full-speed" if budget.per_minute.remaining == 0 else "ok"


@dataclass(frozen=True, slots=True)
class Machinery:
    """What carries the mail, at one moment."""

    redis: Literal["ok", "unreachable", "misconfigured"]
    redis_text: str
    queues: dict[str, int]
    workers: tuple[WorkerState, ...]
    last_tick_on: datetime | None
    #: When the next dispatch is due; long past where no scheduler is at work, ``None`` where none is scheduled.
    dispatch_due_on: datetime | None
    #: How old either may be.
    late_after: timedelta


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a person should know: an ``error`` keeps mail from going out, a ``warning`` does not."""

    level: Literal["error", "warning"]
    code: str
    text: Sentence
    #: Whose mail it is about (``mailbox:KEY``, ``tenant:KEY``, ``default``), where it is about one sender.
    sender: str | None = None
    #: How many messages wait for its end, or for a person's decision.
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """Problems that have one cause: what is said of them together, the senders, and of each of them what is said."""

    level: Literal["error", "warning"]
    code: str
    text: Sentence
    waiting: int
    senders: tuple[str, ...]
    texts: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """Everything at one moment; ``mailboxes`` and ``tenants`` by key, ``messages`` by status over all senders.

    ``causes`` are the same ``problems`` with those of one cause together, errors first, then by the mail that waits.
    """

    now: datetime
    messages: dict[str, int]
    mailboxes: dict[str, SenderStatus]
    tenants: dict[str, SenderStatus]
    default: SenderStatus
    queues: dict[str, int]
    workers: tuple[WorkerState, ...]
    last_tick_on: datetime | None
    oldest_waiting_on: datetime | None
    redis: Literal["ok", "unreachable", "misconfigured"]
    problems: tuple[Problem, ...]
    causes: tuple[Cause, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether something keeps mail from going out."""
        return any(problem.level == "error" for problem in self.problems)
