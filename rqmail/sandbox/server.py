"""The sandbox as a server: start it, stop it, or serve until told to end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from rqmail.clock import Clock, utc_now
from rqmail.sandbox.application import build_application
from rqmail.sandbox.certificate import load_or_create_certificate
from rqmail.sandbox.directory import SandboxDirectory
from rqmail.sandbox.limits import SandboxLimits
from rqmail.sandbox.state import SandboxState

_BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 120.0
_LOOPBACK = ("127.0.0.1", "localhost")
_EVERYWHERE = ("0.0.0.0", "")  # noqa: S104 - a comparison


class Sandbox:
    """A local Microsoft Graph and Entra over HTTPS; a context manager that runs in a thread of its own.

    ``data_dir`` keeps the certificate authority between runs; without it everything is thrown away at the end.
    ``latency_ms`` is how long every Graph call takes, ``sent_items_delay_seconds`` how late copies show in Sent Items.
    Mail to an address of ``bounces`` comes back to its sender's Inbox as a report with that status; to one of
    ``traces`` it has that status in the tenant's message trace.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        data_dir: Path | str | None = None,
        latency_ms: float = 0,
        limits: SandboxLimits | None = None,
        directory: SandboxDirectory | None = None,
        sent_items_delay_seconds: float = 0,
        bounces: Mapping[str, str] | None = None,
        traces: Mapping[str, str] | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.directory = directory or SandboxDirectory()
        self._state = SandboxState(
            clock=clock,
            limits=limits or SandboxLimits(),
            directory=self.directory,
            latency_ms=latency_ms,
            sent_items_delay_seconds=sent_items_delay_seconds,
            bounces=bounces,
            traces=traces,
        )
        self._host = host
        self._port = port
        self._temporary = tempfile.TemporaryDirectory(prefix="rqmail-sandbox-") if data_dir is None else None
        self._certificate = load_or_create_certificate(Path(data_dir or self._temporary_name()), host)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def authority(self) -> str:
        """The address without a path: what stands for ``https://login.microsoftonline.com``."""
        return self._state.origin

    @property
    def base_url(self) -> str:
        """What stands for ``https://graph.microsoft.com/v1.0``."""
        return f"{self._state.origin}/v1.0"

    @property
    def ca_file(self) -> Path:
        """The certificate authority a client has to trust, in PEM form."""
        return self._certificate.ca_file

    def start(self) -> Self:
        """Serve in a thread; returns once connections are taken, raises ``OSError`` when the port is taken."""
        if self._thread is not None:
            raise RuntimeError("the sandbox is running")
        sockets = self._listen()
        started: Future[None] = Future()

        def run() -> None:
            try:
                asyncio.run(self._serve(sockets, lambda: started.set_result(None)))
            except Exception as problem:
                if started.done():
                    raise
                started.set_exception(problem)

        self._thread = threading.Thread(target=run, name="rqmail-sandbox", daemon=True)
        self._thread.start()
        try:
            started.result()
        except Exception:
            self._thread = None
            for listening in sockets:
                listening.close()
            raise
        return self

    def stop(self) -> None:
        """End the thread, cutting what is still in flight; harmless when nothing runs."""
        if self._thread is not None and self._loop is not None and self._end is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
            self._thread = None
        self._clean()

    def serve_forever(self, on_ready: Callable[[], None] | None = None) -> None:
        """Serve in this thread until SIGINT or SIGTERM; ``on_ready`` is called once connections are taken."""
        sockets = self._listen()

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._stop_serving)
            await self._serve(sockets, on_ready or (lambda: None))

        try:
            asyncio.run(serve())
        finally:
            self._clean()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _serve(self, sockets: list[socket.socket], on_ready: Callable[[], None]) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(
            build_application(self._state),
            access_log=None,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            shutdown_timeout=0.1,
            handler_cancellation=False,
        )
        await runner.setup()
        try:
            context = self._certificate.server_context()
            for listening in sockets:
                await web.SockSite(runner, listening, ssl_context=context, backlog=_BACKLOG).start()
            on_ready()
            await self._end.wait()
        finally:
            idle = [connection.transport for connection in runner.server.connections] if runner.server else []
            await runner.cleanup()
            for transport in idle:
                if isinstance(transport, asyncio.Transport):
                    # A TLS goodbye would wait for the client. Python before 3.11.4 cannot abort what is gone by now.
                    with contextlib.suppress(AttributeError):
                        transport.abort()
            await asyncio.sleep(0)

    def _stop_serving(self) -> None:
        if self._end is not None:
            self._end.set()

    def _listen(self) -> list[socket.socket]:
        """Bind before anything else starts, so that the port is known and a taken one is an error at once.

        On loopback both address families are taken, for clients differ in which one ``localhost`` means to them.
        """
        first = socket.create_server((self._host, self._port), backlog=_BACKLOG, reuse_port=False)
        sockets = [first]
        port: int = first.getsockname()[1]
        if self._host in _LOOPBACK and socket.has_dualstack_ipv6():
            try:
                sockets.append(socket.create_server(("::1", port), family=socket.AF_INET6, backlog=_BACKLOG))
            except OSError as problem:
                if problem.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    first.close()
                    raise
        name = "localhost" if self._host in (*_LOOPBACK, *_EVERYWHERE) else self._host
        self._state.origin = f"https://{name}:{port}"
        return sockets

    def _temporary_name(self) -> str:
        return self._temporary.name if self._temporary is not None else "."

    def _clean(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
