"""How values are written for people: numbers, moments, durations, and what our own values are called."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from babel.dates import format_timedelta
from babel.units import format_unit
from flask import Blueprint
from flask_babel import LazyString, get_locale
from markupsafe import Markup, escape

from rqmail.insight.jsonable import as_json
from rqmail.insight.standing import Turn, WindowView, level, pause_end, told_state
from rqmail.models.message import MessageStatus
from rqmail.web.context import application, principal
from rqmail.web.pages import act_words, field_words, words
from rqmail.web.pages.language import say, write_number

#: How a moment looks where values are kept as JSON.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def install(pages: Blueprint) -> None:
    """Let every template write values as people read them."""
    for name, write in (
        ("number", write_number),
        ("size", write_size),
        ("iso", as_json),
        ("last_day", write_last_day),
        ("moment", write_moment),
        ("age", write_age),
        ("duration", write_duration),
        ("wait", write_wait),
        ("status", write_status),
        ("outcome", write_outcome),
        ("happening", write_happening),
        ("seconds", write_seconds),
        ("told", write_told),
        ("level", level),
        ("state", told_state),
        ("turn", write_turn),
        ("percent", percent),
    ):
        pages.add_app_template_filter(write, name)
    pages.add_app_template_test(is_endless, "endless")
    pages.app_context_processor(_at_hand)


def write_moment(moment: datetime | str | None) -> Markup:
    """Write a moment in UTC, in an element that the browser rewrites in the viewer's own zone."""
    if moment is None:
        return Markup("–")
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return escape(moment)
    moment = moment.astimezone(UTC)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(as_json(moment), moment)


def write_last_day(until: datetime) -> str:
    """Write the day that ends at a moment, as a date field holds it: in UTC, and the browser puts its own zone's."""
    return f"{until - timedelta(microseconds=1):%Y-%m-%d}"


def write_age(moment: datetime, now: datetime) -> str:
    """Write how long ago a moment was, or how long it is still away."""
    return write_duration(abs(now - moment))


def write_duration(length: timedelta) -> str:
    """Write a length of time in the one unit that fits it: 90 sec, 12 min, 3 hours, 2 days."""
    length = max(length, timedelta())
    return format_timedelta(length, threshold=2, format="short", locale=get_locale())


def write_turn(turn: Turn) -> Markup:
    """Say whose turn it is."""
    values = turn.text.values
    by, provider = values.get("by") or say("a person"), values.get("provider")
    return say(words.TURNS[turn.code], by=by, provider=say("the provider") if provider == "the provider" else provider)


def write_wait(waiting_for: str | None) -> str | LazyString:
    """Say what a message waits for; a reason nobody has words for is shown as it is."""
    return say("waits for its turn") if waiting_for is None else words.WAITS.get(waiting_for, waiting_for)


def write_status(status: str) -> str | LazyString:
    """Say a message's status."""
    return words.STATUSES.get(status, status)


def write_outcome(outcome: str) -> str | LazyString:
    """Say how an attempt ended; an outcome nobody has words for is shown as it is."""
    return words.OUTCOMES.get(outcome, outcome)


def write_happening(what: str) -> str | LazyString:
    """Say what happened to a message; what nobody has words for is shown as it is."""
    return words.HAPPENINGS.get(what, what)


def write_seconds(seconds: float) -> str:
    """Write a number of seconds as a length of time."""
    return write_duration(timedelta(seconds=round(seconds)))


def write_size(size: int) -> str:
    """Write a number of bytes in the unit that fits it: 512 bytes, 34 kB, 2.4 MB."""
    for unit, bytes_ in (("megabyte", 1_000_000), ("kilobyte", 1_000)):
        if size >= bytes_:
            return format_unit(round(size / bytes_, 1), f"digital-{unit}", "short", locale=get_locale())
    return format_unit(size, "digital-byte", locale=get_locale())


def write_told(value: str) -> str | Markup:
    """Write a value of a change: a moment as moments are written, anything else as it is."""
    return write_moment(value) if _MOMENT.fullmatch(value) else value


def is_endless(paused_until: datetime) -> bool:
    """Say whether a pause lasts until somebody ends it."""
    return pause_end(paused_until, application().clock()) is None


def percent(window: WindowView) -> int:
    """Answer how much of a window is used, 0 to 100."""
    return min(100, round(100 * (window.used or 0) / window.limit))


def _at_hand() -> dict[str, Any]:
    return {
        "words": words,
        "act_words": act_words,
        "field_words": field_words,
        "now": application().clock(),
        "me": principal(),
        "statuses": [status.value for status in MessageStatus],
    }
