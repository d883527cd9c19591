"""How long a provider asks to be left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: What a longer wait is taken for: a mistake. The caller's own growing back-off reaches this far by itself.
LONGEST_SECONDS = 3600.0


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Answer the seconds that a ``Retry-After`` asks for, given as seconds or as a date.

    ``None`` when there is nothing to go by: missing, unreadable, zero, in the past, or more than an hour.
    """
    if not value:
        return None
    text = value.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - now).total_seconds()
    return seconds if 0 < seconds <= LONGEST_SECONDS else None
