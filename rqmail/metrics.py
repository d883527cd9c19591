"""What happened, counted over all processes: kept in memory while a job runs, then added up in Redis."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from dataclasses import dataclass
from datetime import datetime, timedelta

from redis import Redis, RedisError

from rqmail.clock import Clock, utc_now

#: One hash: ``event|label`` counts, ``event|label|le=S`` is a bucket of its histogram, ``event|label|sum`` seconds.
KEY = "rqmail:metrics"

#: The same events without their labels, one hash for each minute in which they were added up; ``denied|reason|mailbox``
#: tells there how often the limiter denied which mailbox.
MINUTE_KEY = "rqmail:metrics:minute:"
_MINUTE = timedelta(minutes=1)
_MINUTES_KEPT = timedelta(hours=2)

#: Upper bounds of the latency buckets, in seconds.
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, float("inf"))


@dataclass(frozen=True, slots=True)
class Sample:
    """One counted thing: how often, and for timed ones the seconds in total and the buckets (cumulative)."""

    event: str
    label: str
    count: int
    seconds: float = 0.0
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Minute:
    """What happened in the minute that began at ``at``."""

    at: datetime
    sent: int
    deferred: int
    failed: int


class Metrics:
    """Counts events by label; counting is cheap and thread-safe, and losing Redis loses numbers, never mail."""

    def __init__(self, redis: Redis, clock: Clock = utc_now) -> None:
        self._redis = redis
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Tally[str] = Tally()
        self._seconds: Tally[str] = Tally()
        self._denied: Tally[str] = Tally()

    def denied(self, mailbox_key: str, reason: str) -> None:
        """Count that the limiter denied a mailbox a place."""
        with self._lock:
            self._counts[f"denied|{reason}"] += 1
            self._denied[f"denied|{reason}|{mailbox_key}"] += 1

    def count(self, event: str, label: str, seconds: float | None = None, *, times: int = 1) -> None:
        """Count an ``event`` under ``label``; with ``seconds`` also in its latency histogram."""
        name = f"{event}|{label}"
        with self._lock:
            self._counts[name] += times
            if seconds is not None:
                self._seconds[f"{name}|sum"] += seconds  # type: ignore[assignment]  # a tally of floats
                bucket = next(bound for bound in BUCKETS if seconds <= bound)
                self._counts[f"{name}|le={bound_text(bucket)}"] += 1

    def flush(self) -> None:
        """Add what was counted to the shared totals, in one round trip; while Redis is away it is kept for the next."""
        with self._lock:
            counts, self._counts = self._counts, Tally()
            seconds, self._seconds = self._seconds, Tally()
            denied, self._denied = self._denied, Tally()
        if not counts:
            return
        pipe = self._redis.pipeline()
        for name, number in counts.items():
            pipe.hincrby(KEY, name, number)
        for name, number in seconds.items():
            pipe.hincrbyfloat(KEY, name, float(number))
        this_minute = _minute_key(self._clock())
        for name, number in counts.items():
            if name.count("|") == 1:
                pipe.hincrby(this_minute, name.partition("|")[0], number)
        for name, number in denied.items():
            pipe.hincrby(this_minute, name, number)
        pipe.expire(this_minute, _MINUTES_KEPT)
        try:
            pipe.execute()
        except RedisError:
            with self._lock:
                self._counts += counts
                self._seconds += seconds
                self._denied += denied

    def samples(self) -> list[Sample]:
        """Read the shared totals, sorted by event and label."""
        raw = {key.decode(): value for key, value in self._redis.hgetall(KEY).items()}  # type: ignore[union-attr]
        found = []
        for name in sorted(field for field in raw if field.count("|") == 1):
            event, label = name.split("|")
            running, buckets = 0, []
            for bound in BUCKETS:
                running += int(raw.get(f"{name}|le={bound_text(bound)}", 0))
                buckets.append(running)
            timed = f"{name}|sum" in raw
            seconds = float(raw.get(f"{name}|sum", 0))
            found.append(Sample(event, label, int(raw[name]), seconds, tuple(buckets) if timed else ()))
        return found

    def last_hour(self) -> list[Minute]:
        """Answer the last sixty minutes, oldest first; the one that is running is the last."""
        minutes = _minutes_of_an_hour(self._clock())
        pipe = self._redis.pipeline(transaction=False)
        for minute in minutes:
            pipe.hmget(_minute_key(minute), "sent", "deferred", "failed")
        found = pipe.execute()
        return [
            Minute(minute, *(int(count or 0) for count in counts))
            for minute, counts in zip(minutes, found, strict=True)
        ]

    def denied_last_hour(self) -> dict[str, dict[str, int]] | None:
        """Answer how often the limiter denied each mailbox in the last sixty minutes, by reason.

        ``None`` while Redis cannot tell; asked in one round trip, however many mailboxes there are.
        """
        try:
            return self._denied_last_hour()
        except RedisError:
            return None

    def _denied_last_hour(self) -> dict[str, dict[str, int]]:
        pipe = self._redis.pipeline(transaction=False)
        for minute in _minutes_of_an_hour(self._clock()):
            pipe.hgetall(_minute_key(minute))
        found: dict[str, dict[str, int]] = {}
        for fields in pipe.execute():
            for name, number in fields.items():
                event, _, rest = name.decode().partition("|")
                if event == "denied" and rest:
                    reason, _, mailbox_key = rest.partition("|")
                    reasons = found.setdefault(mailbox_key, {})
                    reasons[reason] = reasons.get(reason, 0) + int(number)
        return found


def _minutes_of_an_hour(now: datetime) -> list[datetime]:
    this_minute = now.replace(second=0, microsecond=0)
    return [this_minute - ago * _MINUTE for ago in range(59, -1, -1)]


def _minute_key(moment: datetime) -> str:
    return f"{MINUTE_KEY}{int(moment.timestamp()) // 60}"


def bound_text(bound: float) -> str:
    """Write a bucket's bound as Prometheus does."""
    return "+Inf" if bound == float("inf") else f"{bound:g}"
