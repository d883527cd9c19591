"""The read side: what is where, how much budget is left, when it will be done, and why nothing is going out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from rqmail.clock import Clock, from_epoch_ms, monotonic
from rqmail.errors import NotFoundError
from rqmail.estimate import Backlog, backlog_done_on
from rqmail.models import counts
from rqmail.models.base import borrowed
from rqmail.models.counts import SenderCounts
from rqmail.models.mailbox import Provider, SystemMailbox, TenantMailSetting
from rqmail.models.message import MessageStatus
from rqmail.queues import MAIL, MAIL_HIGH, MailQueues
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits, mailbox_key, resolve_limits
from rqmail.ratelimit.usage import Usage, WindowUsage

#: Mail that has been due for this long while nothing dispatches or works is a problem, not a moment's delay.
PATIENCE = timedelta(seconds=60)
#: From this share of a budget on a mailbox is called near its limit.
NEAR = 0.9

#: Counting the past may take a twentieth of a process's time; below this many seconds it is not worth a thought.
_SHARE = 20
_CHEAP_SECONDS = 0.05

_FOREVER = timedelta(days=365)

Source = Literal["default", "override"]
State = Literal["ok", "near", "limited", "paused", "unknown"]


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
class WindowView:
    """One limit of a mailbox: its value and where that comes from, and what is used of it.

    ``used`` is what the limiter holds against the limit: the larger of ``bucket`` (the calendar minute or UTC day) and
    ``rolling`` (the last 60 s or 24 h, absent with fixed windows).
    """

    limit: int
    source: Source
    used: int
    remaining: int
    bucket: int
    rolling: int | None


@dataclass(frozen=True, slots=True)
class Budget:
    """What one mailbox may still send. ``known`` is false when Redis could not tell: then mail goes out uncounted."""

    known: bool
    per_minute: WindowView
    recipients_per_day: WindowView
    in_flight: int
    in_flight_limit: int
    paused_until: datetime | None
    pause_reason: str | None
    next_free_on: datetime | None


@dataclass(frozen=True, slots=True)
class SenderStatus:
    """One sender's mail.

    ``waiting`` is wanted by now and not finished, ``deferred`` the part of it that is held back (no budget, a pause, a
    later try), ``scheduled_later`` is not wanted yet. ``done_on`` estimates when the backlog is through, ``None`` when
    there is none or nobody can tell. ``budget`` is absent where the mail leaves without one (SendGrid).
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
    budget: Budget | None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker as it last reported itself."""

    name: str
    state: str
    queues: tuple[str, ...]
    last_heartbeat: datetime | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something a person should know: an ``error`` keeps mail from going out, a ``warning`` does not."""

    level: Literal["error", "warning"]
    text: Sentence


