"""The read side: what is where, how much budget is left, when it will be done, and why nothing is going out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

from rqmail.clock import Clock, from_epoch_ms, monotonic
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.insight.bouncing import Bouncing, too_many_back
from rqmail.insight.configured import Configured, configured
from rqmail.insight.explaining import explanation, problems, stopped
from rqmail.insight.forecast import Backlog, done_on
from rqmail.insight.passing import passing_budgets
from rqmail.insight.ranking import causes
from rqmail.insight.readiness import machinery_of
from rqmail.insight.simulation import Budgets
from rqmail.insight.standing import (
    NEAR,
    Budget,
    Machinery,
    Pause,
    ScopeView,
    SenderStatus,
    Sentence,
    Source,
    State,
    Status,
    WindowView,
)
from rqmail.insight.turns import pause_of, turn_of
from rqmail.models import counts
from rqmail.models.counts import SenderCounts
from rqmail.models.states import MessageStatus
from rqmail.queue_state import QueueState
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.pacing import Pacing
from rqmail.ratelimit.scopes import Scope, TenantBudgets
from rqmail.ratelimit.usage import Usage, WindowUsage

#: Counting the past may take a twentieth of a process's time; below this many seconds it is not worth a thought.
_SHARE = 20
_CHEAP_SECONDS = 0.05

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Line:
    """What the mail of one sender stands in line for: a budget that all of ``senders`` share, and what carries it.

    ``passing`` is that budget as it comes free; ``None`` where there is none, and where Redis cannot tell.
    """

    senders: tuple[str, ...]
    budget: Budget | None
    passing: Budgets | None
    pause: Pause | None
    redis: Literal["ok", "unreachable", "misconfigured"]
    still: tuple[Sentence, ...]


class Past(Generic[_T]):
    """What is counted of the past: anew, or kept for a while where counting takes long."""

    def __init__(self, count: Callable[[], _T], monotonic: Callable[[], float] = monotonic) -> None:
        self._count = count
        self._monotonic = monotonic
        self._found: _T | None = None
        self._believed_until = 0.0

    def look(self) -> _T:
        """Answer what was counted, now or a while ago."""
        began = self._monotonic()
        if self._found is None or began >= self._believed_until:
            self._found = self._count()
            cost = self._monotonic() - began
            self._believed_until = 0.0 if cost < _CHEAP_SECONDS else began + _SHARE * cost
        return self._found


class Overview:
    """Answers what people and monitors ask; changes nothing."""

    def __init__(
        self,
        limiter: MailRateLimiter,
        queues: QueueState,
        clock: Clock,
        defaults: RateLimits,
        *,
        pacing: Pacing = "even",
        shared: TenantBudgets | None = None,
        denied_last_hour: Callable[[], Mapping[str, Mapping[str, int]] | None] = lambda: None,
    ) -> None:
        self._limiter = limiter
        self._queues = queues
        self._clock = clock
        self._defaults = defaults
        self._pacing = pacing
        self._shared = shared or TenantBudgets()
        self._denied_last_hour = denied_last_hour
        self._ended = Past(counts.ended_by_sender)
        self._bouncing = Past(lambda: too_many_back(clock()))

    @property
    def defaults(self) -> RateLimits:
        """The limits of a mailbox that has none of its own."""
        return self._defaults

    def status(self) -> Status:
        """Look at everything once."""
        now = self._clock()
        known = self._configured()
        counted = self._counted(now)
        machinery = machinery_of(self._limiter, self._queues)
        statuses = self._statuses(known, counted, machinery, now)
        total: Counter[str] = Counter()
        for sender in counted.values():
            total.update(sender.by_status)
        found = problems(machinery, statuses, total, self._bouncing_senders(known), now)
        oldest = [sender.oldest for sender in counted.values() if sender.oldest is not None]
        return Status(
            now=now,
            messages={status.value: total[status.value] for status in MessageStatus},
            mailboxes={s.key: s for name, s in statuses.items() if name.startswith("mailbox:")},
            tenants={s.key: s for name, s in statuses.items() if name.startswith("tenant:")},
            default=statuses["default"],
            queues=machinery.queues,
            workers=machinery.workers,
            last_tick_on=machinery.last_tick_on,
            oldest_waiting_on=min(oldest, default=None),
            redis=machinery.redis,
            problems=tuple(found),
            causes=causes(found),
        )

    def mailbox(self, key: str) -> SenderStatus:
        """Look at one system mailbox, with its budget."""
        return self._one(f"mailbox:{key}")

    def tenant(self, key: str) -> SenderStatus:
        """Look at one tenant."""
        return self._one(f"tenant:{key}")

    def sender(self, name: str) -> SenderStatus:
        """Look at any sender: ``mailbox:KEY``, ``tenant:KEY`` or ``default``, or the key of one alone."""
        known = self._configured()
        found = (
            [name]
            if name in known
            else [f"{kind}:{name}" for kind in ("mailbox", "tenant") if f"{kind}:{name}" in known]
        )
        if not found:
            kind, _, key = name.rpartition(":")
            raise NotFoundError(kind or "sender", key)
        if len(found) > 1:
            raise InvalidInputError("sender", name, " or ".join(found))
        return self._one(found[0])

    def line(self, name: str) -> Line | None:
        """Look at what a sender's mail stands in line for, without counting it; ``None`` without such a sender."""
        known = self._configured()
        sender = known.get(name)
        if sender is None:
            return None
        now = self._clock()
        mine = sender.budget_key
        shared = {n: k for n, k in known.items() if n == name or (mine and k.budget_key == mine)}
        usages = self._usages([sender])
        usage = usages[sender.pause_key]
        machinery = machinery_of(self._limiter, self._queues)
        pause = pause_of(sender.pause, usage, now)
        return Line(
            senders=tuple(shared),
            budget=_budget(sender, usages, pause, now) if mine else None,
            passing=passing_budgets(self._limiter, {name: sender}, known, usages, now).get(name),
            pause=pause,
            redis=machinery.redis,
            still=tuple(stopped(machinery, now)),
        )

    def explain(self, key: str) -> Sentence:
        """Say in plain words what the mail of a system mailbox waits for."""
        return self.mailbox(key).explanation

    def _configured(self) -> dict[str, Configured]:
        return configured(self._defaults, self._pacing, self._shared)

    def _one(self, name: str) -> SenderStatus:
        now = self._clock()
        known = self._configured()
        if name not in known:
            kind, _, key = name.partition(":")
            raise NotFoundError(kind, key)
        # Senders on the same mailbox share its budget, so when it is done depends on their backlogs too.
        mine = known[name].budget_key
        shared = {n: k for n, k in known.items() if n == name or (mine and k.budget_key == mine)}
        return self._statuses(shared, self._counted(now), machinery_of(self._limiter, self._queues), now)[name]

    def _usages(self, senders: Iterable[Configured]) -> dict[str, Usage]:
        """Ask for the budgets of senders, and of what they share with others."""
        asked: dict[str, RateLimits] = {}
        for one in senders:
            asked[one.pause_key] = one.limits or self._defaults
            asked |= {scope.key: scope.limits for scope in one.shared.scopes}
        return self._limiter.usage(asked)

    def _bouncing_senders(self, known: dict[str, Configured]) -> dict[str, Bouncing]:
        """Answer of whose mail too much comes back; senders on one mailbox are told once."""
        back = dict(self._bouncing.look())
        return {name: back.pop(one.budget_key) for name, one in known.items() if one.budget_key in back}

    def _counted(self, now: datetime) -> dict[str, SenderCounts]:
        counted = counts.open_by_sender(now)
        for name, by_status in self._ended.look().items():
            counted.setdefault(name, SenderCounts()).by_status.update(by_status)
        return counted

    def _statuses(
        self, known: dict[str, Configured], counted: dict[str, SenderCounts], machinery: Machinery, now: datetime
    ) -> dict[str, SenderStatus]:
        usages = self._usages(known.values())
        denied = self._denied_last_hour() if machinery.redis == "ok" else None
        shared: dict[str, Backlog] = {}
        sending: Counter[str] = Counter()
        for name, sender in known.items():
            if sender.budget_key:
                counts_ = counted.get(name, SenderCounts())
                before = shared.get(sender.budget_key, Backlog())
                shared[sender.budget_key] = before.plus(counts_.backlog, counts_.backlog_recipients)
                sending[sender.budget_key] += counts_.by_status.get("SENDING", 0)
        waits = {name: one for name, one in known.items() if counted.get(name, SenderCounts()).backlog}
        # While nothing dispatches or sends, no estimate is true.
        moving = machinery.redis == "ok" and not stopped(machinery, now)
        passing = passing_budgets(self._limiter, waits, known, usages, now) if moving else {}
        found = {}
        for name, sender in known.items():
            usage = usages[sender.pause_key]
            pause = pause_of(sender.pause, usage, now)
            budget = _budget(sender, usages, pause, now) if sender.budget_key else None
            counts_ = counted.get(name, SenderCounts())
            done = None
            if sender.budget_key and name in passing:
                # What is in flight has its place already.
                in_flight = min(sending[sender.budget_key], usage.in_flight.used)
                done = done_on(passing[name], shared[sender.budget_key].without(in_flight).lots, now)
            found[name] = _sender_status(sender, counts_, budget, pause, done, denied, machinery, now)
        return found


