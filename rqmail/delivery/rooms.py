"""What each mailbox can still take: its budget, less what is claimed already and what is kept for the first in line."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime

from rqmail.clock import to_epoch_ms
from rqmail.delivery.senders import Sender
from rqmail.models.backlog import Due, Refused, Unfinished
from rqmail.models.message import Claims, ExternalRoom, Priority, UploadRoom
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits, mailbox_key
from rqmail.ratelimit.pacing import Pace
from rqmail.ratelimit.scopes import Scope, SharedBudgets
from rqmail.ratelimit.usage import Usage

#: Without a limiter's answer (Redis is down) this many of a sender are claimed at most.
_UNLIMITED_IN_HAND = 100

#: Of a sender without limits so many rounds of what it may have in flight are claimed at most. More is claimed once
#: half of that is begun: a job of few rounds leaves its lanes idle at its end.
_ROUNDS_IN_HAND = 16

#: Stands for "no budget of ours": the sender's provider has limits of its own.
_NO_LIMITS = RateLimits(per_minute=1_000_000, recipients_per_day=1_000_000_000, in_flight=1)


@dataclass(slots=True)
class SharedRoom:
    """What a scope can still take of external recipients, for all of its mailboxes; more of them at ``free_ms``."""

    scope: Scope
    left: int
    free_ms: int


@dataclass(slots=True)
class Room:
    """What one mailbox can still take: calls, calls not of high priority, recipients (``None`` is unbounded).

    ``in_flight`` is how many of its messages may be under way at once.

    ``pace`` says how many of the calls are to be given out by now, when more mail waits than there are. ``kept`` is, by
    priority, how many recipients are kept for messages that the limiter refused and whose moment is still to come;
    ``uploads`` is what may be uploaded, ``None`` is unbounded; more of it may be at ``uploads_free_ms``.
    ``refused`` are the lines (sender and priority) of those whose moment has come. ``shared`` is what it shares with
    other mailboxes, for recipients whose domain is not ``internal``. ``reason`` and ``free_ms`` say why more cannot be
    claimed, and when it can.
    """

    calls: int
    calls_not_high: int
    recipients: int | None
    whole_day: int | None
    pace: Pace | None = None
    in_flight: int = 1
    reason: str = "minute"
    free_ms: int = 0
    kept: Counter[int] = field(default_factory=Counter)
    refused: set[tuple[str, int]] = field(default_factory=set)
    uploads: UploadRoom | None = None
    uploads_free_ms: int = 0
    shared: list[SharedRoom] = field(default_factory=list)
    internal: frozenset[str] = frozenset()

    @property
    def external(self) -> ExternalRoom | None:
        """How many external recipients there is room for; ``None`` where nothing is shared."""
        if not self.shared:
            return None
        day = min(one.scope.external_per_day for one in self.shared)
        return ExternalRoom(max(0, min(one.left for one in self.shared)), day, self.internal)

    @classmethod
    def none(cls, until_ms: int) -> Room:
        """Answer that nothing may be claimed: the mailbox is paused."""
        return cls(0, 0, 0, None, reason="paused", free_ms=until_ms)

    def calls_for(self, priority: int) -> int:
        """How many messages of this priority may be claimed."""
        return self.calls if priority == Priority.HIGH else self.calls_not_high

    def has_any(self, lines: list[Due]) -> bool:
        """Whether anything of these lines can be claimed, for a send or for its end."""
        return self.calls_for(lines[0].priority) > 0 and (self.recipients != 0 or self.ends_one(lines))

    def ends_one(self, lines: list[Due]) -> bool:
        """Whether the first message of a line has more recipients than a whole day: it is claimed so that it fails."""
        return self.whole_day is not None and any(one.recipients > self.whole_day for one in lines)

    def recipients_for(self, priority: int, *, refused: bool) -> int | None:
        """How many recipients of this priority there is room for, what is kept for those before them taken off."""
        if self.recipients is None:
            return None
        before = sum(
            kept for other, kept in self.kept.items() if other < priority or (other == priority and not refused)
        )
        return max(0, self.recipients - before)

    def retry_after_ms(self, now_ms: int) -> int | None:
        """In how many ms more can be claimed; ``None`` where nobody can tell."""
        if self.free_ms > now_ms:
            return self.free_ms - now_ms
        return 60_000 if self.reason == "minute" else None  # the places just claimed come free a minute after

    def take(self, claims: Claims) -> None:
        """Take off what was claimed; when one has to wait for room, all that is left is kept for that one."""
        self.calls -= len(claims)
        self.calls_not_high -= len(claims)
        if self.uploads is not None:
            self.uploads = self.uploads._replace(left=0 if claims.upload_waits else self.uploads.left - claims.uploads)
        if claims.upload_waits and self.calls > 0:
            self.reason, self.free_ms = "upload", self.uploads_free_ms
        if claims.external_waits and self.calls > 0:
            tightest = min(self.shared, key=lambda one: one.left)
            self.reason, self.free_ms = tightest.scope.name, tightest.free_ms
        for one in self.shared:
            one.left -= claims.external
        if self.recipients is not None:
            self.recipients = 0 if claims.waits else max(0, self.recipients - claims.recipients)
            if self.recipients == 0:
                self.reason = "day"


def rooms_of(
    limiter: MailRateLimiter,
    reserve_for_high: int,
    waiting: list[Due],
    senders: dict[str, Sender],
    hand: dict[tuple[str, str | None], Unfinished],
    now: datetime,
) -> dict[str, Room]:
    """Ask the limiter for all mailboxes at once, and take off what is claimed already."""
    wanted: dict[str, RateLimits] = {}
    shared: dict[str, SharedBudgets] = {}
    for name in {one.sender for one in waiting}:
        sender = senders.get(name)
        limits = sender.limits if sender and sender.limits else _without_limits(sender)
        key = budget_key(name, senders)
        wanted[key] = _tighter(wanted.get(key, limits), limits)
        if sender is not None and sender.shared.scopes:
            shared[key] = sender.shared
    # A person's pause stands in the table, where it outlives the limiter's memory of it.
    paused: dict[str, datetime] = {}
    for sender in senders.values():
        if sender.paused_until and sender.paused_until > now:
            paused[sender.budget_key] = max(sender.paused_until, paused.get(sender.budget_key, now))
    unfinished_by_key: defaultdict[str, list[Unfinished]] = defaultdict(list)
    for (name, mailbox), counts in hand.items():
        unfinished_by_key[mailbox or budget_key(name, senders)].append(counts)
    scopes = {scope.key: scope for one in shared.values() for scope in one.scopes}
    usages = limiter.usage(wanted | {key: scope.limits for key, scope in scopes.items()})
    now_ms = to_epoch_ms(now)
    rooms = {
        key: Room.none(to_epoch_ms(paused[key]))
        if key in paused
        else _room(usages[key], limits, unfinished_by_key[key], reserve_for_high, now_ms)
        for key, limits in wanted.items()
    }
    if shared:
        _share(rooms, shared, _shared_rooms(scopes, usages, senders, hand))
    return rooms


def _shared_rooms(
    scopes: dict[str, Scope],
    usages: dict[str, Usage],
    senders: dict[str, Sender],
    hand: dict[tuple[str, str | None], Unfinished],
) -> dict[str, SharedRoom]:
    """Answer what scopes can take; what of their senders is claimed is taken for external, until it is sent."""
    claimed: Counter[str] = Counter()
    for (name, _), counts in hand.items():
        for scope in senders[name].shared.scopes if name in senders else ():
            claimed[scope.key] += counts.queued_recipients
    return {
        key: SharedRoom(scope, usages[key].day.remaining - claimed[key], usages[key].next_free_ms)
        for key, scope in scopes.items()
        if usages[key].known
    }


def _share(rooms: dict[str, Room], shared: dict[str, SharedBudgets], known: dict[str, SharedRoom]) -> None:
    """Give the mailboxes of a scope one room in it, from which all of them take."""
    for key, one in shared.items():
        room = rooms[key]
        room.shared, room.internal = [known[scope.key] for scope in one.scopes if scope.key in known], one.internal


def _room(usage: Usage, limits: RateLimits, hand: list[Unfinished], reserve_for_high: int, now_ms: int) -> Room:
    queued = sum(h.queued for h in hand)
    # A message being sent has reserved its place already, except in the moment before it asks.
    asking = max(0, sum(h.sending for h in hand) - usage.in_flight.used)
    if usage.paused_until_ms is not None and usage.paused_until_ms > now_ms:
        return Room.none(usage.paused_until_ms)
    if limits == replace(_NO_LIMITS, in_flight=limits.in_flight):
        in_hand = max(_UNLIMITED_IN_HAND, limits.in_flight * _ROUNDS_IN_HAND)
        calls = in_hand - queued - asking
        return Room(
            calls, calls if 2 * queued <= in_hand else 0, None, None, in_flight=limits.in_flight, reason="in-hand"
        )
    if not usage.known:
        calls = _UNLIMITED_IN_HAND - queued - asking
        return Room(calls, calls, None, None, in_flight=limits.in_flight, reason="in-hand")
    calls = usage.minute.remaining - queued - asking
    if usage.in_flight.limit < limits.in_flight:  # it is being probed after a pause: one at a time
        calls = min(calls, usage.in_flight.limit - queued - sum(h.sending for h in hand))
    recipients = usage.day.remaining - sum(h.queued_recipients for h in hand)
    uploads = limits.upload_bytes - (usage.uploads.used if usage.uploads else 0) - sum(h.queued_uploads for h in hand)
    return Room(
        calls,
        calls - reserve_for_high,
        max(0, recipients),
        limits.recipients_per_day,
        in_flight=limits.in_flight,
        reason="day" if recipients <= 0 else "minute",
        free_ms=usage.next_free_ms,
        uploads=UploadRoom(max(0, uploads), limits.upload_bytes),
        uploads_free_ms=usage.uploads_free_ms or 0,
    )


def _without_limits(sender: Sender | None) -> RateLimits:
    """Answer what stands for no budget of ours, with what the sender may have in flight."""
    return replace(_NO_LIMITS, in_flight=sender.in_flight) if sender else _NO_LIMITS


def keep_places(messages: list[Refused], senders: dict[str, Sender], rooms: dict[str, Room]) -> None:
    """Let nothing overtake what the limiter refused: it may not go before its moment, but keeps its place."""
    for one in messages:
        room = rooms.get(budget_key(one.sender, senders))
        if room is None or (room.whole_day is not None and one.recipients > room.whole_day):
            continue
        if one.due:
            room.refused.add((one.sender, one.priority))
        else:
            room.kept[one.priority] += one.recipients


def _tighter(one: RateLimits, other: RateLimits) -> RateLimits:
    """Where two senders share a mailbox, what both of them allow."""
    return RateLimits(
        min(one.per_minute, other.per_minute),
        min(one.recipients_per_day, other.recipients_per_day),
        min(one.in_flight, other.in_flight),
        min(one.upload_bytes, other.upload_bytes),
    )


def budget_key(name: str, senders: dict[str, Sender]) -> str:
    """Answer the key under which a sender is counted; one that is gone is counted by its name."""
    sender = senders.get(name)
    return sender.budget_key if sender else mailbox_key(name)