@dataclass(frozen=True, slots=True)
class Status:
    """Everything at one moment; ``mailboxes`` and ``tenants`` by key, ``messages`` by status over all senders."""

    now: datetime
    messages: dict[str, int]
    mailboxes: dict[str, SenderStatus]
    tenants: dict[str, SenderStatus]
    default: SenderStatus
    queues: dict[str, int]
    workers: tuple[WorkerView, ...]
    last_tick_on: datetime | None
    oldest_waiting_on: datetime | None
    redis: Literal["ok", "unreachable", "misconfigured"]
    problems: tuple[Problem, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether something keeps mail from going out."""
        return any(problem.level == "error" for problem in self.problems)


@dataclass(frozen=True, slots=True)
class _Machinery:
    """What carries the mail, at one moment."""

    redis: Literal["ok", "unreachable", "misconfigured"]
    redis_text: str
    queues: dict[str, int]
    workers: tuple[WorkerView, ...]
    last_tick_on: datetime | None


@dataclass(frozen=True, slots=True)
class _Known:
    """A sender as it is configured; ``budget_key`` and ``limits`` only where the limiter counts it."""

    key: str
    address: str | None
    budget_key: str | None = None
    limits: RateLimits | None = None
    overridden: tuple[bool, bool] = (False, False)
    paused_until: datetime | None = None
    pause_reason: str | None = None


class Ended:
    """How many messages came to their end: counted anew each time; where that takes long it is believed for a while."""

    def __init__(self, monotonic: Callable[[], float] = monotonic) -> None:
        self._monotonic = monotonic
        self._found: dict[str, dict[str, int]] = {}
        self._believed_until = 0.0

    def by_sender(self) -> dict[str, dict[str, int]]:
        """Answer every sender's number of messages by the state they ended in."""
        began = self._monotonic()
        if began >= self._believed_until:
            self._found = counts.ended_by_sender()
            cost = self._monotonic() - began
            self._believed_until = 0.0 if cost < _CHEAP_SECONDS else began + _SHARE * cost
        return self._found


class Overview:
    """Answers what people and monitors ask; changes nothing."""

    def __init__(self, limiter: MailRateLimiter, queues: MailQueues, clock: Clock, defaults: RateLimits) -> None:
        self._limiter = limiter
        self._queues = queues
        self._clock = clock
        self._defaults = defaults
        self._ended = Ended()

    @property
    def defaults(self) -> RateLimits:
        """The limits of a mailbox that has none of its own."""
        return self._defaults

    def status(self) -> Status:
        """Look at everything once."""
        now = self._clock()
        known = self._known()
        counted = self._counted(now)
        machinery = self._machinery()
        statuses = self._statuses(known, counted, machinery, now)
        total: Counter[str] = Counter()
        for sender in counted.values():
            total.update(sender.by_status)
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
            problems=tuple(_problems(machinery, statuses, total, min(oldest, default=None), now)),
        )

    def mailbox(self, key: str) -> SenderStatus:
        """Look at one system mailbox, with its budget."""
        return self._one(f"mailbox:{key}")

    def tenant(self, key: str) -> SenderStatus:
        """Look at one tenant."""
        return self._one(f"tenant:{key}")

    def explain(self, key: str) -> Sentence:
        """Say in plain words what the mail of a system mailbox waits for."""
        return self.mailbox(key).explanation

    def _one(self, name: str) -> SenderStatus:
        now = self._clock()
        known = self._known()
        if name not in known:
            kind, _, key = name.partition(":")
            raise NotFoundError(kind, key)
        # Senders on the same mailbox share its budget, so the estimate needs their backlogs too.
        mine = known[name].budget_key
        shared = {n: k for n, k in known.items() if n == name or (mine and k.budget_key == mine)}
        return self._statuses(shared, self._counted(now), self._machinery(), now)[name]

    def _known(self) -> dict[str, _Known]:
        with borrowed():
            mailboxes = list(SystemMailbox.select().order_by(SystemMailbox.key))
            tenants = list(TenantMailSetting.select().order_by(TenantMailSetting.key))
        known = {}
        for row in mailboxes:
            own = (row.rate_limit_per_minute, row.rate_limit_recipients_per_day)
            known[f"mailbox:{row.key}"] = _Known(
                row.key,
                row.address,
                mailbox_key(row.address),
                resolve_limits(*own, defaults=self._defaults),
                (bool(own[0] and own[0] > 0), bool(own[1] and own[1] > 0)),
                row.paused_until,
                row.pause_reason,
            )
        for tenant in tenants:
            if tenant.provider == Provider.MICROSOFT_GRAPH.value and tenant.address:
                known[f"tenant:{tenant.key}"] = _Known(
                    tenant.key, tenant.address, mailbox_key(tenant.address), self._defaults
                )
            else:
                known[f"tenant:{tenant.key}"] = _Known(tenant.key, tenant.sendgrid_from)
        known["default"] = _Known("default", None)
        return known

    def _counted(self, now: datetime) -> dict[str, SenderCounts]:
        counted = counts.open_by_sender(now)
        for name, by_status in self._ended.by_sender().items():
            counted.setdefault(name, SenderCounts()).by_status.update(by_status)
        return counted

    def _machinery(self) -> _Machinery:
        health = self._limiter.health()
        if health.state != "ok":
            return _Machinery(health.state, health.text, {}, (), None)
        workers = tuple(WorkerView(w.name, w.state, w.queues, w.last_heartbeat) for w in self._queues.workers())
        return _Machinery("ok", "", self._queues.depth(), workers, self._queues.last_tick())

    def _statuses(
        self, known: dict[str, _Known], counted: dict[str, SenderCounts], machinery: _Machinery, now: datetime
    ) -> dict[str, SenderStatus]:
        usages = self._limiter.usage({k.budget_key: k.limits for k in known.values() if k.budget_key and k.limits})
        shared: dict[str, Backlog] = {}
        for name, sender in known.items():
            if sender.budget_key:
                counts_ = counted.get(name, SenderCounts())
                before = shared.get(sender.budget_key, Backlog())
                shared[sender.budget_key] = before.plus(counts_.backlog, counts_.backlog_recipients)
        found = {}
        for name, sender in known.items():
            usage = usages.get(sender.budget_key) if sender.budget_key else None
            budget = _budget(sender, usage, now) if usage is not None else None
            counts_ = counted.get(name, SenderCounts())
            backlog = shared[sender.budget_key] if sender.budget_key else Backlog()
            found[name] = _sender_status(sender, counts_, budget, backlog, machinery, now)
        return found


