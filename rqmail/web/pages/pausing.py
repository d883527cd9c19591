"""The form that pauses a sender: why, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rqmail.errors import InvalidInputError
from rqmail.web.pages import typed
from rqmail.web.pages.language import say

#: How long a pause may be asked to last on a page, by the name of the choice; ``None`` is until it is resumed.
DURATIONS: Final[dict[str, timedelta | None]] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "4h": timedelta(hours=4),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "resumed": None,
}


def pause_as_typed(key: str, pause: Callable[[str, str, timedelta | None], object]) -> typed.Wrong:
    """Pause the sender as the form says; answer what is wrong with the form, and nothing when it was done."""
    wrong: typed.Wrong = {}
    duration = typed.text("duration")
    if duration not in DURATIONS:
        wrong["duration"] = say("One of those in the list.")
        return wrong
    try:
        pause(key, typed.text("reason"), DURATIONS[duration])
    except InvalidInputError as error:
        typed.note(wrong, error)
    return wrong
