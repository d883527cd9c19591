"""Connections to the public Internet alone: a name is resolved once, and only an address that was checked is used.

A name that leads elsewhere the second time it is asked for (DNS rebinding) gains nothing: it is not asked again.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from urllib3 import HTTPConnectionPool

from rqmail.mailers.http.pool import PlainConnection, PlainPool, TlsConnection, TlsPool
from rqmail.text.networks import is_public


class PrivateAddressError(OSError):
    """A name leads to no address of the public Internet; nothing was connected to."""


def connect_publicly(
    host: str, port: int, timeout: float | None, options: list[tuple[int, int, int | bytes]] | None
) -> socket.socket:
    """Connect to the first address of ``host`` that is public and answers."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    public = [one for one in found if is_public(str(one[4][0]))]
    if not public:
        raise PrivateAddressError("the name leads to no public address")
    last: OSError | None = None
    for family, kind, protocol, _, place in public:
        connection = socket.socket(family, kind, protocol)
        try:
            for option in options or ():
                connection.setsockopt(*option)
            connection.settimeout(timeout)
            connection.connect(place)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    assert last is not None  # noqa: S101 - there was at least one
    raise last


class _PublicPlain(PlainConnection):
    def _new_conn(self) -> socket.socket:
        return _connected(self)


class _PublicTls(TlsConnection):
    def _new_conn(self) -> socket.socket:
        return _connected(self)


def _connected(connection: _PublicPlain | _PublicTls) -> socket.socket:
    timeout = connection.timeout
    seconds = float(timeout) if isinstance(timeout, int | float) else None
    return connect_publicly(connection.host, connection.port, seconds, list(connection.socket_options or ()))


class _PublicPlainPool(PlainPool):
    ConnectionCls = _PublicPlain


class _PublicTlsPool(TlsPool):
    ConnectionCls = _PublicTls


#: As :class:`~rqmail.mailers.http.pool.PoolAdapter` takes them.
PUBLIC_POOLS: Mapping[str, type[HTTPConnectionPool]] = {"http": _PublicPlainPool, "https": _PublicTlsPool}
