"""What the providers said about the senders when each was last checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import SenderCheck


@dataclass(frozen=True, slots=True)
class CheckView:
    """What the provider said about a sender, and when; ``None`` is what could not be told."""

    checked_on: datetime
    outcome: Literal["answered", "not-known", "away", "unconfigured"]
    exists: bool | None
    may_send: bool | None
    may_read: bool | None
    may_write: bool | None
    problem: str | None

    @property
    def level(self) -> Literal["ok", "warning", "error"]:
        """How bad it is: an error is a sender that cannot send."""
        if self.exists is False or self.may_send is False:
            return "error"
        return "ok" if self.outcome == "answered" and self.may_read is not False else "warning"


def last_check(sender: str) -> CheckView | None:
    """Answer what was said when the sender was last checked; ``None`` if it never was."""
    with pooled_connection():
        row = SenderCheck.get_or_none(SenderCheck.sender == sender)
    return None if row is None else view_of(row)


def last_checks() -> dict[str, CheckView]:
    """Answer the last check of every sender that was ever checked."""
    with pooled_connection():
        return {row.sender: view_of(row) for row in SenderCheck.select()}


def view_of(row: SenderCheck) -> CheckView:
    """Read what the table keeps of a check."""
    return CheckView(
        row.checked_on, row.outcome, row.exists_there, row.may_send, row.may_read, row.may_write, row.problem
    )
