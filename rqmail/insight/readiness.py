"""Readiness: whether mail that is handed in now will go out, and if not, what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rqmail.clock import Clock
from rqmail.models.base import AWAY_ERRORS
from rqmail.models.migrate import pending
from rqmail.queues import MAIL, MAIL_HIGH, MailQueues
from rqmail.ratelimit.limiter import MailRateLimiter

#: A tick that is this many polls old is overdue.
_POLLS = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that mail needs on its way out; ``text`` says what is wrong with it, and is empty when nothing is."""

    name: str
    ok: bool
    text: str = ""


class Readiness:
    """Looks at the database, Redis, the limiter, the ticks and the workers; changes nothing and never raises."""

    def __init__(self, limiter: MailRateLimiter, queues: MailQueues, clock: Clock, *, poll_seconds: int) -> None:
        self._limiter = limiter
        self._queues = queues
        self._clock = clock
        self._overdue = timedelta(seconds=_POLLS * poll_seconds)

    def checks(self) -> list[Check]:
        """Look at everything once; what cannot be looked at because Redis is away is said to be so."""
        redis = self._redis()
        if not redis.ok:
            unknown = "cannot be told while Redis is away"
            return [self._database(), redis, Check("ticks", False, unknown), Check("workers", False, unknown)]
        return [self._database(), redis, self._ticks(), self._workers()]

    def _database(self) -> Check:
        try:
            missing = pending()
        except AWAY_ERRORS as error:
            return Check("database", False, f"cannot be reached ({type(error).__name__})")
        if missing:
            return Check("database", False, "is not up to date; run `rqmail init`")
        return Check("database", True)

    def _redis(self) -> Check:
        health = self._limiter.health()
        if health.state == "ok":
            return Check("redis", True)
        # Not the details: this is answered to anyone, and they name hosts.
        return Check("redis", False, f"is {health.state}; `rqmail doctor` says more")

    def _ticks(self) -> Check:
        last = self._queues.last_tick()
        if last is None:
            return Check("ticks", False, "there was no dispatch yet; is `rqmail scheduler` running?")
        age = self._clock() - last
        if age > self._overdue:
            return Check("ticks", False, f"the last dispatch was {age.total_seconds():.0f} s ago")
        return Check("ticks", True)

    def _workers(self) -> Check:
        if any({MAIL, MAIL_HIGH} & set(worker.queues) for worker in self._queues.workers()):
            return Check("workers", True)
        return Check("workers", False, "no worker listens for mail; start `rqmail worker`")