def _budget(sender: Configured, usages: Mapping[str, Usage], pause: Pause | None, now: datetime) -> Budget:
    usage = usages[sender.pause_key]
    next_free = from_epoch_ms(usage.next_free_ms)
    return Budget(
        known=usage.known,
        per_minute=_window(usage, usage.minute, usage.minute_bucket, usage.minute_rolling, sender.overridden[0]),
        recipients_per_day=_window(usage, usage.day, usage.day_bucket, usage.day_rolling, sender.overridden[1]),
        in_flight=usage.in_flight.used if usage.known else None,
        in_flight_limit=usage.in_flight.limit,
        paused_until=None if pause is None else pause.until,
        pause_reason=None if pause is None else pause.reason,
        next_free_on=next_free if next_free > now else None,
        waits_for=usage.waits_for if next_free > now else None,
        uploaded_bytes=usage.uploads.used if usage.known and usage.uploads else None,
        uploads_free_on=from_epoch_ms(usage.uploads_free_ms) if usage.uploads_free_ms else None,
        upload_bytes_limit=usage.uploads.limit if usage.uploads else 0,
        scopes=tuple(_scope(scope, usages[scope.key], now) for scope in sender.shared.scopes),
    )


def _scope(scope: Scope, usage: Usage, now: datetime) -> ScopeView:
    if not usage.known:
        return ScopeView(scope.name, scope.external_per_day, None, None)
    next_free = from_epoch_ms(usage.next_free_ms)
    return ScopeView(
        scope.name, scope.external_per_day, usage.day.used, usage.day.remaining, next_free if next_free > now else None
    )


