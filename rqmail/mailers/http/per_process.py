"""A value that a forked child makes anew instead of sharing it with its parent."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Builds its value at first use in each process: sockets and locks must not be shared over a fork.

    Takes no lock, since a fork could inherit that one locked; of threads that come first at the same instant each may
    build a value, and all are answered the same one.
    """

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._by_pid: dict[int, T] = {}

    def get(self) -> T:
        """Answer this process's own value."""
        pid = os.getpid()
        try:
            return self._by_pid[pid]
        except KeyError:
            return self._by_pid.setdefault(pid, self._build())
