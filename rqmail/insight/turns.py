"""Whose turn it is: what the limiter, a person's pause and the machinery know of a sender becomes one value here."""

from __future__ import annotations

from datetime import datetime

from rqmail.clock import from_epoch_ms
from rqmail.insight.explaining import PATIENCE, stopped, until_when
from rqmail.insight.standing import Budget, Machinery, Pause, Sentence, Turn, TurnCode, pause_end
from rqmail.models.counts import SenderCounts
from rqmail.ratelimit.usage import Usage

#: What each turn is called, and whether it ends only when a person does something.
_MEANS: dict[TurnCode, tuple[str, bool]] = {
    "redis": ("Redis is away", True),
    "throttled": ("throttled by {provider}", False),
    "quota": ("the provider's own sending limit is reached", False),
    "credits": ("the provider's credits are used up", True),
    "mailbox-full": ("the mailbox is full", True),
    "blocked": ("blocked by the provider", True),
    "not-found": ("mailbox not found", True),
    "policy": ("kept out by an access policy", True),
    "sender-refused": ("sender refused by the provider", True),
    "unavailable": ("the mailbox cannot send", True),
    "sign-in": ("sign-in refused", True),
    "rejecting": ("its mail is rejected", True),
    "fault": ("a fault of rqmail's own", True),
    "paused": ("paused", True),
    "nobody": ("nobody carries mail", True),
    "day-full": ("the day's budget is used up", False),
    "full-speed": ("at full speed", False),
    "retrying": ("to be tried again", False),
    "sending": ("mail is going out", False),
    "later": ("nothing is due", False),
    "idle": ("nothing waits", False),
}


def called(code: str) -> str | None:
    """Answer what a turn is called where it is not told of one sender; ``None`` for what is no turn."""
    return next((name.format(provider="the provider") for known, (name, _) in _MEANS.items() if known == code), None)


def pause_of(kept: Pause | None, usage: Usage, now: datetime) -> Pause | None:
    """Answer the pause that ends last: a person's (``kept`` in the table) or the limiter's; ``None`` without any."""
    running = kept if kept is not None and kept.until > now else None
    until = None if usage.paused_until_ms is None else from_epoch_ms(usage.paused_until_ms)
    if until is not None and until > now and (running is None or until >= running.until):
        running = Pause(until, usage.pause_reason, usage.pause_cause, usage.paused_by)
    return running


def needs_a_person(pause: Pause) -> bool:
    """Say whether a pause is for something that a person has to mend: nobody can tell when that will be."""
    return pause.cause is not None and pause.cause in _MEANS and _MEANS[pause.cause][1]


def turn_of(
    counted: SenderCounts,
    budget: Budget | None,
    pause: Pause | None,
    machinery: Machinery,
    provider: str,
    now: datetime,
) -> Turn:
    """Say whose turn it is, the most stubborn obstacle first."""
    if machinery.redis != "ok":
        return _turn("redis", now)
    if pause is not None:
        return _paused(pause, counted, provider, now)
    if counted.oldest is not None and now - counted.oldest >= PATIENCE and stopped(machinery, now):
        return _turn("nobody", now)
    if budget is not None and budget.recipients_per_day.remaining == 0 and budget.waits_for != "minute":
        return _turn("day-full", now, budget.next_free_on)
    if budget is not None and budget.per_minute.remaining == 0:
        return _turn("full-speed", now, budget.next_free_on)
    if not counted.backlog:
        return _turn("later", now, counted.next_on) if counted.later else _turn("idle", now)
    in_hand = counted.by_status.get("QUEUED", 0) + counted.by_status.get("SENDING", 0)
    if counted.put_off and not counted.due and not in_hand:
        return _turn("retrying", now, counted.next_on)
    return _turn("sending", now)


def _paused(pause: Pause, counted: SenderCounts, provider: str, now: datetime) -> Turn:
    """A pause without an end needs the person who made it as soon as mail waits; one with an end ends by itself."""
    ends, reason = pause_end(pause.until, now), pause.reason or ""
    if pause.cause != "paused-by-person":
        return _turn(pause.cause or "paused", now, ends, reason=reason, provider=provider)
    text = f"paused by {pause.by or 'a person'} {until_when(pause.until, now)}" + (f": {reason}" if reason else "")
    said = Sentence("turn-paused-by-person", text, by=pause.by, until=ends, reason=reason)
    return Turn("paused-by-person", said, ends is None and counted.backlog > 0, ends, pause.by)


def _turn(
    code: TurnCode, now: datetime, until: datetime | None = None, *, reason: str = "", provider: str = ""
) -> Turn:
    called, needs_person = _MEANS[code]
    ends = "" if until is None else f" {until_when(until, now)}"
    text = called.format(provider=provider) + (ends.replace(" until ", " at ", 1) if code == "retrying" else ends)
    text += f": {reason}" if reason else ""
    said = Sentence(f"turn-{code}", text, until=until, reason=reason, provider=provider)
    return Turn(code, said, needs_person, until)
