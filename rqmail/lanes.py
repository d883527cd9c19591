"""One job's messages, sent side by side: many mailboxes at once, few messages of each."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import structlog

from rqmail.clock import Clock, monotonic
from rqmail.models.backlog import Queued, queued
from rqmail.models.base import borrowed, patiently
from rqmail.models.contents import Contents, load_contents
from rqmail.models.message import Message
from rqmail.senders import Senders
from rqmail.service import Ending, MailProviderService

log = structlog.get_logger()

#: Mail of a sender that is gone, or that has no limiter, still goes few at a time per sender.
_WITHOUT_LIMITS_IN_FLIGHT = 8


@dataclass(frozen=True, slots=True)
class LanesReport:
    """What became of a job's messages: handed to the service, put back untouched, or not ours any more."""

    sent_off: int
    put_back: int
    lost: int


@dataclass(frozen=True)
class Lanes:
    """Sends one job's messages in parallel lanes, at most ``in_flight`` per mailbox, and puts back what is left.

    ``width`` is how many lanes at most; ``lease`` how long a message begun is left alone by recovery; after
    ``start_within_seconds`` a job begins nothing more.
    """

    service: MailProviderService
    senders: Senders
    clock: Clock
    width: int
    lease: timedelta
    start_within_seconds: float
    monotonic: Callable[[], float] = monotonic
    stopping: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Begin nothing new: what is in flight is finished, the rest goes back to the table."""
        self.stopping.set()

    def send(self, ids: Sequence[str]) -> LanesReport:
        """Send these messages and answer when every one has an outcome or is back in the table.

        Ids that are not QUEUED (any more) are passed over. Whatever is raised into this thread (a job timeout), what
        has not begun is put back first.
        """
        run = _Run(self, ids)
        try:
            run.work()
        finally:
            put_back = run.put_back_the_rest()
        return LanesReport(run.sent_off, put_back, run.lost)


class _Run:
    """One call of :meth:`Lanes.send`: the mailboxes' pending messages, and the tokens that allow a lane to take one.

    A token is a mailbox's right to one more message in flight. A lane takes a token, sends one message of that mailbox
    and returns the token, until the mailbox has nothing left: so no lane ever searches, and none exceeds ``in_flight``.
    """

    def __init__(self, lanes: Lanes, ids: Sequence[str]) -> None:
        self._lanes = lanes
        self._deadline = lanes.monotonic() + lanes.start_within_seconds
        self._claim = str(uuid4())
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._pending: dict[str, deque[Queued]] = {}
        self._tokens: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tokens_left = 0
        self._contents: dict[str, Contents] = {}
        self.sent_off = 0
        self.lost = 0
        self._load(ids)

    def _load(self, ids: Sequence[str]) -> None:
        known = self._lanes.senders.all()
        with borrowed():
            rows = queued(ids)
            self._contents = load_contents([row.id for row in rows])
        in_flight: dict[str, int] = {}
        for row in rows:
            sender = known.get(row.sender)
            key = sender.budget_key if sender else row.sender
            in_flight[key] = sender.limits.in_flight if sender and sender.limits else _WITHOUT_LIMITS_IN_FLIGHT
            self._pending.setdefault(key, deque()).append(row)
        # Round by round, so that every mailbox has its first message under way before any has its second.
        for turn in range(max(in_flight.values(), default=0)):
            for key, pending in self._pending.items():
                if turn < min(in_flight[key], len(pending)):
                    self._tokens.put(key)
                    self._tokens_left += 1

    def work(self) -> None:
        """Run the lanes until every mailbox has run dry or the job may begin nothing more."""
        lanes = min(self._lanes.width, self._tokens_left)
        if lanes == 0:
            return
        pool = ThreadPoolExecutor(lanes, thread_name_prefix="lane")
        try:
            running = [pool.submit(self._lane) for _ in range(lanes)]
            wait_for(running)
        finally:
            self._over.set()
            for _ in range(lanes):
                self._tokens.put(None)
            pool.shutdown(wait=True)
        for lane in running:
            lane.result()

    def put_back_the_rest(self) -> int:
        """Return what was not begun to the table."""
        with self._lock:
            rest = [row.id for pending in self._pending.values() for row in pending]
            self._pending.clear()
        return len(patiently(lambda: Message.put_back(rest))) if rest else 0

    def _lane(self) -> None:
        while (key := self._tokens.get()) is not None:
            row = self._next(key)
            if row is None:
                self._drop_token()
                continue
            try:
                ending = self._send_one(row, key)
            except Exception:
                self._drop_token()
                log.exception("mail.lane.failed", messageUuid=row.id)
                continue
            if ending is Ending.MAILBOX_RESTS:
                self._leave(key)
            self._tokens.put(key)

    def _next(self, key: str) -> Queued | None:
        """Take the mailbox's next message, if this job may still begin one."""
        lanes = self._lanes
        if self._over.is_set() or lanes.stopping.is_set() or lanes.monotonic() > self._deadline:
            return None
        with self._lock:
            pending = self._pending.get(key)
            return pending.popleft() if pending else None

    def _drop_token(self) -> None:
        """A token has no more use; with the last one, every lane is told to go home."""
        with self._lock:
            self._tokens_left -= 1
            last = self._tokens_left == 0
        if last:
            for _ in range(self._lanes.width):
                self._tokens.put(None)

    def _leave(self, key: str) -> None:
        """The mailbox rests: its other messages go back untouched, without each asking for itself."""
        with self._lock:
            rest = [row.id for row in self._pending.pop(key, ())]
        if rest:
            patiently(lambda: Message.put_back(rest))

    def _send_one(self, row: Queued, key: str) -> Ending:
        if row.expires_on is not None and row.expires_on <= self._lanes.clock():
            patiently(lambda: Message.expire(row.id))
            return Ending.DONE
        message = patiently(lambda: self._begin(row, key))
        if message is None:
            with self._lock:
                self.lost += 1
            return Ending.LOST
        with self._lock:
            self.sent_off += 1
        return self._lanes.service.send(message, self._contents.get(row.id))

    def _begin(self, row: Queued, key: str) -> Message | None:
        """Take the lease from the moment it is written: the database may have been away since the row was read."""
        now = self._lanes.clock()
        return Message.start_sending(
            row.id, claim=self._claim, mailbox_key=key, now=now, lease_until=now + self._lanes.lease
        )