def _budget(sender: _Known, usage: Usage, now: datetime) -> Budget:
    paused_until = None if usage.paused_until_ms is None else from_epoch_ms(usage.paused_until_ms)
    reason = usage.pause_reason
    if sender.paused_until is not None and sender.paused_until > max(now, paused_until or now):
        paused_until, reason = sender.paused_until, sender.pause_reason
    next_free = from_epoch_ms(usage.next_free_ms)
    return Budget(
        known=usage.known,
        per_minute=_window(usage.minute, usage.minute_bucket, usage.minute_rolling, overridden=sender.overridden[0]),
        recipients_per_day=_window(usage.day, usage.day_bucket, usage.day_rolling, overridden=sender.overridden[1]),
        in_flight=usage.in_flight.used,
        in_flight_limit=usage.in_flight.limit,
        paused_until=paused_until if paused_until is not None and paused_until > now else None,
        pause_reason=reason if paused_until is not None and paused_until > now else None,
        next_free_on=next_free if next_free > now else None,
    )


def _window(tighter: WindowUsage, bucket: WindowUsage, rolling: WindowUsage | None, *, overridden: bool) -> WindowView:
    return WindowView(
        limit=tighter.limit,
        source="override" if overridden else "default",
        used=tighter.used,
        remaining=tighter.remaining,
        bucket=bucket.used,
        rolling=None if rolling is None else rolling.used,
    )


def _sender_status(
    sender: _Known,
    counted: SenderCounts,
    budget: Budget | None,
    shared: Backlog,
    machinery: _Machinery,
    now: datetime,
) -> SenderStatus:
    deferred = counted.put_off
    done_on = None
    if budget is not None:
        if budget.known:
            deferred += max(0, counted.due - _admitted(counted, budget))
        if counted.backlog and budget.known:
            done_on = backlog_done_on(
                shared,
                now,
                next_free_on=budget.next_free_on,
                paused_until=budget.paused_until,
                calls=(budget.per_minute.limit, budget.per_minute.remaining),
                recipients=(budget.recipients_per_day.limit, budget.recipients_per_day.remaining),
            )
    return SenderStatus(
        key=sender.key,
        address=sender.address,
        state=_state(budget),
        messages={status.value: counted.by_status.get(status.value, 0) for status in MessageStatus},
        waiting=counted.backlog,
        waiting_recipients=counted.backlog_recipients,
        deferred=deferred,
        scheduled_later=counted.later,
        oldest_waiting_on=counted.oldest,
        next_on=counted.next_on,
        done_on=done_on,
        explanation=_explanation(counted, budget, done_on, machinery, now),
        budget=budget,
    )


