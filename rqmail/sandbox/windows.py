"""Sums over the last so many seconds, and the highest each one ever was."""

from __future__ import annotations

from collections import deque


class RollingWindow:
    """The sum of what was added in the last ``seconds``, and its ``peak``."""

    __slots__ = ("_entries", "_seconds", "peak", "total")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._entries: deque[tuple[float, int]] = deque()
        self.total = 0
        self.peak = 0

    def at(self, now: float) -> int:
        """Answer the sum over the window that ends ``now``; an entry leaves exactly ``seconds`` after it came."""
        oldest = now - self._seconds
        while self._entries and self._entries[0][0] <= oldest:
            self.total -= self._entries.popleft()[1]
        return self.total

    def add(self, now: float, amount: int) -> int:
        """Add ``amount`` and answer the new sum."""
        self.at(now)
        self._entries.append((now, amount))
        self.total += amount
        self.peak = max(self.peak, self.total)
        return self.total
