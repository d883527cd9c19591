"""Why mail goes out or does not, in a sentence of the viewer's language."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from flask import Blueprint
from markupsafe import Markup, escape

from rqmail.insight.standing import Sentence
from rqmail.insight.turns import called
from rqmail.web.context import application
from rqmail.web.pages import words
from rqmail.web.pages.findings import ADVICE, FOUND, FOUND_COUNTED
from rqmail.web.pages.language import counted, gettext_noop, say, say_count, write_number
from rqmail.web.pages.writing import write_duration, write_moment, write_wait

#: What each sentence says, by its code; its values fill it in.
WHY: Final[dict[str, str]] = {
    "nothing": gettext_noop("Nothing is waiting."),
    "later": gettext_noop("Nothing is due. The next of %(later)s goes out %(next_on)s."),
    "redis": gettext_noop("%(waiting)s: Redis is away, so nothing can be handed to the workers."),
    "paused": gettext_noop("%(waiting)s: the mailbox is paused %(until)s (%(reason)s)."),
    "stopped": gettext_noop("%(waiting)s: %(because)s"),
    "day": gettext_noop(
        "%(waiting)s: the day's budget is used up (%(used)s of %(limit)s recipients);"
        " next free place: %(next_on)s.%(done)s"
    ),
    "tenant-full": gettext_noop(
        "%(waiting)s: the whole Entra tenant has reached %(limit)s external recipients, as many as a day allows;"
        " next free place: %(next_on)s. Mail to recipients inside the tenant goes."
    ),
    "onmicrosoft-full": gettext_noop(
        "%(waiting)s: all senders on onmicrosoft.com of the Entra tenant have reached %(limit)s external recipients,"
        " as many as a day allows; next free place: %(next_on)s. Mail to recipients inside the tenant goes."
    ),
    "minute": gettext_noop(
        "%(waiting)s: the minute's budget is used up (%(used)s of %(limit)s calls);"
        " next free place: %(next_on)s.%(done)s"
    ),
    "upload": gettext_noop(
        "%(waiting)s: large files wait, as %(megabytes)s MB were uploaded in five minutes;"
        " some of them count no more %(next_on)s. Mail without them goes."
    ),
    "put-off": gettext_noop("%(waiting)s: put off (%(reasons)s); the next try is %(next_on)s."),
    "going": gettext_noop("%(waiting)s: %(in_hand)s are being sent now, %(due)s are next.%(done)s"),
    "no-tick": gettext_noop("no dispatch has run today; is rqmail scheduler running?"),
    "old-tick": gettext_noop("the last dispatch was %(age)s ago; is rqmail scheduler running?"),
    "no-scheduler": gettext_noop(
        "nothing keeps the ticks coming: mail waits until somebody asks for it; start rqmail scheduler."
    ),
    "no-worker": gettext_noop("no worker listens for mail; start rqmail worker."),
    "redis-refuses": gettext_noop("Redis refuses us: %(detail)s"),
    "redis-away": gettext_noop("Redis cannot be reached: %(detail)s"),
    "sender-paused-by": gettext_noop("%(name)s is paused by %(by)s %(until)s (%(reason)s); %(waiting)s."),
    "bouncing": gettext_noop(
        "%(percent)s of the mail of %(name)s came back in 7 days (%(bounced)s of %(recipients)s recipients):"
        " others begin to refuse it; clean its lists."
    ),
    "sender-paused": gettext_noop("%(name)s is paused %(until)s (%(reason)s); %(waiting)s."),
}

#: What is said of a number of messages, by the sentence's code.
COUNTED: Final = {
    "undecided": counted(
        "1 message may or may not have been sent and needs a decision.",
        "%(number)s messages may or may not have been sent and need a decision.",
    ),
    "senders-bouncing": counted(
        "Of 1 sender so much mail came back in 7 days that others begin to refuse it.",
        "Of %(number)s senders so much mail came back in 7 days that others begin to refuse it.",
    ),
    "failed": counted("1 message could not be sent.", "%(number)s messages could not be sent."),
}

#: Every sentence that there are words for.
_TEXTS: Final = WHY | FOUND | ADVICE
_COUNTED: Final = COUNTED | FOUND_COUNTED

_WAIT = counted("1 message waits", "%(number)s messages wait")

#: Which sentences begin with how many messages wait.
_BEGIN_WITH_A_NUMBER = frozenset(
    {"redis", "paused", "stopped", "day", "minute", "tenant-full", "onmicrosoft-full", "upload", "put-off", "going"}
)


def install(pages: Blueprint) -> None:
    """Let every template write the sentences of the overview and the doctor."""
    pages.add_app_template_filter(write_sentence, "sentence")


def write_sentence(sentence: Sentence) -> Markup:
    """Say a sentence in the viewer's language, its moments in elements of their own; an unknown one as it is.

    It begins with a capital, unless it begins with a name or a number.
    """
    said = _said(sentence)
    return said if _TEXTS.get(sentence.code, "").startswith("%") else said[:1].upper() + said[1:]


def has_words(sentence: Sentence) -> bool:
    """Say whether a sentence is said in the viewer's language; one that is not is in English."""
    return sentence.code in _TEXTS or sentence.code in _COUNTED


def _said(sentence: Sentence) -> Markup:
    if sentence.code in _COUNTED:
        return say_count(_COUNTED[sentence.code], sentence.values["number"])
    if sentence.code == "senders-held":
        held = sentence.values
        waiting = say_count(words.MESSAGES_WAITING, held["waiting"])
        reason = held["reason"] or say("no reason given")
        if reason == called(held["cause"]):
            reason = say(words.TURNS[held["cause"]], provider=say("the provider"))
        return say_count(words.SENDERS_HELD, held["number"], reason=reason, waiting=waiting)
    if sentence.code not in _TEXTS:
        return escape(str(sentence))
    values = dict(sentence.values)
    if "until" in values:
        until = values["until"]
        values["until"] = (
            say("until it is resumed") if until is None else say("until %(moment)s", moment=write_moment(until))
        )
        values["reason"] = values["reason"] or say("no reason given")
    filled = {name: _filled(name, value) for name, value in values.items()}
    if "done_on" in filled:
        done = say(" All of it is through about %(moment)s.", moment=filled["done_on"])
        filled["done"] = done if values["done_on"] is not None else ""
    if "waiting" in values:
        texts = _WAIT if sentence.code in _BEGIN_WITH_A_NUMBER else words.MESSAGES_WAITING
        filled["waiting"] = say_count(texts, values["waiting"])
    return say(_TEXTS[sentence.code], **filled)


def _filled(name: str, value: Any) -> Any:
    if name == "next_on" and (value is None or value <= application().clock()):
        return say("now")
    if name == "percent":
        return f"{write_number(value)} %"
    match value:
        case None | datetime():
            return write_moment(value)
        case timedelta():
            return write_duration(value)
        case Sentence():
            return _said(value)
        case bool():
            return value
        case int():
            return write_number(value)
        case Mapping():
            reasons = [f"{write_number(number)} {write_wait(reason)}" for reason, number in sorted(value.items())]
            return ", ".join(reasons) or say("for a later try")
        case _:
            return value
