"""What keeps a dead Redis from costing a timeout for every message."""

from __future__ import annotations

from collections.abc import Callable

from rqmail.clock import monotonic

#: How long a server that did not answer is left alone, in seconds.
OPEN_SECONDS = 3.0


class Breaker:
    """Open for a few seconds after a failure; then one caller tries while the others still hold back.

    Shared by threads without a lock, so that a fork can never inherit a held one: at worst two callers try at once.
    """

    def __init__(self, clock: Callable[[], float] = monotonic, open_seconds: float = OPEN_SECONDS) -> None:
        self._clock = clock
        self._open_seconds = open_seconds
        self._open_until: float | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nobody is held back."""
        return self._open_until is None

    def admits(self) -> bool:
        """Say whether to try; the first to be told so after a failure is the only one for another few seconds."""
        if self._open_until is None:
            return True
        now = self._clock()
        if now < self._open_until:
            return False
        self._open_until = now + self._open_seconds
        return True

    def failed(self) -> None:
        """Hold everyone back from now on."""
        self._open_until = self._clock() + self._open_seconds

    def succeeded(self) -> None:
        """Let everyone through again."""
        self._open_until = None
