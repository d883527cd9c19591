"""Sent Items is kept from filling up: copies of mail that was settled long ago are removed, where that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from rqmail.clock import Clock, monotonic
from rqmail.delivery.senders import Senders
from rqmail.errors import MailError
from rqmail.logs import event_log
from rqmail.mailers.graph.copies import Copy, SentCopies
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import SentItems, SystemMailbox
from rqmail.models.pruning import SentPruning, settled_before

log = event_log()

#: Mailboxes pruned side by side, one call at a time each.
_AT_ONCE = 8

#: A pass removes nothing more after this time: it runs among the mail.
_PASS_SECONDS = 30.0

#: Nothing is younger than that where a row was changed by hand and names no days.
_LONGEST_DAYS = 3650

#: When a mailbox is looked at again: with nothing left to remove, and after a failure.
_NOTHING_LEFT = timedelta(hours=1)
_FAILED = timedelta(hours=1)


@dataclass(slots=True)
class _Pass:
    """What one pass over one mailbox has done so far."""

    removed: int = 0
    left: bool = False
    problem: str | None = None


class SentPruner:
    """Removes our copies of settled mail from the Sent Items of each mailbox that wants it; never the mail's concern.

    A copy goes ``prune_after_days`` after its message came to its end. One whose message is not among ours, or waits
    for a decision, stays. What fails pauses pruning of that mailbox, with its reason.
    """

    def __init__(self, senders: Senders, clock: Clock, monotonic: Callable[[], float] = monotonic) -> None:
        self._senders = senders
        self._clock = clock
        self._monotonic = monotonic

    def run(self) -> dict[str, int]:
        """Make one pass over the mailboxes that are due; answer how many copies were removed from each."""
        due = self._due()
        if not due:
            return {}
        until = self._monotonic() + _PASS_SECONDS
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            passes = list(threads.map(lambda mailbox: self._pass(mailbox, until), due))
        for mailbox, one in zip(due, passes, strict=True):
            self._note(mailbox, one)
        return {mailbox.key: one.removed for mailbox, one in zip(due, passes, strict=True)}

    def _due(self) -> list[SystemMailbox]:
        """Answer the mailboxes to look at, those first that have waited longest."""
        now = self._clock()
        with pooled_connection():
            wanting = list(SystemMailbox.select().where(SystemMailbox.sent_items == SentItems.PRUNE.value))
        if not wanting:
            return []
        next_on = {key: row.next_on for key, row in SentPruning.all().items()}
        due = [mailbox for mailbox in wanting if next_on.get(mailbox.key, now) <= now]
        return sorted(due, key=lambda mailbox: next_on.get(mailbox.key, mailbox.created_on))

    def _pass(self, mailbox: SystemMailbox, until: float) -> _Pass:
        done = _Pass()
        try:
            copies = self._senders.sent_copies(mailbox)
            if copies is None:
                done.problem = "The app that reaches the mailbox is not configured"
            else:
                self._remove(
                    copies, self._clock() - timedelta(days=mailbox.prune_after_days or _LONGEST_DAYS), until, done
                )
        except MailError as error:
            done.problem = str(error)
        except Exception as fault:
            log.exception("mail.prune.failed", mailbox=mailbox.key)
            done.problem = f"A fault of rqmail's own ({type(fault).__name__}); the log has the details"
        return done

    def _remove(self, copies: SentCopies, before: datetime, until: float, done: _Pass) -> None:
        # The pages shift when items go, so all that is to go is listed before the first is removed.
        listed: list[Copy] = list(chain.from_iterable(self._in_time(copies.pages(before), until, done)))
        settled = settled_before([copy.message_id for copy in listed], before)
        for copy in listed:
            if copy.message_id not in settled:
                continue
            if self._monotonic() > until:
                done.left = True
                return
            copies.remove(copy)
            done.removed += 1

    def _in_time(self, pages: Iterable[list[Copy]], until: float, done: _Pass) -> Iterable[list[Copy]]:
        """List pages for half of the time at most: the rest is for removing."""
        half = until - _PASS_SECONDS / 2
        for page in pages:
            yield page
            if self._monotonic() > half:
                done.left = True
                return

    def _note(self, mailbox: SystemMailbox, one: _Pass) -> None:
        now = self._clock()
        wait = _FAILED if one.problem else timedelta() if one.left else _NOTHING_LEFT
        SentPruning.note(mailbox.key, next_on=now + wait, pruned_on=now, removed=one.removed, problem=one.problem)
        if one.problem:
            log.warning("mail.prune.paused", mailbox=mailbox.key, reason=one.problem, removed=one.removed)
        elif one.removed:
            log.info("mail.prune.pass", mailbox=mailbox.key, removed=one.removed)
