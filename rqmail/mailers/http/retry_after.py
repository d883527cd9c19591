"""How long a provider asks to be left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: A longer wait is taken for a mistake: the caller's own growing back-off then decides.
LONGEST_SECONDS = 86_400.0


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Answer the seconds that a ``Retry-After`` asks for, given as seconds or as a date.

    ``None`` when there is nothing to go by: missing, unreadable, zero, in the past, or more than a day.
    """
    if not value:
        return None
    text = value.strip()
    try:
        return believable(float(text))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return believable((moment - now).total_seconds())
    except (ValueError, OverflowError, TypeError):  # a year or a time zone beyond what a date can hold
        return None


def believable(seconds: float) -> float | None:
    """Answer a wait as it is, ``None`` for one that is over, longer than a day, or no number."""
    return seconds if 0 < seconds <= LONGEST_SECONDS else None
