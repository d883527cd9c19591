"""What people type into forms, turned into values; and what to tell them when it cannot be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from http import HTTPStatus
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask import render_template, request
from markupsafe import Markup

from rqmail.administration.fields import MAX_LIMIT
from rqmail.errors import InvalidInputError
from rqmail.web.pages import field_words

_WHOLE = re.compile(r"[0-9]{1,12}")

#: For each field that was wrong, what to say beside it.
Wrong = dict[str, str | Markup]


def text(name: str) -> str:
    """Answer what was typed, without the space around it."""
    return request.form.get(name, "").strip()


def whole(field: str, wrong: Wrong) -> int | None:
    """Answer a whole number of digits alone, ``None`` for an empty field; anything else is noted in ``wrong``.

    Whether the number itself is allowed is for the use case to say: it does so for every caller.
    """
    return whole_of(field, text(field), wrong)


def whole_of(field: str, typed: str, wrong: Wrong) -> int | None:
    """Answer what was typed, as :func:`whole` does, where it came another way than in a form that was posted."""
    if not typed:
        return None
    if _WHOLE.fullmatch(typed):
        return int(typed)
    note(wrong, InvalidInputError(field, typed, ""))
    return None


def day(value: str, zone: str = "", *, after: int = 0) -> datetime | None:
    """Answer when the day begins that is so many days ``after`` this one; ``None`` for what is no date.

    Days are those of ``zone``, which the viewer's browser names; without one, or with an unknown one, those of UTC.
    """
    try:
        return datetime.combine(date.fromisoformat(value) + timedelta(days=after), time(), _zone(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def moment(value: str, zone: str = "") -> datetime | None:
    """Answer the moment of a date and time of ``zone``, as :func:`day` does; ``None`` for what is none."""
    try:
        return datetime.fromisoformat(value).replace(tzinfo=_zone(zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def today(now: datetime, zone: str) -> str:
    """Answer the date it is in ``zone``."""
    return now.astimezone(_zone(zone)).date().isoformat()


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def note(wrong: Wrong, error: InvalidInputError) -> None:
    """Write beside the field what it should have been; the first complaint about a field stays."""
    said = field_words.WRONG.get(error.field, error.allowed)
    if error.value is None:
        said = field_words.MISSING.get(error.field, said)
    elif type(error.value) is int and error.value > MAX_LIMIT:
        said = field_words.TOO_LARGE.get(error.field, said)
    wrong.setdefault(error.field, str(said))


def again(template: str, wrong: Mapping[str, object], **values: object) -> tuple[str, int]:
    """Show the page with the form as it was typed, and what is wrong beside each field."""
    return render_template(template, wrong=wrong, typed=request.form, **values), HTTPStatus.BAD_REQUEST
