"""One job's messages, sent side by side: many mailboxes at once, few messages of each."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from uuid import uuid4

from rqmail.campaigns.rendering import contents_of
from rqmail.clock import Clock, cpu_seconds, monotonic
from rqmail.delivery.leaving_out import Look, look
from rqmail.delivery.outcomes import Ending, MailProviderService
from rqmail.delivery.senders import Senders
from rqmail.logs import event_log
from rqmail.models.backlog import queued
from rqmail.models.base import AWAY_ERRORS, retry_while_away
from rqmail.models.contents import Contents
from rqmail.models.message import Message, Route

log = event_log()

#: A job starts with so many lanes and gets as many more after each look that finds the process less busy than this:
#: where calls take no time, more threads only take turns at one interpreter (8 lanes sent a third more than 32).
_LANES_AT_FIRST = 8
_LOOK_SECONDS = 0.02
_BUSY = 0.5

#: Mail of a sender that is gone comes to its end few at a time.
_OF_NOBODY_IN_FLIGHT = 8


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
    cpu_seconds: Callable[[], float] = cpu_seconds
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
            run.put_back_the_rest()
        return LanesReport(run.sent_off, run.put_back, run.lost)


@dataclass(slots=True)
class _Mailbox:
    """What a job still has to send through one mailbox: QUEUED, just being begun, and begun but not sent.

    A message that is begun is SENDING under our claim.
    """

    in_flight: int
    tokens: int = 0
    pending: deque[Message] = field(default_factory=deque)
    being_begun: int = 0
    begun: deque[Message] = field(default_factory=deque)


class _Run:
    """One call of :meth:`Lanes.send`: the mailboxes' messages, and the tokens that allow a lane to take one.

    A token is a mailbox's right to one more message in flight. A lane takes a token, sends one message of that mailbox
    and returns the token, until the mailbox has nothing left: so no lane ever searches, and none exceeds ``in_flight``.
    With a mailbox that needs all of its tokens to be done when the job is, a lane stays: at the end of a job nothing is
    sent slower than it could be.
    """

    def __init__(self, lanes: Lanes, ids: Sequence[str]) -> None:
        self._lanes = lanes
        self._deadline = lanes.monotonic() + lanes.start_within_seconds
        self._claim = str(uuid4())
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._done = threading.Event()
        self._mailboxes: dict[str, _Mailbox] = {}
        self._tokens: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tokens_left = 0
        self._left = 0
        self._contents: dict[str, Contents] = {}
        self._looked: dict[str, Look] = {}
        self.sent_off = 0
        self.put_back = 0
        self.lost = 0
        self._load(ids)

    def _load(self, ids: Sequence[str]) -> None:
        known = self._lanes.senders.all()
        messages = queued(ids)
        self._contents = contents_of([message.id for message in messages])
        for message in messages:
            message.claim = self._claim
            sender = known.get(message.sender)
            key = sender.budget_key if sender else message.sender
            in_flight = sender.in_flight if sender else _OF_NOBODY_IN_FLIGHT
            self._mailboxes.setdefault(key, _Mailbox(in_flight)).pending.append(message)
        self._left = len(messages)
        # Round by round, so that every mailbox has its first message under way before any has its second.
        longest_first = sorted(self._mailboxes.items(), key=lambda item: -len(item[1].pending) / item[1].in_flight)
        for turn in range(max((mailbox.in_flight for mailbox in self._mailboxes.values()), default=0)):
            for key, mailbox in longest_first:
                if turn < min(mailbox.in_flight, len(mailbox.pending)):
                    self._issue_token(key)

    def work(self) -> None:
        """Run the lanes until every mailbox has run dry or the job may begin nothing more."""
        width = min(self._lanes.width, self._tokens_left)
        if width == 0:
            return
        pool = ThreadPoolExecutor(width, thread_name_prefix="lane")
        try:
            running = [pool.submit(self._lane) for _ in range(min(width, _LANES_AT_FIRST))]
            while len(running) < width and self._are_waited_for():
                running += [pool.submit(self._lane) for _ in range(min(width - len(running), _LANES_AT_FIRST))]
            wait_for(running)
        finally:
            self._over.set()
            for _ in range(width):
                self._tokens.put(None)
            pool.shutdown(wait=True)
        for lane in running:
            lane.result()

    def _are_waited_for(self) -> bool:
        """Look on until the lanes spend their time waiting for answers; ``False`` when all is sent before that."""
        lanes = self._lanes
        while True:
            wall, cpu = lanes.monotonic(), lanes.cpu_seconds()
            if self._done.wait(_LOOK_SECONDS):
                return False
            if lanes.cpu_seconds() - cpu <= _BUSY * (lanes.monotonic() - wall):
                return True

    def put_back_the_rest(self) -> None:
        """Return what was not sent off to the table."""
        for key in self._mailboxes:
            self._leave(key)

    def _lane(self) -> None:
        while (key := self._tokens.get()) is not None:
            try:
                while (more := self._send_next(key)) and self._needs_all_its_tokens(key):
                    pass
            except Exception:
                log.exception("mail.lane.failed", mailboxKey=key)
                more = False
            if more:
                self._tokens.put(key)
            else:
                self._drop_token(key)

    def _send_next(self, key: str) -> bool:
        """Send one message of the mailbox; answer whether there may be more to send."""
        message = self._next(key)
        if message is None:
            return False
        ending = self._lanes.service.send(message, self._contents.get(message.id), self._looked.get(message.id))
        if ending is Ending.PUT_BACK:
            with self._lock:
                self.sent_off -= 1
                self.put_back += 1
        elif ending is Ending.MAILBOX_PAUSED:
            self._leave(key)
        return True

    def _needs_all_its_tokens(self, key: str) -> bool:
        """Say whether a mailbox has as many rounds of its own to go as all lanes together, or more."""
        mailbox = self._mailboxes[key]
        # Rounds that are begun count whole: another lane may have just taken the first of this one.
        to_send = len(mailbox.pending) + mailbox.being_begun + len(mailbox.begun)
        rounds = ceil(to_send / mailbox.in_flight)
        return rounds >= self._left / self._lanes.width

    def _next(self, key: str) -> Message | None:
        """Take the mailbox's next message, SENDING under our claim, if the job may still begin one."""
        lanes = self._lanes
        mailbox = self._mailboxes[key]
        while not (self._over.is_set() or lanes.stopping.is_set() or lanes.monotonic() > self._deadline):
            with self._lock:
                message = mailbox.begun.popleft() if mailbox.begun else None
                # As many as the mailbox may have in flight: they all go in a moment, and one statement does for them.
                room = 0 if message is not None else min(mailbox.in_flight, len(mailbox.pending))
                candidates = [mailbox.pending.popleft() for _ in range(room)]
                mailbox.being_begun += room
            if message is not None and self._is_ours_for_long(message):
                with self._lock:
                    self.sent_off += 1
                    self._left -= 1
                return message
            if message is None and not candidates:
                return None
            if candidates:
                try:
                    self._begin(mailbox, candidates)
                finally:
                    with self._lock:
                        mailbox.being_begun -= len(candidates)
                self._call_back_lanes(key)
        return None

    def _call_back_lanes(self, key: str) -> None:
        """Issue tokens anew for what was begun: while that was being written, other lanes found nothing to send."""
        mailbox = self._mailboxes[key]
        with self._lock:
            for _ in range(min(mailbox.in_flight - mailbox.tokens, len(mailbox.begun) - 1)):
                self._issue_token(key)

    def _is_ours_for_long(self, message: Message) -> bool:
        """Say whether a message that is begun may still be sent; one that may not is put back, if it is still ours.

        Where the machine slept meanwhile, recovery may have found it and another worker may have it by now.
        """
        if message.may_begin(self._lanes.clock()):
            return True
        back = retry_while_away(lambda: Message.put_back_unsent([message.id], self._claim))
        with self._lock:
            self.put_back += len(back)
            self.lost += 1 - len(back)
            self._left -= 1
        return False

    def _begin(self, mailbox: _Mailbox, candidates: list[Message]) -> None:
        """Move messages to SENDING, and those that are too late to EXPIRED."""
        now = self._lanes.clock()
        # Who sends is asked again: it is written down with the attempt what it goes through, whatever was edited since.
        known = self._lanes.senders.all()
        by_route: dict[Route | None, list[Message]] = {}
        for message in candidates:
            if (expires_on := message.expires_on) is not None and expires_on <= now:
                retry_while_away(lambda late=message.id: Message.expire(late, now))  # type: ignore[misc]
                with self._lock:
                    self._left -= 1
                continue
            sender = known.get(message.sender)
            by_route.setdefault(sender.route if sender else None, []).append(message)
        for route, messages in by_route.items():
            self._begin_through(route, mailbox, messages)

    def _begin_through(self, route: Route | None, mailbox: _Mailbox, messages: list[Message]) -> None:
        """Move messages that go the same way to SENDING."""
        ids = [m.id for m in messages]
        started, began, lease_until = retry_while_away(lambda: self._start(ids, route))
        if missing := [message_id for message_id in ids if message_id not in started]:
            # Another has them, unless the database took our word and its answer was lost: then no worker has them.
            retry_while_away(lambda: Message.put_back_unsent(missing, self._claim))
        self._look(started)
        with self._lock:
            self.lost += len(missing)
            self._left -= len(missing)
            for message in (m for m in messages if m.id in started):
                message.goes_through(route)
                message.tried_before = message.attempted_on is not None
                message.attempted_on, message.lease_until = began, lease_until
                mailbox.begun.append(message)

    def _look(self, ids: set[str]) -> None:
        """Look up who is suppressed, for messages that go in a moment; where that fails each is looked up by itself."""
        contents = [self._contents[message_id] for message_id in ids if message_id in self._contents]
        with suppress(*AWAY_ERRORS):
            looked = look(contents, self._lanes.clock())
            self._looked.update((message_id, looked) for message_id in ids)

    def _start(self, ids: list[str], route: Route | None) -> tuple[set[str], datetime, datetime]:
        """Count the lease from when it is written: the database may have been away since this was first tried."""
        now = self._lanes.clock()
        lease_until = now + self._lanes.lease
        started = Message.start_sending(ids, claim=self._claim, now=now, lease_until=lease_until, route=route)
        return started, now, lease_until

    def _leave(self, key: str) -> None:
        """Put a mailbox's messages back untouched: it is paused, or the job is over."""
        mailbox = self._mailboxes[key]
        with self._lock:
            pending, begun = [m.id for m in mailbox.pending], [m.id for m in mailbox.begun]
            self._left -= len(pending) + len(begun)
            mailbox.pending.clear()
            mailbox.begun.clear()
        back = 0
        if pending:
            back += len(retry_while_away(lambda: Message.put_back(pending)))
        if begun:
            back += len(retry_while_away(lambda: Message.put_back_unsent(begun, self._claim)))
        with self._lock:
            self.put_back += back

    def _issue_token(self, key: str) -> None:
        """Allow one more lane at the mailbox."""
        self._mailboxes[key].tokens += 1
        self._tokens_left += 1
        self._tokens.put(key)

    def _drop_token(self, key: str) -> None:
        """A token has no more use; with the last one, every lane is told to end."""
        with self._lock:
            self._mailboxes[key].tokens -= 1
            self._tokens_left -= 1
            last = self._tokens_left == 0
        if last:
            self._done.set()
            for _ in range(self._lanes.width):
                self._tokens.put(None)
