"""When a backlog will be through: the limiter's own windows are let pass over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rqmail.clock import from_epoch_ms, to_epoch_ms
from rqmail.insight.simulation import Budgets, Lot, done_at_ms
from rqmail.insight.standing import pause_end
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.pacing import Pacing
from rqmail.ratelimit.usage import Held

#: Nobody is told an end that is a hundred years away.
_FARTHEST_MS = 100 * 365 * 86_400_000

_ALMOST_A_MS = timedelta(microseconds=999)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for one mailbox's budget: messages, and their recipients together."""

    messages: int = 0
    recipients: int = 0

    def plus(self, messages: int, recipients: int) -> Backlog:
        """Answer this backlog and more."""
        return Backlog(self.messages + messages, self.recipients + recipients)

    def without(self, messages: int) -> Backlog:
        """Answer this backlog without so many messages, as large as the others are."""
        left = max(0, self.messages - messages)
        return Backlog(left, -(-self.recipients * left // max(1, self.messages)))

    @property
    def lots(self) -> tuple[Lot, ...]:
        """As many messages with as many recipients together, one as large as the other."""
        if not self.messages:
            return ()
        each, larger = divmod(max(self.recipients, self.messages), self.messages)
        return Lot(self.messages - larger, each), Lot(larger, each + 1)


def budgets_of(
    limits: RateLimits, held: Held, *, rolling: bool, pacing: Pacing, paused_until: datetime | None
) -> Budgets:
    """Say what a mailbox may send, as a simulation takes it."""
    return Budgets(
        limits.per_minute,
        limits.recipients_per_day,
        rolling=rolling,
        pacing=pacing,
        calls=held.calls,
        recipients=held.recipients,
        paused_until_ms=0 if paused_until is None else to_epoch_ms(paused_until),
        upload_bytes=limits.upload_bytes,
        uploads=held.uploads,
    )


def has_end(budgets: Budgets, now: datetime) -> bool:
    """Say whether the mailbox sends at all: now, or once a pause ends that was not made to last."""
    return pause_end(from_epoch_ms(budgets.paused_until_ms), now) is not None


def done_on(budgets: Budgets, lots: Iterable[Lot], now: datetime) -> datetime | None:
    """Answer when the last message of ``lots`` leaves, ``now`` for none.

    ``None`` while nobody can tell: a pause has no end, a message is larger than a whole day, or it takes 100 years.
    """
    lots = [lot for lot in lots if lot.messages]
    if not lots:
        return now
    if not has_end(budgets, now):
        return None
    now_ms = to_epoch_ms(now + _ALMOST_A_MS)  # rounded up, as what counts of a mailbox is told
    end = done_at_ms(budgets, lots, now_ms)
    if end is None or end - now_ms > _FARTHEST_MS:
        return None
    if max(budgets.paused_until_ms, *(lot.not_before_ms for lot in lots)) > now_ms:
        return from_epoch_ms(end)
    return now + timedelta(milliseconds=end - now_ms)
