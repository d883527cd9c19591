"""The SMTP door on a real database and a real Valkey, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.models.base import db
from rqmail.settings import Settings
from rqmail.smtp.certificate import Certificate
from rqmail.smtp.server import Server
from support.clock import MovableClock
from support.databases import BoundDatabase


@dataclass
class Listening:
    """A door that is open: where, and the password for it."""

    app: Application
    server: Server
    port: int
    token: str
    loop: asyncio.AbstractEventLoop

    def stop(self) -> None:
        """Tell the process to end, and wait until it takes nobody in any more."""
        told = asyncio.run_coroutine_threadsafe(self._stop(), self.loop)
        told.result(10)

    async def _stop(self) -> None:
        self.server.stop()

    @contextmanager
    def client(self, *, sign_in: bool = True) -> Iterator[smtplib.SMTP]:
        with smtplib.SMTP("127.0.0.1", self.port, timeout=10, local_hostname="client.example") as client:
            if sign_in:
                client.login("anyone", self.token)
            yield client


@pytest.fixture(params=["sqlite"])
def application(request: pytest.FixtureRequest, redis_url: str, clock: MovableClock) -> Iterator[Application]:
    """An application with two mailboxes; a test that stores in an unusual way asks for PostgreSQL too."""
    database: BoundDatabase = request.getfixturevalue(f"{request.param}_database")
    settings = Settings(_env_file=None, database_url=database.url, redis_url=redis_url, max_message_bytes=300_000)
    application = bootstrap.build(settings, clock)
    for key in ("invoices", "news"):
        application.mailboxes.add(key, f"{key}@contoso.example")
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


@pytest.fixture
def opened(application: Application) -> Iterator[Callable[..., Listening]]:
    """Open a door; it is closed after the test."""
    logging.getLogger("mail").setLevel(logging.CRITICAL)
    open_ones: list[tuple[Server, asyncio.AbstractEventLoop, threading.Thread]] = []

    def opened(certificate: Certificate | None = None, *, implicit_tls: bool = False) -> Listening:
        ready = threading.Event()
        found: list[int] = []
        loop = asyncio.new_event_loop()
        server = Server(application, certificate, implicit_tls=implicit_tls)

        def listening(port: int) -> None:
            found.append(port)
            ready.set()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(server.run("127.0.0.1", 0, listening))

        thread = threading.Thread(target=run)
        thread.start()
        assert ready.wait(10)
        open_ones.append((server, loop, thread))
        token = application.access.create("erp", ["send"], by="test")[1]
        return Listening(application, server, found[0], token, loop)

    yield opened
    for server, loop, thread in open_ones:
        with suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(server.stop)
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def door(opened: Callable[..., Listening]) -> Listening:
    """A door without TLS, on loopback."""
    return opened()


@dataclass
class Authority:
    """Who signs certificates, what trusts it, and a file with one of them."""

    ca: trustme.CA
    file: Path

    def issue(self) -> None:
        """Write a new certificate with its key into the file."""
        self.ca.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(str(self.file))

    @property
    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A certificate for loopback, in a file."""
    authority = Authority(trustme.CA(), tmp_path / "mail.pem")
    authority.issue()
    return authority
