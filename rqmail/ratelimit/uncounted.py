"""What went out while Redis could not be asked: counted, or given back, once it answers again."""

from __future__ import annotations

from collections import deque

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from rqmail.ratelimit.encoding import Encoding, lease_field, state_key
from rqmail.ratelimit.reservation import Reservation
from rqmail.ratelimit.server import Server

#: Sends of one process remembered while Redis is away: far more than it makes before somebody looks.
_MOST = 10_000
#: So many of them are told to Redis before one mail goes out: it waits for that.
_AT_ONCE = 100


class Uncounted:
    """The reservations of one process that were granted without Redis.

    One that is running is left alone until its end is told, or its lease is over. Where only Redis' answer was lost the
    reservation may have been counted after all: giving it back is then told to Redis too.
    """

    def __init__(self, server: Server, encoding: Encoding) -> None:
        self._server = server
        self._encoding = encoding
        self._running: dict[str, tuple[Reservation, bool]] = {}
        self._used: deque[Reservation] = deque(maxlen=_MOST)
        self._not_sent: deque[Reservation] = deque(maxlen=_MOST)

    def remember(self, reservation: Reservation, *, may_be_counted: bool) -> None:
        """Remember a reservation whose request is about to go out."""
        if len(self._running) < _MOST:
            self._running[reservation.id] = (reservation, may_be_counted)

    def used(self, reservation: Reservation) -> None:
        """Note that its budget was used."""
        if self._running.pop(reservation.id, None) is not None:
            self._used.append(reservation)

    def not_sent(self, reservation: Reservation) -> None:
        """Note that it was certainly not sent."""
        _, may_be_counted = self._running.pop(reservation.id, (reservation, False))
        if may_be_counted:
            self._not_sent.append(reservation)

    def tell(self) -> None:
        """Tell Redis some of what it does not know; the rest, or all if it is gone again, the next time."""
        if self._running:
            self._end_the_oldest()
        for _ in range(_AT_ONCE):
            if self._not_sent:
                queue, verb = self._not_sent, self._give_back
            elif self._used:
                queue, verb = self._used, self._count
            else:
                return
            try:
                reservation = queue.popleft()
            except IndexError:  # another thread has told it
                continue
            try:
                verb(reservation)
            except (ConnectionError, TimeoutError) as error:
                queue.append(reservation)
                self._server.warn(reservation.mailbox_key, error)
                return
            except RedisError:
                continue  # it answers, and refuses this one: asking again would not help

    def __bool__(self) -> bool:
        return bool(self._running or self._used or self._not_sent)

    def _end_the_oldest(self) -> None:
        """Take those whose end was not told within a lease for used."""
        over_ms = self._encoding.now_ms() - self._encoding.lease_ms
        for reservation, _ in list(self._running.values())[:_AT_ONCE]:
            if reservation.granted_ms > over_ms:
                return
            self.used(reservation)

    def _count(self, reservation: Reservation) -> None:
        key, recipients = state_key(reservation.mailbox_key), b"%d" % reservation.recipient_count
        uploaded = (b"%d" % reservation.upload_bytes,) if reservation.upload_bytes else ()
        now, lease = self._encoding.now() or ((b"",) if uploaded else ()), lease_field(reservation.id)
        self._server.run("count_late", key, lease, recipients, *now, *uploaded)
        for scope in reservation.scopes:
            external = b"%d" % reservation.external_count
            self._server.run("count_late", state_key(scope.key), lease, external, *self._encoding.now())

    def _give_back(self, reservation: Reservation) -> None:
        keys = keys_of(reservation)
        self._server.run("release", *keys, lease_field(reservation.id), keys=len(keys))


def keys_of(reservation: Reservation) -> tuple[bytes, ...]:
    """Answer the keys of what a reservation was taken from: its mailbox's first, then those of its scopes."""
    return (state_key(reservation.mailbox_key), *(state_key(scope.key) for scope in reservation.scopes))
