"""Why one message still waits and when it is expected to go out: derived when somebody asks, written nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rqmail.clock import Clock, to_epoch_ms
from rqmail.insight.forecast import Backlog, done_on
from rqmail.insight.overview import Line, Overview
from rqmail.insight.simulation import Lot
from rqmail.insight.standing import Budget, Sentence, pause_end
from rqmail.insight.turns import needs_a_person
from rqmail.models import backlog
from rqmail.models.backlog import Place

#: So many messages before one are counted; of a longer line nobody is told an end.
MOST_BEFORE = 10_000


@dataclass(frozen=True, slots=True)
class Wait:
    """What a SCHEDULED message waits for; of any other nothing is told.

    ``waits_for`` is ``time`` (it is for later), why it was put off (``retry``, ``throttled``, …), ``mailbox`` (its
    sender is gone), ``redis``, ``paused``, ``nobody`` (no scheduler or worker is at work), ``too-large`` (more
    recipients than a whole day admits: it fails at the next dispatch), ``day``, ``minute``, ``upload``, ``line``
    (others go before it) or ``dispatch`` (the next one takes it). ``before`` is how many go before it, at most
    :data:`MOST_BEFORE`. ``expected_on`` is ``None`` when it cannot be told.
    """

    waits_for: str | None = None
    expected_on: datetime | None = None
    before: int | None = None
    waits_because: Sentence | None = None


class Waiting:
    """Answers for one message; looks at no more than a bounded part of the line before it."""

    def __init__(self, overview: Overview, clock: Clock) -> None:
        self._overview = overview
        self._clock = clock

    def of(self, place: Place, *, waiting_for: str | None = None, expires_on: datetime | None = None) -> Wait:
        """Say what the message at this place waits for; ``waiting_for`` is why it was put off, if it was."""
        now = self._clock()
        line = self._overview.line(place.sender)
        if line is None:
            return _wait("mailbox", f"Its sender, {place.sender}, does not exist any more.")
        if line.redis != "ok":
            return _wait("redis", f"Redis is {line.redis}, so nothing can be handed to the workers.")
        start = max(now, place.scheduled_on)
        before = backlog.before(place, line.senders, start, at_most=MOST_BEFORE)
        expected = None if line.still or before.messages >= MOST_BEFORE else _expected(place, before, line, now)
        code, text = _reason(place, waiting_for, before, line, now)
        if expected is not None and expires_on is not None and expires_on <= expected:
            text += " It expires before its turn comes."
            expected = None
        return _wait(code, text, expected, before.messages)


def _reason(
    place: Place, waiting_for: str | None, before: backlog.Before, line: Line, now: datetime
) -> tuple[str, str]:
    """Name what holds the message, the most stubborn obstacle first."""
    pause = line.pause
    if pause is not None and pause.until > place.scheduled_on:
        ends = pause_end(pause.until, now)
        until = "until it is resumed" if ends is None else f"until {_clock(ends)}"
        return "paused", f"Its sender is paused {until} ({pause.reason or 'no reason given'})."
    if place.scheduled_on > now:
        if waiting_for is not None:
            return waiting_for, f"It was put off ({waiting_for}) until {_clock(place.scheduled_on)}."
        return "time", f"It is to go out on {_clock(place.scheduled_on)}."
    if line.still:
        return "nobody", f"Nothing moves it: {line.still[0]}"
    budget = line.budget
    if budget is not None and budget.known:
        found = _budget(place, before, budget)
        if found is not None:
            return found
    if before.messages:
        return "line", f"{_before(before)} before it."
    return "dispatch", "The next dispatch takes it."


def _budget(place: Place, before: backlog.Before, budget: Budget) -> tuple[str, str] | None:
    day, minute = budget.recipients_per_day, budget.per_minute
    if place.recipients > day.limit:
        return "too-large", f"It has {place.recipients:,} recipients, more than the {day.limit:,} of a whole day."
    if (day.remaining or 0) < place.recipients:
        return "day", f"{day.used:,} of the day's {day.limit:,} recipients are used.{_and(before)}"
    if minute.remaining == 0 and before.messages < minute.limit:
        return "minute", f"The minute's {minute.limit:,} calls are used.{_and(before)}"
    uploaded, limit = budget.uploaded_bytes, budget.upload_bytes_limit
    if uploaded and 0 < (size := min(backlog.upload_bytes(place.id), limit)) > limit - uploaded:
        used = f"{uploaded / 1_000_000:,.0f} of the {limit / 1_000_000:,.0f} MB that may be uploaded in five minutes"
        return "upload", f"Its files have {size / 1_000_000:,.0f} MB; {used} are used."
    return None


def _expected(place: Place, before: backlog.Before, line: Line, now: datetime) -> datetime | None:
    budget = line.budget
    paused = None if line.pause is None else line.pause.until
    if line.pause is not None and (pause_end(line.pause.until, now) is None or needs_a_person(line.pause)):
        return None
    start = max(now, place.scheduled_on, paused or now)
    if budget is None:
        return None if before.messages else start
    if line.passing is None:
        return None
    mine = Lot(1, place.recipients, to_epoch_ms(start), backlog.upload_bytes(place.id))
    done = done_on(line.passing, [*Backlog(before.messages, before.recipients).lots, mine], now)
    return None if done is None else max(start, done)


def _wait(code: str, text: str, expected: datetime | None = None, before: int | None = None) -> Wait:
    return Wait(code, expected, before, Sentence(f"wait-{code}", text))


def _and(before: backlog.Before) -> str:
    return f" {_before(before)} before it." if before.messages else ""


def _before(before: backlog.Before) -> str:
    if before.messages == 1:
        return "1 message goes"
    least = "at least " if before.messages >= MOST_BEFORE else ""
    return f"{least}{before.messages:,} messages go".capitalize()


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
