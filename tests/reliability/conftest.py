"""One sandbox for all these tests, and a whole system around each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reliability.running import Running, RunningClock, environment_for
from rqmail import bootstrap
from rqmail.models.base import db
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.server import Sandbox
from rqmail.settings import load_settings
from support.databases import BoundDatabase, bound


@pytest.fixture(scope="session")
def sandbox_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(data_dir=tmp_path_factory.mktemp("sandbox")) as sandbox:
        yield sandbox


@pytest.fixture
def running(
    sandbox_server: Sandbox, sqlite_database: BoundDatabase, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    """A system on SQLite with one mailbox, ``mailbox:news``."""
    control = SandboxControl(sandbox_server.authority, sandbox_server.ca_file)
    control.reset()
    environment = environment_for(sandbox_server, sqlite_database.url, redis_url)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    clock = RunningClock()
    app = bootstrap.build(load_settings(), clock)
    monkeypatch.setattr(bootstrap, "_process", (os.getpid(), app))  # the one that jobs find
    db.obj.close_all()
    with bound(sqlite_database.kind, sqlite_database.url):
        system = Running(app, clock, sandbox_server, control, environment)
        system.mailbox("news")
        yield system
    app.limiter.close()
    app.redis.close()
