"""Pooled connections that tell a failed connect from a failed answer.

Four things are added to what requests and urllib3 do: whatever fails before the request is written (name, connect,
proxy, TLS handshake) surfaces as ``NewConnectionError``; the read timeout bounds the whole answer, not each read of it;
a connection that was idle for long is not trusted with a request that must not be repeated; and the caller may have
something done on the connected socket directly before the first byte of a request is written.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException
from socket import SocketIO, socket
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidURL
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from rqmail.clock import monotonic

if TYPE_CHECKING:
    from urllib3._base_connection import BaseHTTPConnection

#: Idle connections older than this are closed instead of reused: front doors drop them silently after a minute or more.
MAX_IDLE_SECONDS = 30.0


_before_writing: ContextVar[Callable[[], None] | None] = ContextVar("before_writing", default=None)


@contextmanager
def called_before_writing(action: Callable[[], None] | None) -> Iterator[None]:
    """Have ``action`` called directly before the first byte of each request that this thread sends inside."""
    token = _before_writing.set(action)
    try:
        yield
    finally:
        _before_writing.reset(token)


def _about_to_write(connection: _PlainConnection | _TlsConnection) -> None:
    if connection.sock is None:
        connection.connect()
    action = _before_writing.get()
    if action is not None:
        action()


class _DeadlineReader(io.RawIOBase):
    """Reads a socket, each read with only what is left of one timeout for all of them."""

    def __init__(self, sock: socket, seconds: float) -> None:
        self._sock = sock
        self._raw: SocketIO = sock.makefile("rb", buffering=0)
        self._deadline = monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineSocket:
    """The one method of a socket that an answer uses."""

    def __init__(self, sock: socket) -> None:
        self._sock = sock

    def makefile(self, mode: str, *_: Any, **__: Any) -> io.BufferedReader | SocketIO:
        seconds = self._sock.gettimeout()
        if seconds is None:
            return self._sock.makefile("rb")
        return io.BufferedReader(_DeadlineReader(self._sock, seconds))


class _Answer(http.client.HTTPResponse):
    """An answer that must be complete within the read timeout, however slowly the server drips it."""

    def __init__(self, sock: socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_DeadlineSocket(sock), *args, **kwargs)  # type: ignore[arg-type]


def _connect(connection: _PlainConnection | _TlsConnection, connect: Callable[[], None]) -> None:
    """Connect within the connect timeout, all addresses and the handshake together, or raise what says so."""
    began = monotonic()
    try:
        connect()
    except ConnectTimeoutError:
        raise
    except (OSError, HTTPError, HTTPException, ValueError) as error:
        raise NewConnectionError(connection, f"no usable connection: {error}") from error
    if connection.timeout is not None and monotonic() - began > connection.timeout:
        connection.close()
        raise ConnectTimeoutError(connection, "connected too late")


class _PlainConnection(HTTPConnection):
    response_class = _Answer
    parked_at = 0.0

    def connect(self) -> None:
        _connect(self, super().connect)

    def endheaders(self, *args: Any, **kwargs: Any) -> None:
        _about_to_write(self)
        super().endheaders(*args, **kwargs)


class _TlsConnection(HTTPSConnection):
    response_class = _Answer
    parked_at = 0.0

    def connect(self) -> None:
        _connect(self, super().connect)

    def endheaders(self, *args: Any, **kwargs: Any) -> None:
        _about_to_write(self)
        super().endheaders(*args, **kwargs)


def _fresh(connection: BaseHTTPConnection) -> BaseHTTPConnection:
    if not connection.is_closed and monotonic() - getattr(connection, "parked_at", 0.0) > MAX_IDLE_SECONDS:
        connection.close()
    return connection


def _park(connection: BaseHTTPConnection | None) -> None:
    if isinstance(connection, _PlainConnection | _TlsConnection):
        connection.parked_at = monotonic()


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection

    def _get_conn(self, timeout: float | None = None) -> BaseHTTPConnection:
        return _fresh(super()._get_conn(timeout))

    def _put_conn(self, conn: BaseHTTPConnection | None) -> None:
        _park(conn)
        super()._put_conn(conn)


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection

    def _get_conn(self, timeout: float | None = None) -> BaseHTTPConnection:
        return _fresh(super()._get_conn(timeout))

    def _put_conn(self, conn: BaseHTTPConnection | None) -> None:
        _park(conn)
        super()._put_conn(conn)


_POOLS = {"http": _PlainPool, "https": _TlsPool}


class PoolAdapter(HTTPAdapter):
    """A requests adapter over these pools; it never sends a request twice."""

    def __init__(self, *, connections: int) -> None:
        super().__init__(pool_connections=16, pool_maxsize=connections, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the manager that hands out pools per host."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Answer the manager that hands out pools behind a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        if isinstance(manager, ProxyManager):  # a SOCKS manager has pools of its own kind
            manager.pool_classes_by_scheme = _POOLS
        return manager

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Point the pool at its trusted certificates; a missing file is found before anything is sent."""
        try:
            super().cert_verify(*args, **kwargs)  # type: ignore[no-untyped-call]
        except OSError as error:
            raise InvalidURL(str(error)) from error
