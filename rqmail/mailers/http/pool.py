"""Pooled connections that tell a failed connect from a failed answer.

Four things are added to what requests and urllib3 do: whatever fails before the request is written (name, connect,
proxy, TLS handshake) surfaces as ``NewConnectionError``; the read timeout bounds the whole answer, not each read of it;
a connection that was idle for long is not trusted with a request that must not be repeated; and the caller may have
something done on the connected socket directly before the first byte of a request is written.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException
from socket import SocketIO, socket
from typing import TYPE_CHECKING, Any, NamedTuple

from requests import PreparedRequest
from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidURL
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationValueError, NewConnectionError

from rqmail.clock import monotonic

if TYPE_CHECKING:
    from urllib3._base_connection import BaseHTTPConnection

#: Idle connections older than this are closed instead of reused: front doors drop them silently after a minute or more.
MAX_IDLE_SECONDS = 30.0


class _Writing(NamedTuple):
    """What holds for a request: what is called before its first byte, and how many seconds writing it may take."""

    before: Callable[[], None] | None
    seconds: float


_writing: ContextVar[_Writing | None] = ContextVar("writing", default=None)


@contextmanager
def written_within(seconds: float, before: Callable[[], None] | None) -> Iterator[None]:
    """Bound the writing of each request that this thread sends inside, and call ``before`` ahead of its first byte."""
    token = _writing.set(_Writing(before, seconds))
    try:
        yield
    finally:
        _writing.reset(token)


def _about_to_write(connection: PlainConnection | TlsConnection) -> None:
    if connection.sock is None:
        connection.connect()
    writing = _writing.get()
    if writing is None:
        return
    if connection.sock is not None:
        connection.sock.settimeout(writing.seconds)
    if writing.before is not None:
        writing.before()


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


def _connect(connection: PlainConnection | TlsConnection, connect: Callable[[], None]) -> None:
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


class PlainConnection(HTTPConnection):
    """A connection without TLS."""

    response_class = _Answer
    parked_at = 0.0

    def connect(self) -> None:
        """Connect, or say that nothing was written."""
        _connect(self, super().connect)

    def endheaders(self, *args: Any, **kwargs: Any) -> None:
        """Write the first bytes of a request."""
        _about_to_write(self)
        super().endheaders(*args, **kwargs)


class TlsConnection(HTTPSConnection):
    """A connection with TLS."""

    response_class = _Answer
    parked_at = 0.0

    def connect(self) -> None:
        """Connect, or say that nothing was written."""
        _connect(self, super().connect)

    def endheaders(self, *args: Any, **kwargs: Any) -> None:
        """Write the first bytes of a request."""
        _about_to_write(self)
        super().endheaders(*args, **kwargs)


def _fresh(connection: BaseHTTPConnection) -> BaseHTTPConnection:
    if not connection.is_closed and monotonic() - getattr(connection, "parked_at", 0.0) > MAX_IDLE_SECONDS:
        connection.close()
    return connection


def _park(connection: BaseHTTPConnection | None) -> None:
    if isinstance(connection, PlainConnection | TlsConnection):
        connection.parked_at = monotonic()


class PlainPool(HTTPConnectionPool):
    """Connections without TLS to one host."""

    ConnectionCls = PlainConnection

    def _get_conn(self, timeout: float | None = None) -> BaseHTTPConnection:
        return _fresh(super()._get_conn(timeout))

    def _put_conn(self, conn: BaseHTTPConnection | None) -> None:
        _park(conn)
        super()._put_conn(conn)


class TlsPool(HTTPSConnectionPool):
    """Connections with TLS to one host."""

    ConnectionCls = TlsConnection

    def _get_conn(self, timeout: float | None = None) -> BaseHTTPConnection:
        return _fresh(super()._get_conn(timeout))

    def _put_conn(self, conn: BaseHTTPConnection | None) -> None:
        _park(conn)
        super()._put_conn(conn)


#: The pools of each scheme.
POOLS: Mapping[str, type[HTTPConnectionPool]] = {"http": PlainPool, "https": TlsPool}


#: No request is sent twice, whatever became of it.
NEVER_AGAIN = Retry(0, read=False)

#: Hosts whose pools are kept: a few providers'.
_MOST_HOSTS = 16


class PoolAdapter(HTTPAdapter):
    """A requests adapter over these pools, asked for the pool of a host: finding it costs more than using it."""

    def __init__(self, *, connections: int, pools: Mapping[str, type[HTTPConnectionPool]] = POOLS) -> None:
        self._pools = dict(pools)
        super().__init__(pool_connections=_MOST_HOSTS, pool_maxsize=connections, max_retries=NEVER_AGAIN)
        self._ways: dict[str, tuple[HTTPConnectionPool, bool]] = {}

    def way_to(self, host: str, verify: bool | str, proxies: dict[str, str]) -> tuple[HTTPConnectionPool, bool]:
        """Answer the pool of ``host`` (``https://NAME``), and whether it is asked for whole URLs, as proxies are.

        It is found once, and kept for as long as there are not many newer ones. Raises what requests raises when a
        certificate file is missing or a proxy is none.
        """
        way = self._ways.get(host)
        if way is not None:
            return way
        request = PreparedRequest()
        request.method, request.url, request.headers = "GET", f"{host}/", CaseInsensitiveDict()
        try:
            pool: Any = self.get_connection_with_tls_context(request, verify, proxies=proxies)
        except LocationValueError as error:
            raise InvalidURL(str(error)) from error
        self.cert_verify(pool, request.url, verify, None)
        whole_url = self.request_url(request, proxies) != request.path_url
        if len(self._ways) >= _MOST_HOSTS:
            self._ways.clear()
        self._ways[host] = pool, whole_url
        return pool, whole_url

    def close(self) -> None:
        """Close all pools."""
        super().close()
        self._ways.clear()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the manager that hands out pools per host."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Answer the manager that hands out pools behind a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        if isinstance(manager, ProxyManager):  # a SOCKS manager has pools of its own kind
            manager.pool_classes_by_scheme = self._pools
        return manager

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Point the pool at its trusted certificates; a missing file is found before anything is sent."""
        try:
            super().cert_verify(*args, **kwargs)  # type: ignore[no-untyped-call]
        except OSError as error:
            raise InvalidURL(str(error)) from error