def _admitted(counted: SenderCounts, budget: Budget) -> int:
    """How many due messages may be claimed now, with what is claimed but has not reserved its place taken off."""
    if budget.paused_until is not None or not budget.recipients_per_day.remaining:
        return 0
    asking = max(0, counted.by_status.get("SENDING", 0) - budget.in_flight)
    return max(0, budget.per_minute.remaining - counted.by_status.get("QUEUED", 0) - asking)


def _state(budget: Budget | None) -> State:
    if budget is None:
        return "ok"
    if not budget.known:
        return "unknown"
    if budget.paused_until is not None:
        return "paused"
    windows = (budget.per_minute, budget.recipients_per_day)
    if any(window.remaining == 0 for window in windows):
        return "limited"
    return "near" if any(window.used >= NEAR * window.limit for window in windows) else "ok"


# --- in plain words ------------------------------------------------------------------------------------------------


def _explanation(
    counted: SenderCounts, budget: Budget | None, done_on: datetime | None, machinery: _Machinery, now: datetime
) -> Sentence:
    """Say what the sender's mail waits for, the most stubborn obstacle first."""
    if not counted.backlog:
        if counted.later and counted.next_on is not None:
            text = f"Nothing is due. The next of {counted.later:,} goes out {_when(counted.next_on, now)}."
            return Sentence("later", text, later=counted.later, next_on=counted.next_on)
        return Sentence("nothing", "Nothing is waiting.")
    waiting = counted.backlog
    many = _messages(waiting)
    if machinery.redis != "ok":
        text = f"{many}: Redis is {machinery.redis}, so nothing can be handed to the workers."
        return Sentence("redis", text, waiting=waiting)
    if budget is not None and budget.paused_until is not None:
        until = _until(budget.paused_until, now)
        text = f"{many}: the mailbox is paused {until} ({budget.pause_reason or 'no reason given'})."
        return Sentence(
            "paused", text, waiting=waiting, until=_end(budget.paused_until, now), reason=budget.pause_reason or ""
        )
    stopped = _stopped(machinery, counted.oldest, now)
    if stopped:
        return Sentence("stopped", f"{many}: {stopped[0]}", waiting=waiting, because=stopped[0])
    if budget is not None and budget.recipients_per_day.remaining == 0:
        day = budget.recipients_per_day
        text = (
            f"{many}: the day's budget is used up ({day.used:,} of {day.limit:,} recipients);"
            f" the next place comes free {_when(budget.next_free_on, now)}.{_done(done_on, now)}"
        )
        return Sentence(
            "day", text, waiting=waiting, used=day.used, limit=day.limit, next_on=budget.next_free_on, done_on=done_on
        )
    if budget is not None and budget.per_minute.remaining == 0:
        minute = budget.per_minute
        text = (
            f"{many}: the minute's budget is used up ({minute.used} of {minute.limit} calls);"
            f" the next place comes free {_when(budget.next_free_on, now)}.{_done(done_on, now)}"
        )
        return Sentence(
            "minute",
            text,
            waiting=waiting,
            used=minute.used,
            limit=minute.limit,
            next_on=budget.next_free_on,
            done_on=done_on,
        )
    in_hand = counted.by_status.get("QUEUED", 0) + counted.by_status.get("SENDING", 0)
    if counted.put_off and not counted.due and not in_hand:
        why = ", ".join(f"{number} {reason}" for reason, number in sorted(counted.reasons.items()))
        text = f"{many}: put off ({why or 'for a later try'}); the next try is {_when(counted.next_on, now)}."
        return Sentence("put-off", text, waiting=waiting, reasons=counted.reasons, next_on=counted.next_on)
    text = f"{many}: {in_hand} are being sent now, {counted.due} are next.{_done(done_on, now)}"
    return Sentence("going", text, waiting=waiting, in_hand=in_hand, due=counted.due, done_on=done_on)


