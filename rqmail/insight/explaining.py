"""Why mail goes out or does not: in one sentence, for people."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from rqmail.insight.standing import Budget, Machinery, Problem, SenderStatus, Sentence
from rqmail.models.counts import SenderCounts
from rqmail.queues import MAIL, MAIL_HIGH

#: Mail that has been due for less is not told yet that nothing dispatches or works: that may be a moment's delay.
PATIENCE = timedelta(seconds=60)

#: A pause longer than half of this was made to last until somebody ends it.
_FOREVER = timedelta(days=365)


def explanation(
    counted: SenderCounts,
    budget: Budget | None,
    pause: tuple[datetime | None, str | None],
    done_on: datetime | None,
    machinery: Machinery,
    now: datetime,
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
    paused_until, reason = pause
    if paused_until is not None:
        until = _until(paused_until, now)
        text = f"{many}: the mailbox is paused {until} ({reason or 'no reason given'})."
        return Sentence("paused", text, waiting=waiting, until=_end(paused_until, now), reason=reason or "")
    still = stopped(machinery, now) if counted.oldest is not None and now - counted.oldest >= PATIENCE else []
    if still:
        return Sentence("stopped", f"{many}: {still[0]}", waiting=waiting, because=still[0])
    if budget is not None and budget.recipients_per_day.remaining == 0 and budget.waits_for != "minute":
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


def stopped(machinery: Machinery, now: datetime) -> list[Sentence]:
    """Say which part of the machinery stands still: what readiness, the overview and ``doctor`` all go by."""
    if machinery.redis != "ok":
        return []
    found = []
    last, due = machinery.last_tick_on, machinery.dispatch_due_on
    if last is None:
        found.append(Sentence("no-tick", "no dispatch has run today; is `rqmail scheduler` running?"))
    elif now - last > machinery.late_after:
        text = f"the last dispatch was {_ago(now - last)} ago; is `rqmail scheduler` running?"
        found.append(Sentence("old-tick", text, age=now - last))
    elif due is None or now - due > machinery.late_after:
        text = "nothing keeps the ticks coming: mail waits until somebody asks for it; start `rqmail scheduler`."
        found.append(Sentence("no-scheduler", text))
    if not any({MAIL, MAIL_HIGH} & set(worker.queues) for worker in machinery.workers):
        found.append(Sentence("no-worker", "no worker listens for mail; start `rqmail worker`."))
    return found


def problems(
    machinery: Machinery,
    statuses: dict[str, SenderStatus],
    total: Counter[str],
    now: datetime,
) -> list[Problem]:
    """List what a person should know, what keeps mail from going out first."""
    found = []
    if machinery.redis == "misconfigured":
        text = f"Redis refuses us: {machinery.redis_text}"
        found.append(Problem("error", Sentence("redis-refuses", text, detail=machinery.redis_text)))
    elif machinery.redis == "unreachable":
        text = f"Redis cannot be reached: {machinery.redis_text}"
        found.append(Problem("error", Sentence("redis-away", text, detail=machinery.redis_text)))
    for still in stopped(machinery, now):
        text = still[0].upper() + still[1:]
        found.append(Problem("error", Sentence(still.code, text, **still.values)))
    for name, status in statuses.items():
        if status.paused_until is not None:
            until = _until(status.paused_until, now)
            reason = status.pause_reason or ""
            text = f"{name} is paused {until} ({reason}); {_messages(status.waiting).lower()}."
            values = {
                "name": name,
                "until": _end(status.paused_until, now),
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
