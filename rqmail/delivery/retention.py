"""Forgetting: messages that came to their end long ago are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from rqmail.clock import Clock
from rqmail.models.message import Message

#: Rows deleted in one transaction: others wait no longer than that takes.
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Retention:
    """Deletes messages in a final state, with their content and recipients, once they are old enough."""

    clock: Clock

    def count(self, older_than: timedelta) -> int:
        """Say how many messages :meth:`purge` would delete."""
        return Message.count_final(self.clock() - older_than)

    def purge(self, older_than: timedelta) -> int:
        """Delete them, a part at a time, and answer how many they were."""
        before = self.clock() - older_than
        total = 0
        while True:
            deleted = Message.delete_final(before, limit=_AT_ONCE)
            total += deleted
            if deleted < _AT_ONCE:
                return total
