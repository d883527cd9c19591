"""Who was suppressed after a message came in is left out of it directly before it is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rqmail.models import recipients
from rqmail.models.contents import Contents
from rqmail.models.message import Message
from rqmail.models.suppression import Standing, standing, told

#: So long a look for several messages holds: who unsubscribed is left out within the second.
_HOLDS = timedelta(seconds=1)


class NobodyLeftError(Exception):
    """Everybody the message was for is suppressed."""


@dataclass(frozen=True, slots=True)
class Look:
    """What stood against the recipients of some messages at a moment."""

    at: datetime
    found: Standing

    def holds(self, now: datetime) -> bool:
        """Say whether the look is young enough to go by."""
        return timedelta() <= now - self.at < _HOLDS


def look(contents: Iterable[Contents], now: datetime) -> Look:
    """Look up what stands against all recipients of these contents, with one statement."""
    return Look(now, standing(to.address for one in contents for to in one.recipients))


def without_suppressed(
    message: Message, contents: Contents | None, now: datetime, looked: Look | None = None
) -> Contents | None:
    """Answer what is to be sent without whom it may not go to, and write down who that is.

    ``looked`` is a look that took in this message's recipients; where there is none, or it is too old, one look into an
    index. Raises ``NobodyLeftError``, in words, when nobody is left.
    """
    if contents is None or not contents.recipients:
        return contents
    if message.attempts:  # somebody may have let an address get mail again since
        recipients.take_back_in(message.id)
    found = (looked if looked and looked.holds(now) else look([contents], now)).found
    if not found:
        return contents
    kept, left_out = found.split(
        contents.recipients, message.sender, ignore_unsubscribed=contents.extras.ignore_unsubscribed
    )
    recipients.leave_out(message.id, left_out, now)
    if not kept:
        raise NobodyLeftError(f"Nothing was sent: every recipient is suppressed: {told(left_out)}.")
    contents.recipients = list(kept)
    return contents