def _window(
    usage: Usage,
    tighter: WindowUsage,
    bucket: WindowUsage,
    rolling: WindowUsage | None,
    overridden: bool,
) -> WindowView:
    source: Source = "override" if overridden else "default"
    if not usage.known:
        return WindowView(tighter.limit, source, used=None, remaining=None, bucket=None, rolling=None)
    return WindowView(
        limit=tighter.limit,
        source=source,
        used=tighter.used,
        remaining=tighter.remaining,
        bucket=bucket.used,
        rolling=None if rolling is None else rolling.used,
    )


def _sender_status(
    sender: Configured,
    counted: SenderCounts,
    budget: Budget | None,
    pause: Pause | None,
    done_on: datetime | None,
    denied: Mapping[str, Mapping[str, int]] | None,
    machinery: Machinery,
    now: datetime,
) -> SenderStatus:
    deferred = counted.put_off + (counted.due if budget is None and pause is not None else 0)
    if budget is not None and budget.known:
        deferred += max(0, counted.due - _admitted(counted, budget))
    return SenderStatus(
        key=sender.key,
        address=sender.address,
        state=_state(budget) if pause is None else "paused",
        messages={status.value: counted.by_status.get(status.value, 0) for status in MessageStatus},
        waiting=counted.backlog,
        waiting_recipients=counted.backlog_recipients,
        deferred=deferred,
        scheduled_later=counted.later,
        oldest_waiting_on=counted.oldest,
        next_on=counted.next_on,
        done_on=done_on,
        explanation=explanation(counted, budget, pause, done_on, machinery, now),
        turn=turn_of(counted, budget, pause, machinery, sender.provider, now),
        budget=budget,
        paused_until=None if pause is None else pause.until,
        pause_reason=None if pause is None else pause.reason,
        pause_cause=None if pause is None else pause.cause,
        paused_by=None if pause is None else pause.by,
        denied_last_hour=None if denied is None or not sender.budget_key else denied.get(sender.budget_key, {}),
    )


def _admitted(counted: SenderCounts, budget: Budget) -> int:
    """How many due messages may be claimed now, with what is claimed but has not reserved its place taken off."""
    if budget.paused_until is not None or not budget.recipients_per_day.remaining or not budget.per_minute.remaining:
        return 0
    asking = max(0, counted.by_status.get("SENDING", 0) - (budget.in_flight or 0))
    return max(0, budget.per_minute.remaining - counted.by_status.get("QUEUED", 0) - asking)


def _state(budget: Budget | None) -> State:
    if budget is None:
        return "ok"
    if not budget.known:
        return "unknown"
    windows = (budget.per_minute, budget.recipients_per_day)
    if any(window.remaining == 0 for window in windows):
        return "limited"
    return "near" if any((window.used or 0) >= NEAR * window.limit for window in windows) else "ok"
