"""Readiness: whether mail that is handed in now will go out, and if not, what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass

from rqmail.clock import Clock
from rqmail.insight.explaining import stopped
from rqmail.insight.standing import Machinery, Sentence
from rqmail.models.base import AWAY_ERRORS
from rqmail.models.migrate import pending
from rqmail.queue_state import QueueState
from rqmail.ratelimit.limiter import MailRateLimiter

_UNTOLD = "cannot be told while Redis is away"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that mail needs on its way out; ``text`` says what is wrong with it, and is empty when nothing is."""

    name: str
    ok: bool
    text: str = ""


class Readiness:
    """Looks at the database, Redis, the limiter, the ticks and the workers; changes nothing and never raises."""

    def __init__(self, limiter: MailRateLimiter, queues: QueueState, clock: Clock) -> None:
        self._limiter = limiter
        self._queues = queues
        self._clock = clock

    def checks(self) -> list[Check]:
        """Look at everything once; what cannot be looked at because Redis is away is said to be so."""
        machinery = machinery_of(self._limiter, self._queues)
        if machinery.redis != "ok":
            # Not the details: this is answered to anyone, and they name hosts.
            redis = Check("redis", False, f"is {machinery.redis}; `rqmail doctor` says more")
            return [_database(), redis, Check("ticks", False, _UNTOLD), Check("workers", False, _UNTOLD)]
        still = {"workers" if one.code == "no-worker" else "ticks": one for one in stopped(machinery, self._clock())}
        return [_database(), Check("redis", True), _check("ticks", still), _check("workers", still)]


def machinery_of(limiter: MailRateLimiter, queues: QueueState) -> Machinery:
    """Look at what carries the mail, once."""
    health = limiter.health()
    if health.state != "ok":
        return Machinery(health.state, health.text, {}, (), None, None, queues.late_after)
    return Machinery(
        "ok",
        "",
        queues.depth(),
        tuple(queues.workers()),
        queues.last_tick(),
        queues.dispatch_due_on(),
        queues.late_after,
    )


def _database() -> Check:
    try:
        missing = pending()
    except AWAY_ERRORS as error:
        return Check("database", False, f"cannot be reached ({type(error).__name__})")
    return Check("database", False, "is not up to date; run `rqmail init`") if missing else Check("database", True)


def _check(name: str, still: dict[str, Sentence]) -> Check:
    return Check(name, False, str(still[name])) if name in still else Check(name, True)
