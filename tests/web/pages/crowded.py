"""A large installation: 133 mailboxes, 5,150 messages, 40 of them undecided, as a busy organisation has them."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial

from rqmail.bootstrap import Application
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message, MessageStatus
from support.clock import MovableClock
from web.pages.populated import SUBJECTS, Day

MAILBOXES = 133
MESSAGES = 5150
UNDECIDED = 40

_TOWNS = ("aalst", "breda", "delft", "ede", "gouda", "hoorn", "leiden", "meppel", "venlo", "zwolle")
_KINDS = ("info", "nieuws", "facturen", "afspraken", "bestuur", "noreply", "winkel", "school", "sport", "receptie")
_LOST = (
    (504, "UnknownError", "HTTP 504 UnknownError: no answer in time; the mail may have been accepted."),
    (None, None, "The connection was lost after the request had been sent; it may have been accepted."),
)


def crowd(application: Application, clock: MovableClock) -> dict[str, str]:
    """Fill the tables and Redis; answer the ids of a few messages by what they are there to show."""
    with pooled_connection():
        return Crowd(application, clock, 2800).pass_by()


class Crowd(Day):
    """A day like :class:`Day`'s in an organisation with many mailboxes, and an hour in which answers were lost."""

    def plan_administration(self) -> None:
        """Plan the mailboxes of :class:`Day` and a hundred more; some are paused, some nearly used up."""
        super().plan_administration()
        for number in range(MAILBOXES - 6):
            key = f"{_KINDS[number % 10]}-{_TOWNS[number // 13]}-{number:03}"
            address = f"{key}@{_TOWNS[number // 13]}.example"
            self.at(partial(self.app.mailboxes.add, key, address), days=18, minutes=-number)
            if number % 9 == 0:
                self.at(partial(self.use, address, 1, 40 * number), hours=3)
            if number % 31 == 0:
                pause = self.app.mailboxes.pause
                reason = ("Feestdag", "Verkeerde lijst")[number % 2]
                self.at(partial(pause, key, reason=reason, duration=timedelta(hours=5)), minutes=50 + number / 10)

    def plan_messages(self) -> None:
        """Plan what :class:`Day` does, campaigns of many mailboxes, and thirty-seven more lost answers."""
        super().plan_messages()
        for number in range(0, MAILBOXES - 6, 3):
            key = f"{_KINDS[number % 10]}-{_TOWNS[number // 13]}-{number:03}"
            self.at(partial(self.campaign, key, SUBJECTS[number % 6], 36), minutes=30 - number / 10)
        for number in range(UNDECIDED - 3):
            key, (status, code, why) = ("facturen" if number % 6 else "info"), _LOST[number % 4 == 3]
            self.at(partial(self.lose, key, status, code, why), minutes=72, seconds=-number / 3)
        self.at(self.top_up, seconds=1)

    def lose(self, key: str, status: int | None, code: str | None, why: str) -> None:
        """Lose the answer to one mail of a mailbox."""
        self.undecided(status, code, why)
        address = f"{key}@dewerkplaats.nl"
        Message.update(sender=f"mailbox:{key}", mailbox_key=address).where(
            Message.id == self.shown["unknown"]
        ).execute()

    def top_up(self) -> None:
        """Hand in as many more as are missing, for tomorrow."""
        missing = MESSAGES - Message.select().count()
        self.campaign("info-aalst-000", SUBJECTS[2], missing, later=timedelta(days=1))
        assert Message.select().where(Message.status == MessageStatus.UNKNOWN.value).count() == UNDECIDED
        assert json.dumps(self.shown)
