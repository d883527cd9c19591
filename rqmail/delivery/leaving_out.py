"""Who was suppressed after a message came in is left out of it directly before it is sent."""

from __future__ import annotations

from datetime import datetime

from rqmail.models import recipients
from rqmail.models.contents import Contents
from rqmail.models.message import Message
from rqmail.models.suppression import standing, told


class NobodyLeftError(Exception):
    """Everybody the message was for is suppressed."""


def without_suppressed(message: Message, contents: Contents | None, now: datetime) -> Contents | None:
    """Answer what is to be sent without whom it may not go to, and write down who that is.

    One look into an index. Raises ``NobodyLeftError``, in words, when nobody is left.
    """
    if contents is None or not contents.recipients:
        return contents
    if message.attempts:  # somebody may have let an address get mail again since
        recipients.take_back_in(message.id)
    found = standing(to.address for to in contents.recipients)
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