def _stopped(machinery: _Machinery, oldest: datetime | None, now: datetime) -> list[Sentence]:
    """Say which part of the machinery stands still while mail is overdue."""
    if machinery.redis != "ok" or oldest is None or now - oldest < PATIENCE:
        return []
    reasons = []
    if machinery.last_tick_on is None:
        reasons.append(Sentence("no-tick", "no dispatch has run today; is `rqmail scheduler` running?"))
    elif now - machinery.last_tick_on > PATIENCE:
        age = now - machinery.last_tick_on
        text = f"the last dispatch was {_ago(age)} ago; is `rqmail scheduler` running?"
        reasons.append(Sentence("old-tick", text, age=age))
    if not any({MAIL, MAIL_HIGH} & set(worker.queues) for worker in machinery.workers):
        reasons.append(Sentence("no-worker", "no worker listens for mail; start `rqmail worker`."))
    return reasons


def _problems(
    machinery: _Machinery,
    statuses: dict[str, SenderStatus],
    total: Counter[str],
    oldest: datetime | None,
    now: datetime,
) -> list[Problem]:
    found = []
    if machinery.redis == "misconfigured":
        text = f"Redis refuses us: {machinery.redis_text}"
        found.append(Problem("error", Sentence("redis-refuses", text, detail=machinery.redis_text)))
    elif machinery.redis == "unreachable":
        text = f"Redis cannot be reached: {machinery.redis_text}"
        found.append(Problem("error", Sentence("redis-away", text, detail=machinery.redis_text)))
    for stopped in _stopped(machinery, oldest, now):
        text = stopped[0].upper() + stopped[1:]
        found.append(Problem("error", Sentence(stopped.code, text, **stopped.values)))
    for name, status in statuses.items():
        if status.budget is not None and status.budget.paused_until is not None:
            until = _until(status.budget.paused_until, now)
            reason = status.budget.pause_reason or ""
            text = f"{name} is paused {until} ({reason}); {_messages(status.waiting).lower()}."
            values = {
                "name": name,
                "until": _end(status.budget.paused_until, now),
                "reason": reason,
                "waiting": status.waiting,
            }
            found.append(Problem("warning", Sentence("sender-paused", text, **values)))
    if total["UNKNOWN"]:
        text = f"{total['UNKNOWN']} messages may or may not have been sent and need a decision."
        found.append(Problem("warning", Sentence("undecided", text, number=total["UNKNOWN"])))
    if total["ERROR"]:
        text = f"{total['ERROR']} messages could not be sent; `rqmail message list --status ERROR`."
        found.append(Problem("warning", Sentence("failed", text, number=total["ERROR"])))
    return found


def _messages(number: int) -> str:
    return "1 message waits" if number == 1 else f"{number:,} messages wait"


def _done(done_on: datetime | None, now: datetime) -> str:
    return "" if done_on is None or done_on <= now else f" All of it is through {_when(done_on, now, about=True)}."


def _when(moment: datetime | None, now: datetime, *, about: bool = False) -> str:
    if moment is None or moment <= now:
        return "now"
    return f"in {'about ' if about else ''}{_ago(moment - now)} ({_clock(moment, now)} UTC)"


def _until(moment: datetime, now: datetime) -> str:
    return "until it is resumed" if _end(moment, now) is None else f"until {_clock(moment, now)} UTC"


def _end(paused_until: datetime, now: datetime) -> datetime | None:
    """Answer when a pause ends, ``None`` where it was made to last until somebody ends it."""
    return None if paused_until - now > _FOREVER / 2 else paused_until


def _clock(moment: datetime, now: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"


def _ago(delta: timedelta) -> str:
    seconds = max(1, round(delta.total_seconds()))
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds} s"
