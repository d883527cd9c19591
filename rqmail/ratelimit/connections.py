"""The connections over which decisions go: kept at hand, because fetching one costs as much as the question."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from redis import ConnectionPool, Redis
from redis.connection import Connection
from redis.exceptions import ConnectionError

from rqmail.clock import monotonic

#: A connection idle for longer is checked by its pool before it is used again, in seconds.
_TRUSTED_SECONDS = 1.0
#: A pool with fewer than this many connections was limited on purpose: none of them is held back.
_AMPLE = 64


class KeptConnectionLostError(ConnectionError):
    """A connection died while it was kept; another may lead to another server, or another run of it."""


class Connections:
    """As many connections as threads ask at once, taken from a pool and given back when they fail or idle."""

    def __init__(self, redis: Redis) -> None:
        self._pool = redis.connection_pool
        self._keeps = type(self._pool) is ConnectionPool and self._pool.max_connections >= _AMPLE
        self._idle: deque[tuple[Connection, float]] = deque()
        self._pid = os.getpid()

    def ask(self, command: bytes) -> Any:
        """Send a packed command and answer its reply; ``KeptConnectionLostError`` says that a kept one had died."""
        if self._pid != os.getpid():
            self._idle, self._pid = deque(), os.getpid()  # the parent's sockets are the parent's
        try:
            connection, since = self._idle.pop()
        except IndexError:
            return self._ask_over(self._pool.get_connection(), command)
        if monotonic() - since > _TRUSTED_SECONDS:
            self._pool.release(connection)
            return self._ask_over(self._pool.get_connection(), command)
        try:
            return self._ask_over(connection, command)
        except ConnectionError as error:
            raise KeptConnectionLostError(str(error)) from error

    def _ask_over(self, connection: Connection, command: bytes) -> Any:
        try:
            connection.send_packed_command((command,))  # type: ignore[no-untyped-call]
            reply = connection.read_response()
        except BaseException:
            self._pool.release(connection)
            raise
        if self._keeps:
            self._idle.append((connection, monotonic()))
        else:
            self._pool.release(connection)
        return reply
