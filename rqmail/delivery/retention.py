"""Forgetting: messages that came to their end long ago are deleted, and what was written down about such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rqmail.clock import Clock
from rqmail.content_store import ContentStore
from rqmail.models import progress
from rqmail.models.access import AuditEntry, IdempotencyKey
from rqmail.models.importing import count_forgettable, delete_forgettable
from rqmail.models.message import Message

#: Rows deleted in one transaction: others wait no longer than that takes.
_AT_ONCE = 1_000

#: The windows of 24 hours are refilled from the table: whatever they may still need is kept, with a margin for clocks.
KEPT_FOR_THE_WINDOWS = timedelta(hours=26)


@dataclass(frozen=True, slots=True)
class Purged:
    """How many messages, records of imports, campaigns and entries of the audit are deleted."""

    messages: int = 0
    imports: int = 0
    audit_entries: int = 0
    campaigns: int = 0


@dataclass(frozen=True, slots=True)
class Retention:
    """Deletes messages in a final state, with content, recipients and files, once their end is long enough ago.

    What ended within the last 26 hours is kept whatever is asked for: a mailbox's windows still count it. The record of
    an import goes when it ended so long ago too, and with the last of its messages; a campaign takes all of its own
    with it. ``messages_for`` and ``audit_for`` are how long :meth:`run` keeps messages and what was changed by whom;
    ``None`` is for ever.
    """

    clock: Clock
    contents: ContentStore
    messages_for: timedelta | None = None
    audit_for: timedelta | None = None

    def run(self, *, dry_run: bool = False) -> Purged:
        """Delete what is kept long enough, or with ``dry_run`` count it."""
        of_messages = Purged()
        if self.messages_for is not None:
            of_messages = self.count(self.messages_for) if dry_run else self.purge(self.messages_for)
        elif not dry_run:
            self.contents.purge()  # of intakes that came to nothing
        if not dry_run:
            IdempotencyKey.forget(self.clock())
        entries = 0
        if self.audit_for is not None:
            before = self.clock() - self.audit_for
            entries = (
                AuditEntry.count_before(before)
                if dry_run
                else _all(lambda: AuditEntry.delete_before(before, limit=_AT_ONCE))
            )
        return replace(of_messages, audit_entries=entries)

    def count(self, older_than: timedelta) -> Purged:
        """Say what :meth:`purge` would delete."""
        before = self._before(older_than)
        return Purged(Message.count_final(before), count_forgettable(before), campaigns=progress.count_ended(before))

    def purge(self, older_than: timedelta) -> Purged:
        """Delete messages and records of imports, a part at a time, and the files no message refers to any more."""
        before = self._before(older_than)
        purged = Purged(
            _all(lambda: Message.delete_final(before, limit=_AT_ONCE)),
            _all(lambda: delete_forgettable(before, limit=_AT_ONCE)),
            campaigns=progress.count_ended(before),
        )
        while progress.forget_ended(before, limit=_AT_ONCE):
            pass
        self.contents.purge()
        return purged

    def _before(self, older_than: timedelta) -> datetime:
        return self.clock() - max(older_than, KEPT_FOR_THE_WINDOWS)


def _all(delete_some: Callable[[], int]) -> int:
    total = deleted = delete_some()
    while deleted >= _AT_ONCE:
        deleted = delete_some()
        total += deleted
    return total
