"""How a minute's places are given out: evenly over the minute, or all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from redis import Redis, RedisError

#: ``even``: over the minute, once more mail waits than the minute admits; ``burst``: as soon as there is a place.
Pacing: TypeAlias = Literal["even", "burst"]

_KEY = "mail:rate:pace:"
_MINUTE_MS = 60_000

#: A minute's places are given out in this part of it. The rest makes up for ticks that come late: a place that is used
#: a second after it came free is a second late in every minute that follows.
_SHARE = 0.8

#: A place that was due and could not be used is made up for when it is no later than this.
_LATE_MS = 2_000


def gap_ms(per_minute: int) -> float:
    """Answer how many milliseconds lie between two places of a minute that is given out evenly."""
    return _SHARE * _MINUTE_MS / per_minute


@dataclass(slots=True)
class Pace:
    """When one mailbox's next place is given out, in ms since 1970, and how far the places lie apart."""

    now_ms: int
    next_ms: float
    gap_ms: float
    changed: bool = False

    @property
    def places(self) -> int:
        """How many places are to be given out by now."""
        return max(0, int((self.now_ms - self.next_ms) // self.gap_ms) + 1)

    def take(self, places: int) -> None:
        """Give out some of them."""
        self.next_ms += places * self.gap_ms
        self.changed = self.changed or places > 0


class Pacer:
    """Keeps, for every mailbox with more mail than its minute admits, when the next place is given out.

    Only the dispatcher asks, so one process at a time. While Redis fails nothing is paced.
    """

    def __init__(self, redis: Redis, *, poll_seconds: int) -> None:
        self._redis = redis
        self._poll_ms = 1000 * poll_seconds

    def paces(self, per_minute: Mapping[str, int], now_ms: int, last_tick_ms: int | None) -> dict[str, Pace]:
        """Answer each mailbox's pace; places that were due while no tick came are given out now."""
        if not per_minute:
            return {}
        try:
            kept = self._redis.mget([_KEY + key for key in per_minute])
        except RedisError:
            return {}
        looked_ms = now_ms if last_tick_ms is None else min(last_tick_ms, now_ms)
        return {
            key: Pace(now_ms, self._next(value, now_ms, looked_ms, gap_ms(limit)), gap_ms(limit))
            for (key, limit), value in zip(per_minute.items(), kept, strict=True)
        }

    def keep(self, paces: Mapping[str, Pace]) -> None:
        """Remember the paces that changed, each for a minute after its next place."""
        changed = {key: pace for key, pace in paces.items() if pace.changed}
        if changed:
            pipe = self._redis.pipeline(transaction=False)
            for key, pace in changed.items():
                pipe.set(_KEY + key, f"{pace.next_ms:.0f}", px=_MINUTE_MS + max(0, round(pace.next_ms - pace.now_ms)))
            with suppress(RedisError):  # then it begins anew at the next tick
                pipe.execute()

    def _next(self, kept: bytes | str | None, now_ms: int, looked_ms: int, gap: float) -> float:
        fresh = now_ms - max(0.0, self._poll_ms - gap)  # what comes until the next tick goes with the first
        try:
            next_ms = float(kept or "")
        except ValueError:
            return fresh
        if not now_ms - _MINUTE_MS <= next_ms <= now_ms + max(_MINUTE_MS, 2 * gap):
            return fresh
        return max(next_ms, looked_ms - gap - _LATE_MS)


def tighter(pacings: Iterable[Pacing]) -> Pacing:
    """Answer how a mailbox's minute is given out when several senders share it: evenly, if one of them wants that."""
    return "even" if "even" in pacings else "burst"
