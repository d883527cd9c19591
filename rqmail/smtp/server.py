"""The process: listens, keeps its certificate fresh, and ends when no mail is half taken."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rqmail.administration.attempts import Attempts
from rqmail.bootstrap import Application
from rqmail.errors import SettingsError
from rqmail.logs import event_log
from rqmail.settings import is_loopback
from rqmail.smtp.certificate import Certificate
from rqmail.smtp.connection import Connection, Guests
from rqmail.smtp.door import Door

log = event_log(__name__)

_THREADS = 8
_LOOK_SECONDS = 5.0

#: Connections in their handshake are not counted yet: they may not last.
_HANDSHAKE_SECONDS = 10.0

#: How long a client that is in the middle of a mail has to finish it when the process is to end.
_PATIENCE_SECONDS = 30.0


def serve(
    application: Application,
    host: str,
    port: int,
    *,
    implicit_tls: bool = False,
    on_listening: Callable[[int], None] = lambda _port: None,
) -> None:
    """Take mail in until the process is told to end; ``on_listening`` hears the port.

    Without a certificate only loopback and the networks of ``RQMAIL_SMTP_TRUSTED`` can sign in: where that leaves
    nobody, ``SettingsError``.
    """
    settings = application.settings
    file = settings.smtp_certificate
    certificate = None if file is None else Certificate(file, settings.smtp_key)
    if certificate is None and implicit_tls:
        raise SettingsError("RQMAIL_SMTP_CERTIFICATE", None, "a PEM file, for TLS from the first byte on")
    if certificate is None and not settings.smtp_trusted and not is_loopback(host):
        raise SettingsError(
            "RQMAIL_SMTP_CERTIFICATE", None, f"a PEM file, before listening on {host}: tokens are taken over TLS only"
        )
    token = application.access.ensure_token(host)
    if token is not None:
        print(f"No token is configured; until this process ends, the password is {token}")  # noqa: T201
    # The library logs every command at these levels, with the addresses in it.
    logging.getLogger("mail").setLevel(logging.CRITICAL)
    application.timetable.keep_in_background()
    try:
        asyncio.run(
            _until_a_signal(Server(application, certificate, implicit_tls=implicit_tls), host, port, on_listening)
        )
    finally:
        application.timetable.stop_keeping()


async def _until_a_signal(server: Server, host: str, port: int, on_listening: Callable[[int], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    await server.run(host, port, on_listening)


class Server:
    """Listens, and answers every client by one door."""

    def __init__(self, application: Application, certificate: Certificate | None, *, implicit_tls: bool) -> None:
        self._application = application
        self._certificate = certificate
        self._implicit_tls = implicit_tls
        self._guests = Guests(application.settings.smtp_trusted or ())
        self._stopping = asyncio.Event()
        self._connections: set[Connection] = set()

    def stop(self) -> None:
        """Let :meth:`run` end, from within its loop."""
        self._stopping.set()

    async def run(self, host: str, port: int, on_listening: Callable[[int], None]) -> None:
        """Take mail in until :meth:`stop`; ``on_listening`` hears the port."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(_THREADS, "smtp") as threads:
            application = self._application
            door = Door(
                application.access,
                Attempts(application.settings.redis_url, ca_file=application.settings.redis_authority),
                application.submission,
                application.intake,
                threads,
            )
            own_tls = self._certificate.context if self._certificate and self._implicit_tls else None
            server = await loop.create_server(
                lambda: self._connection(door, loop),
                host,
                port,
                ssl=own_tls,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if own_tls else None,
            )
            listening = server.sockets[0].getsockname()[1]
            log.info("smtp.listening", host=host, port=listening)
            on_listening(listening)
            await self._until_told()
            server.close()
            await self._let_finish()
        log.info("smtp.ended")

    def _connection(self, door: Door, loop: asyncio.AbstractEventLoop) -> Connection:
        offered = self._certificate.context if self._certificate and not self._implicit_tls else None
        connection = Connection(
            door,
            self._guests,
            max_bytes=self._application.settings.max_message_bytes,
            hostname=socket.gethostname(),
            tls_context=offered,
            loop=loop,
        )
        self._connections = {one for one in self._connections if one.transport is not None}
        self._connections.add(connection)
        return connection

    async def _until_told(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), _LOOK_SECONDS)
            except TimeoutError:
                if self._certificate is not None:
                    self._certificate.look()

    async def _let_finish(self) -> None:
        """Hang up on whoever is between two mails; wait for the others, but not for ever."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while open_ones := [one for one in self._connections if one.transport is not None]:
            patient = asyncio.get_running_loop().time() < deadline
            for one in open_ones:
                if one.transport is None:
                    continue
                if not patient:
                    one.hang_up()
                elif not one.is_taking_a_mail:
                    one.transport.close()
            await asyncio.sleep(0.05)
