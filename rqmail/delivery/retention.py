"""Forgetting: messages that came to their end long ago are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from rqmail.clock import Clock
from rqmail.content_store import ContentStore
from rqmail.models.message import Message

#: Rows deleted in one transaction: others wait no longer than that takes.
_AT_ONCE = 1_000

#: The windows of 24 hours are refilled from the table: whatever they may still need is kept, with a margin for clocks.
KEPT_FOR_THE_WINDOWS = timedelta(hours=26)


@dataclass(frozen=True, slots=True)
class Retention:
    """Deletes messages in a final state, with content, recipients and files, once their end is long enough ago.

    What ended within the last 26 hours is kept whatever is asked for: a mailbox's windows still count it.
    """

    clock: Clock
    contents: ContentStore

    def count(self, older_than: timedelta) -> int:
        """Say how many messages :meth:`purge` would delete."""
        return Message.count_final(self._before(older_than))

    def purge(self, older_than: timedelta) -> int:
        """Delete them, a part at a time, and answer how many they were."""
        before = self._before(older_than)
        total = 0
        while True:
            deleted = Message.delete_final(before, limit=_AT_ONCE)
            total += deleted
            if deleted < _AT_ONCE:
                break
        self.purge_files()
        return total

    def purge_files(self) -> int:
        """Delete the bytes of files that no message refers to any more, and answer how many files they were of."""
        return self.contents.purge()

    def _before(self, older_than: timedelta) -> datetime:
        return self.clock() - max(older_than, KEPT_FOR_THE_WINDOWS)
