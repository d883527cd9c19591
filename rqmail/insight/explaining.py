"""Why mail goes out or does not: in one sentence, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from rqmail.insight.bouncing import Bouncing
from rqmail.insight.standing import Budget, Machinery, Pause, Problem, SenderStatus, Sentence, pause_end
from rqmail.models.counts import SenderCounts
from rqmail.queue_state import MAIL, MAIL_HIGH
from rqmail.ratelimit.scopes import ScopeName
from rqmail.text.counting import counted

#: Whose external recipients are used up.
_SHARED: dict[ScopeName, str] = {
    "tenant": "the whole Entra tenant has",
    "onmicrosoft": "all senders on onmicrosoft.com of the Entra tenant have",
}

#: Mail that has been due for less is not told yet that nothing dispatches or works: that may be a moment's delay.
PATIENCE = timedelta(seconds=60)


def explanation(
    counted: SenderCounts,
    budget: Budget | None,
    pause: Pause | None,
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
    if pause is not None:
        until = until_when(pause.until, now)
        text = f"{many}: the mailbox is paused {until} ({pause.reason or 'no reason given'})."
        end = pause_end(pause.until, now)
        return Sentence("paused", text, waiting=waiting, until=end, reason=pause.reason or "")
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
    scope = None if budget is None else budget.full_scope
    if scope is not None:
        text = (
            f"{many}: {_SHARED[scope.name]} reached {scope.limit:,} external recipients, as many as a day"
            f" allows; the next place comes free {_when(scope.next_free_on, now)}."
            " Mail to recipients inside the tenant goes."
        )
        values = {"used": scope.used, "limit": scope.limit, "next_on": scope.next_free_on}
        return Sentence(f"{scope.name}-full", text, waiting=waiting, **values)
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
    if budget is not None and counted.least_upload is not None and budget.uploaded_bytes:
        uploaded, limit = budget.uploaded_bytes, budget.upload_bytes_limit
        if uploaded + min(counted.least_upload, limit) > limit:
            megabytes = f"{uploaded / 1_000_000:,.0f} of {limit / 1_000_000:,.0f}"
            text = (
                f"{many}: large files wait, as {megabytes} MB were uploaded in five minutes;"
                f" some of them count no more {_when(budget.uploads_free_on, now)}. Mail without them goes."
            )
            return Sentence("upload", text, waiting=waiting, megabytes=megabytes, next_on=budget.uploads_free_on)
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
    bouncing: Mapping[str, Bouncing],
    now: datetime,
) -> list[Problem]:
    """List what a person should know, what keeps mail from going out first.

    ``bouncing`` is what comes back too much, by sender.
    """
    found = []
    if machinery.redis == "misconfigured":
        text = f"Redis refuses us: {machinery.redis_text}"
        found.append(Problem("error", "redis", Sentence("redis-refuses", text, detail=machinery.redis_text)))
    elif machinery.redis == "unreachable":
        text = f"Redis cannot be reached: {machinery.redis_text}"
        found.append(Problem("error", "redis", Sentence("redis-away", text, detail=machinery.redis_text)))
    for still in stopped(machinery, now):
        text = still[0].upper() + still[1:]
        found.append(Problem("error", "nobody", Sentence(still.code, text, **still.values)))
    for name, status in statuses.items():
        if status.paused_until is not None:
            until = until_when(status.paused_until, now)
            reason, by = status.pause_reason or "", status.paused_by
            whose = f"paused by {by}" if by else "paused"
            text = f"{name} is {whose} {until} ({reason}); {_messages(status.waiting).lower()}."
            values = {
                "name": name,
                "by": by,
                "until": pause_end(status.paused_until, now),
                "reason": reason,
                "waiting": status.waiting,
            }
            said = Sentence("sender-paused-by" if by else "sender-paused", text, **values)
            found.append(Problem("warning", status.pause_cause or "paused", said, name, status.waiting))
    if total["UNKNOWN"]:
        text = counted(
            total["UNKNOWN"],
            "message may or may not have been sent and needs a decision.",
            "messages may or may not have been sent and need a decision.",
        )
        said = Sentence("undecided", text, number=total["UNKNOWN"])
        found.append(Problem("warning", "undecided", said, waiting=total["UNKNOWN"]))
    if total["ERROR"]:
        text = (
            counted(total["ERROR"], "message", "messages") + " could not be sent; `rqmail message list --status ERROR`."
        )
        said = Sentence("failed", text, number=total["ERROR"])
        found.append(Problem("warning", "failed", said, waiting=total["ERROR"]))
    found += [Problem("warning", "bouncing", _comes_back(name, one), name) for name, one in bouncing.items()]
    return found


def _comes_back(name: str, one: Bouncing) -> Sentence:
    text = (
        f"{one.percent:g} % of the mail of {name} came back in 7 days ({one.bounced:,} of"
        f" {one.recipients:,} recipients): others begin to refuse it; clean its lists."
    )
    return Sentence("bouncing", text, name=name, percent=one.percent, bounced=one.bounced, recipients=one.recipients)


def _messages(number: int) -> str:
    return counted(number, "message waits", "messages wait")


def _done(done_on: datetime | None, now: datetime) -> str:
    return "" if done_on is None or done_on <= now else f" All of it is through {_when(done_on, now, about=True)}."


def _when(moment: datetime | None, now: datetime, *, about: bool = False) -> str:
    if moment is None or moment <= now:
        return "now"
    return f"in {'about ' if about else ''}{_ago(moment - now)} ({_clock(moment, now)} UTC)"


def until_when(moment: datetime, now: datetime) -> str:
    """Say until when a pause, or what else has an end, lasts."""
    return "until it is resumed" if pause_end(moment, now) is None else f"until {_clock(moment, now)} UTC"


def _clock(moment: datetime, now: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"


def _ago(delta: timedelta) -> str:
    seconds = max(1, round(delta.total_seconds()))
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds} s"
