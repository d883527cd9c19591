"""How values are written for people: numbers, moments, durations, and sentences about why mail waits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Blueprint
from markupsafe import Markup, escape

from rqmail.insight.jsonable import as_json
from rqmail.insight.overview import NEAR
from rqmail.insight.standing import Sentence, WindowView
from rqmail.models.message import MessageStatus
from rqmail.web.context import application, principal
from rqmail.web.pages.catalogue import TEXTS
from rqmail.web.pages.language import say, say_count, write_number

_UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"))

#: Which sentences of the overview begin with how many messages wait.
_COUNTED = frozenset({"redis", "paused", "stopped", "day", "minute", "put-off", "going"})

#: How a moment looks where values are kept as JSON.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

#: A pause that ends no sooner was made to last until somebody ends it.
_ENDLESS = timedelta(days=182)


def install(pages: Blueprint) -> None:
    """Let every template write values as people read them."""
    for name, write in (
        ("number", write_number),
        ("moment", write_moment),
        ("age", write_age),
        ("duration", write_duration),
        ("sentence", write_sentence),
        ("wait", write_wait),
        ("status", write_status),
        ("outcome", write_outcome),
        ("told", write_told),
        ("level", level),
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


def write_age(moment: datetime, now: datetime) -> str:
    """Write how long ago a moment was, or how long it is still away."""
    return write_duration(abs(now - moment))


def write_duration(length: timedelta) -> str:
    """Write a length of time in the one unit that fits it: 90 s, 12 min, 3 hours, 2 days."""
    seconds = max(0, round(length.total_seconds()))
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return say(f"duration.{unit}", number=write_number(round(seconds / size)))
    return say("duration.seconds", number=seconds)


def write_wait(waiting_for: str | None) -> str:
    """Say what a message waits for; a reason nobody has words for is shown as it is."""
    if waiting_for is None:
        return say("waits.turn")
    key = f"waits.{waiting_for}"
    return say(key) if key in TEXTS else waiting_for


def write_status(status: str) -> str:
    """Say a message's status."""
    key = f"status.{status}"
    return say(key) if key in TEXTS else status


def write_outcome(outcome: str) -> str:
    """Say how an attempt ended; an outcome nobody has words for is shown as it is."""
    key = f"outcome.{outcome}"
    return say(key) if key in TEXTS else outcome


def write_told(value: str) -> str | Markup:
    """Write a value of a change: a moment as moments are written, anything else as it is."""
    return write_moment(value) if _MOMENT.fullmatch(value) else value


def is_endless(paused_until: datetime) -> bool:
    """Say whether a pause lasts until somebody ends it."""
    return paused_until - application().clock() > _ENDLESS


def write_sentence(sentence: Sentence) -> Markup:
    """Say a sentence of the overview in the viewer's language, its moments in elements of their own."""
    values = dict(sentence.values)
    key = f"why.{sentence.code}"
    if sentence.code in {"paused", "sender-paused"}:
        until = values.pop("until")
        values["until"] = say("why.until-resumed") if until is None else say("why.until", moment=write_moment(until))
        values["reason"] = values["reason"] or say("why.no-reason")
    if sentence.code in {"undecided", "failed"}:
        return say_count(key, values["number"])
    filled = {name: _filled(name, value) for name, value in values.items()}
    if "done_on" in filled:
        filled["done"] = say("why.done", moment=filled["done_on"]) if values["done_on"] is not None else ""
    if sentence.code in _COUNTED:
        filled["waiting"] = say_count("why.waiting", values["waiting"])
    elif "waiting" in values:
        filled["waiting"] = say_count("why.its-waiting", values["waiting"])
    return say(key, **filled)


def level(window: WindowView) -> str:
    """Say how near a window is to its limit: ``ok``, ``near`` or ``full``."""
    if window.remaining == 0:
        return "full"
    return "near" if window.used >= NEAR * window.limit else "ok"


def percent(window: WindowView) -> int:
    """Answer how much of a window is used, 0 to 100."""
    return min(100, round(100 * window.used / window.limit))


def _filled(name: str, value: Any) -> Any:
    if name == "next_on" and (value is None or value <= application().clock()):
        return say("why.now")
    match value:
        case None | datetime():
            return write_moment(value)
        case timedelta():
            return write_duration(value)
        case Sentence():
            return write_sentence(value)
        case bool():
            return value
        case int():
            return write_number(value)
        case Mapping():
            reasons = [f"{write_number(number)} {write_wait(reason)}" for reason, number in sorted(value.items())]
            return ", ".join(reasons) or say("why.later-try")
        case _:
            return value


def _at_hand() -> dict[str, Any]:
    return {
        "now": application().clock(),
        "me": principal(),
        "statuses": [status.value for status in MessageStatus],
    }
