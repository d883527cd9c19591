"""From the table to the queues, never more than the budgets admit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from uuid import uuid4

from rqmail.clock import Clock, to_epoch_ms
from rqmail.delivery.rooms import Room, budget_key, keep_places, rooms_of
from rqmail.delivery.senders import Sender, Senders
from rqmail.logs import event_log
from rqmail.metrics import Metrics
from rqmail.models.backlog import Due, count_due, due, refused, unfinished
from rqmail.models.base import retry_while_away, transaction
from rqmail.models.message import Claim, Message, Priority
from rqmail.queues import MailQueues
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.pacing import Pace, Pacer, tighter

log = event_log()

#: A tick holds the dispatch lock no longer than this, even when its process ends.
_LOCK_SECONDS = 30

#: Recovery looks after a claimed message whose job has not begun it within this time.
CLAIM_LEASE = timedelta(seconds=15)

#: Of a line this many messages are counted when it is told what waits: the backlog's length must not cost more.
_COUNTED_AT_MOST = 10_000

#: Mailboxes whose claims are committed together: a commit takes longer than a claim.
_MAILBOXES_PER_COMMIT = 50


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """What one tick did."""

    claimed: int = 0
    jobs: int = 0
    senders_due: int = 0
    senders_waiting: int = 0
    skipped: bool = False


@dataclass(slots=True)
class _Batch:
    """The ids of one job in the making."""

    job_id: str = field(default_factory=lambda: str(uuid4()))
    ids: list[str] = field(default_factory=list)
    mailboxes: set[str] = field(default_factory=set)


class Dispatcher:
    """Claims due messages within their mailboxes' budgets and hands their ids to the workers.

    ``feed`` makes messages of what can only be decided at that moment, before they are claimed: those of campaigns.
    A job has about ``rounds`` messages for each of ``lanes``, and of one mailbox so few that as many mailboxes share it
    as the lanes need.
    """

    def __init__(
        self,
        senders: Senders,
        limiter: MailRateLimiter,
        queues: MailQueues,
        clock: Clock,
        pacer: Pacer,
        metrics: Metrics,
        *,
        reserve_for_high: int,
        lanes: int,
        rounds: int,
        queued_at_most: int,
        feed: Callable[[], object] = lambda: None,
    ) -> None:
        self._senders = senders
        self._limiter = limiter
        self._queues = queues
        self._clock = clock
        self._pacer = pacer
        self._metrics = metrics
        self._reserve_for_high = reserve_for_high
        self._lanes = lanes
        self._job_size = lanes * rounds
        self._queued_at_most = queued_at_most
        self._feed = feed

    def tick(self) -> DispatchReport:
        """Claim and hand over what can be sent now; does nothing while another process is dispatching."""
        token = self._queues.begin_dispatch(_LOCK_SECONDS)
        if token is None:
            return DispatchReport(skipped=True)
        worked = False
        try:
            self._feed()
            report = self._dispatch(self._clock())
            worked = True
        finally:
            self._queues.end_dispatch(token, worked=worked)
        return report

    def _dispatch(self, now: datetime) -> DispatchReport:
        waiting = due(now)
        if not waiting:
            return DispatchReport()
        senders = self._senders.all()
        # What is unfinished is counted before the budgets are read: a message sent in between counts twice then, which
        # claims too little for one tick; the other way round it would claim too much.
        hand = unfinished()
        rooms = rooms_of(self._limiter, self._reserve_for_high, waiting, senders, hand, now)
        keep_places(refused(now), senders, rooms)
        last_tick = self._queues.last_tick()
        self._pace(waiting, senders, rooms, now, last_tick)
        left = self._queued_at_most - sum(h.queued for h in hand.values())
        claimed = jobs = 0
        for priorities, high in (((Priority.HIGH,), True), ((Priority.NORMAL, Priority.LOW), False)):
            batches = self._claim(waiting, priorities, senders, rooms, now, left - claimed)
            self._hand_over(batches, high=high)
            claimed += sum(len(batch.ids) for batch in batches)
            jobs += len(batches)
        if last_tick is None or last_tick.replace(second=0, microsecond=0) != now.replace(second=0, microsecond=0):
            self._tell_what_waits(senders, rooms, now)
        self._pacer.keep({key: room.pace for key, room in rooms.items() if room.pace})
        names = {one.sender for one in waiting}
        still = sum(1 for name in names if (room := rooms.get(budget_key(name, senders))) and room.calls <= 0)
        return DispatchReport(claimed=claimed, jobs=jobs, senders_due=len(names), senders_waiting=still)

    def _tell_what_waits(self, senders: dict[str, Sender], rooms: dict[str, Room], now: datetime) -> None:
        """Log and count, once a minute, what was left waiting of every mailbox, and why."""
        lines: defaultdict[str, list[Due]] = defaultdict(list)
        for one in due(now):
            lines[budget_key(one.sender, senders)].append(one)
        now_ms = to_epoch_ms(now)
        for key, these in lines.items():
            room = rooms.get(key)
            if room is None:  # came in since this tick began
                continue
            waiting = count_due(these, now, at_most=_COUNTED_AT_MOST)
            self._metrics.count("left-waiting", room.reason, times=waiting)
            log.info(
                "mail.dispatch.waiting",
                mailboxKey=key,
                reason=room.reason,
                waiting=waiting,
                retryAfterMs=room.retry_after_ms(now_ms),
            )
        self._metrics.flush()

    def _pace(
        self,
        waiting: list[Due],
        senders: dict[str, Sender],
        rooms: dict[str, Room],
        now: datetime,
        last_tick: datetime | None,
    ) -> None:
        """Give the mailboxes that send evenly their pace; mail of high priority has none."""
        wanted: dict[str, list[Sender]] = defaultdict(list)
        for one in waiting:
            sender = senders.get(one.sender)
            if (
                sender
                and sender.limits
                and one.priority != Priority.HIGH
                and rooms[sender.budget_key].calls_not_high > 0
            ):
                wanted[sender.budget_key].append(sender)
        even = {
            key: min(sender.limits.per_minute for sender in these if sender.limits)
            for key, these in wanted.items()
            if tighter(sender.pacing for sender in these) == "even" and rooms[key].whole_day is not None
        }
        paces = self._pacer.paces(even, to_epoch_ms(now), None if last_tick is None else to_epoch_ms(last_tick))
        for key, pace in paces.items():
            rooms[key].pace = pace

    def _claim(
        self,
        waiting: list[Due],
        priorities: tuple[Priority, ...],
        senders: dict[str, Sender],
        rooms: dict[str, Room],
        now: datetime,
        left: int,
    ) -> list[_Batch]:
        """Claim mailbox by mailbox, starting somewhere else each time so that none is always last."""
        by_key: defaultdict[str, list[Due]] = defaultdict(list)
        for one in waiting:
            if one.priority in priorities:
                by_key[budget_key(one.sender, senders)].append(one)
        keys = [key for key, lines in by_key.items() if rooms[key].has_any(lines)]
        random.shuffle(keys)
        paces = {key: self._give_out(by_key[key], rooms[key], now) for key in keys}
        batches: list[_Batch] = []
        while keys:
            more: list[str] = []
            for start in range(0, len(keys), _MAILBOXES_PER_COMMIT):
                with transaction():
                    for key in keys[start : start + _MAILBOXES_PER_COMMIT]:
                        batch = self._batch_for(key, batches)
                        share = min(left, self._share(rooms[key]))
                        claims = self._claim_mailbox(by_key[key], key, rooms[key], paces[key], now, share, batch.job_id)
                        left -= len(claims)
                        batch.ids += [claim.id for claim in claims]
                        if 0 < len(claims) == share:
                            more.append(key)
            keys = more
        return [batch for batch in batches if batch.ids]

    def _share(self, room: Room) -> int:
        """Answer how many messages of a mailbox one job takes: all lanes are busy with so many of enough mailboxes."""
        return max(1, self._job_size // ceil(self._lanes / room.in_flight))

    def _batch_for(self, key: str, batches: list[_Batch]) -> _Batch:
        """Answer the job that is being filled, or the next where it is full or has its share of this mailbox."""
        if not batches or len(batches[-1].ids) >= self._job_size or key in batches[-1].mailboxes:
            batches.append(_Batch())
        batches[-1].mailboxes.add(key)
        return batches[-1]

    def _give_out(self, lines: list[Due], room: Room, now: datetime) -> Pace | None:
        """Leave a mailbox with more mail than places as many of them as its pace gives out by now; answer the pace."""
        pace, places = room.pace, room.calls_not_high
        if lines[0].priority == Priority.HIGH or pace is None or pace.places >= places:
            return None
        if count_due(lines, now, at_most=places + 1) <= places:
            return None
        room.calls_not_high = pace.places
        room.reason = "pacing"
        return pace

    def _claim_mailbox(
        self, lines: list[Due], key: str, room: Room, pace: Pace | None, now: datetime, left: int, job_id: str
    ) -> list[Claim]:
        """Claim from a mailbox's lines, the more urgent first."""
        claimed: list[Claim] = []
        for priority in sorted({one.priority for one in lines}):
            line = [one for one in lines if one.priority == priority]
            claimed += self._claim_line(line, key, room, now, left - len(claimed), job_id)
        if pace is not None:
            pace.take(len(claimed))
            room.free_ms = max(room.free_ms, round(pace.next_ms))
        return claimed

    def _claim_line(self, line: list[Due], key: str, room: Room, now: datetime, left: int, job_id: str) -> list[Claim]:
        """Claim from a mailbox's mail of one priority: first what the limiter refused before, then the rest by time."""
        priority = line[0].priority
        before = [one for one in line if (one.sender, priority) in room.refused]
        claimed: list[Claim] = []
        for lines, only_refused in ((before, True), (line, False)):
            calls = min(room.calls_for(priority), left - len(claimed))
            recipients = room.recipients_for(priority, refused=only_refused)
            if not lines or calls <= 0 or (recipients == 0 and not room.ends_one(lines)):
                continue
            claims = Message.claim_due(
                lines[0].sender,
                priority,
                beside=[one.sender for one in lines[1:]],
                refused=only_refused,
                now=now,
                calls=calls,
                recipients=recipients,
                never_more_than=room.whole_day,
                uploads=room.uploads,
                external=room.external,
                mailbox_key=key,
                job_id=job_id,
                lease=CLAIM_LEASE,
            )
            room.take(claims)
            claimed += claims
        return claimed

    def _hand_over(self, batches: list[_Batch], *, high: bool) -> None:
        """Push the jobs; what cannot be pushed goes back to the table at once."""
        try:
            self._queues.push([(batch.job_id, batch.ids) for batch in batches], high=high)
        except Exception:
            for batch in batches:
                retry_while_away(lambda batch=batch: Message.put_back(batch.ids, batch.job_id))  # type: ignore[misc]
            raise
