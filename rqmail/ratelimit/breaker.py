"""What keeps a dead Redis from costing a timeout for every message."""

from __future__ import annotations

from collections.abc import Callable

from rqmail.clock import monotonic

#: How long a server that did not answer is left alone, in seconds: at first, and after several tries in vain.
FIRST_OPEN_SECONDS = 0.25
OPEN_SECONDS = 3.0


class Breaker:
    """Open for a moment after a failure; then one caller tries while the others still hold back.

    Each try in vain doubles the time until the next, up to ``open_seconds``. Shared by threads without a lock, so that
    a fork can never inherit a held one: at worst two callers try at once.
    """

    def __init__(self, clock: Callable[[], float] = monotonic, open_seconds: float = OPEN_SECONDS) -> None:
        self._clock = clock
        self._longest = open_seconds
        self._seconds = FIRST_OPEN_SECONDS
        self._open_until: float | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no request is held back."""
        return self._open_until is None

    def admits(self) -> bool:
        """Say whether to try; the first to be told so after a failure is the only one until the next try is due."""
        if self._open_until is None:
            return True
        now = self._clock()
        if now < self._open_until:
            return False
        self._seconds = min(self._longest, 2 * self._seconds)
        self._open_until = now + self._seconds
        return True

    def failed(self) -> None:
        """Hold everyone back from now on; calls that fail together are one failure."""
        if self._open_until is None:
            self._seconds = min(self._longest, FIRST_OPEN_SECONDS)
        self._open_until = self._clock() + self._seconds

    def succeeded(self) -> None:
        """Let everyone through again."""
        self._open_until = None
