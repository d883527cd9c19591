"""After a restore: what may have been sent since the backup is in doubt, and looked up instead of sent again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from rqmail.administration.audit import Audit
from rqmail.clock import Clock
from rqmail.delivery.senders import Senders
from rqmail.errors import InvalidInputError
from rqmail.models import campaigns, importing
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.decisions import WaitedThen
from rqmail.models.message import Message

#: Messages moved in one statement.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restored backup left in doubt: messages, campaigns that were running, imports that were being stored."""

    messages: int
    campaigns_paused: list[str]
    imports_stopped: list[str]
    dry_run: bool


@dataclass(frozen=True)
class Restoring:
    """Puts a restored database into a state from which nothing is sent twice; :meth:`by` says who does that."""

    senders: Senders
    audit: Audit
    clock: Clock
    who: str = "nobody"

    def by(self, who: str) -> Self:
        """Answer the same, done in somebody's name."""
        return replace(self, who=who)

    def recover(self, taken_at: datetime, *, dry_run: bool = False) -> Restored:
        """Mark what waited at ``taken_at`` as UNKNOWN, pause what ran then, stop what was being stored; all or nothing.

        Repeated, it finds nothing more. Raises ``InvalidInputError`` for a moment that has not come.
        """
        now = self.clock()
        if taken_at > now:
            raise InvalidInputError("taken-at", taken_at.isoformat(), "a moment that has passed")
        if dry_run:
            messages = sum(len(batch) for batch in _waiting(taken_at))
            return Restored(
                messages, [one.name for one in _running(taken_at)], importing.being_stored(taken_at), dry_run=True
            )
        if not (next(_waiting(taken_at), None) or _running(taken_at) or importing.being_stored(taken_at)):
            return Restored(0, [], [], dry_run=False)
        with self.audit.change(self.who, "backup.recover", f"backup:{taken_at.isoformat()}") as change:
            restored = Restored(
                sum(self._doubt(batch, taken_at, now) for batch in _waiting(taken_at)),
                [one.name for one in _running(taken_at) if _paused(one)],
                importing.stop_storing(taken_at, now, self.who),
                dry_run=False,
            )
            change.after = restored
        return restored

    def _doubt(self, batch: list[WaitedThen], taken_at: datetime, now: datetime) -> int:
        senders = self.senders.all()
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for one in batch:
            groups[one.sender].append(one.id)
        moved = 0
        for name, ids in groups.items():
            sender = senders.get(name)
            moved += len(Message.doubt(ids, taken_at, now, self.who, sender.route if sender else None))
        return moved


def _waiting(taken_at: datetime) -> Iterator[list[WaitedThen]]:
    after = ""
    while batch := Message.waiting_in_backup(taken_at, after=after, limit=_AT_ONCE):
        yield batch
        after = batch[-1].id


def _running(taken_at: datetime) -> list[Campaign]:
    """List the campaigns that made messages after the backup, to people whom the restored list still has as waiting."""
    return [
        one
        for one in campaigns.open_campaigns()
        if one.state == CampaignState.RUNNING.value and (one.started_on is None or one.started_on <= taken_at)
    ]


def _paused(campaign: Campaign) -> bool:
    return campaigns.move(campaign, CampaignState.PAUSED, [CampaignState.RUNNING])
