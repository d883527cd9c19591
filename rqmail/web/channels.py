"""Connections of the HTTP server: whoever is slow to say what they want gives up their place to those who are not."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from waitress.channel import HTTPChannel
from waitress.server import create_server

#: How long a connection may be silent, and how long a request may take to arrive beyond what its size needs.
SECONDS_TO_ASK = 20

#: The slowest upload that is waited for.
_BYTES_PER_SECOND = 10_000

#: Connections at a time, where the process may open so many files.
_MAX_PLACES = 1000


now: Callable[[], float] = time.time

#: Above this waitress would stop listening. It counts what it listens on too, and what is just being closed.
SPARE = 50


def connection_limit() -> int:
    """Answer waitress's limit for this process: what else it opens may be as many files as its connections are."""
    return _places() + SPARE


def _places() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_PLACES if soft == resource.RLIM_INFINITY else max(50, min(_MAX_PLACES, soft // 2))


class Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """One connection. A request that trickles in counts as silence, however often a byte of it arrives.

    The server closes what has been silent for :data:`SECONDS_TO_ASK`. When all places are taken, the connection that
    has been silent for longest while nothing is being answered on it is closed at once.
    """

    def __init__(self, server: Any, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:
        self._began = now()
        self._received = 0
        if len(server._map) >= adj.connection_limit - SPARE:
            _make_room(server)
        super().__init__(server, sock, addr, adj, map=map)

    def received(self, data: bytes) -> bool:
        """Take in what arrived, and count from when its request began."""
        if self.request is None:
            self._began, self._received = now(), 0
        self._received += len(data)
        more: bool = super().received(data)
        if self.request is not None:
            self.last_activity = min(now(), self._began + self._received / _BYTES_PER_SECOND)
        return more


def _make_room(server: Any) -> None:
    silent = [
        one for one in server._map.values() if isinstance(one, HTTPChannel) and not one.requests and not one.will_close
    ]
    if silent:
        min(silent, key=lambda one: one.last_activity).will_close = True


def create(application: Any, **options: Any) -> Any:
    """Make waitress's server, with connections of this kind on every address that it listens on."""
    channels: dict[int, Any] = {}
    server = create_server(application, map=channels, **options)
    for listening in channels.values():
        if hasattr(listening, "active_channels"):
            listening.channel_class = Channel
    return server
