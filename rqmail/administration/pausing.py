"""A person's pause of a sender: checked, and told to the limiter, which holds every process to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from rqmail.clock import Clock
from rqmail.errors import InvalidInputError
from rqmail.ratelimit.limiter import MailRateLimiter

#: A pause without an end: far enough away that nobody waits for it, near enough for every date column.
INDEFINITELY = timedelta(days=3650)

_MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class Pausing:
    """Pauses and resumes whatever is counted under one budget key; the sender's row is its caller's to write."""

    clock: Clock
    limiter: MailRateLimiter

    def asked(self, reason: str, duration: timedelta | None) -> tuple[datetime, str]:
        """Answer until when and why, without ``duration`` until it is resumed; raises ``InvalidInputError``."""
        if not isinstance(reason, str) or not reason.strip() or len(reason) > _MAX_REASON:
            raise InvalidInputError("reason", reason, f"a reason of 1 to {_MAX_REASON} characters")
        length = INDEFINITELY if duration is None else duration
        if not timedelta(seconds=1) <= length <= INDEFINITELY:
            raise InvalidInputError("duration", str(duration), f"1 second to {INDEFINITELY.days} days")
        return self.clock() + length, reason.strip()

    def begin(self, budget_key: str, until: datetime, reason: str, by: str | None) -> None:
        """Have the limiter pause; an earlier pause is replaced, also one that would have been longer."""
        self.limiter.resume(budget_key)
        self.keep(budget_key, until, reason, by)

    def keep(self, budget_key: str, until: datetime, reason: str, by: str | None) -> None:
        """Tell the limiter of a pause that stands in the table; nothing when it is over."""
        milliseconds = (until - self.clock()) // timedelta(milliseconds=1)
        if milliseconds > 0:
            self.limiter.pause(budget_key, milliseconds, reason, cause="paused-by-person", by=by)

    def end(self, budget_key: str) -> None:
        """End a pause, a person's or one that the provider's answers brought about."""
        self.limiter.resume(budget_key)
