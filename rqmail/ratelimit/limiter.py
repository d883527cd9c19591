"""The brake: takes a place in a mailbox's budgets before a mail goes out, atomically, on Redis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from rqmail.clock import Clock, monotonic
from rqmail.errors import InvalidInputError, PauseCause
from rqmail.ratelimit.encoding import (
    Encoding,
    Why,
    Window,
    is_unknown,
    lease_field,
    state_key,
    text,
    unknown_of,
    unpacked,
)
from rqmail.ratelimit.history import DAY_MS, SendHistory
from rqmail.ratelimit.limits import DEFAULT_LIMITS, RateLimits
from rqmail.ratelimit.limits import mailbox_key as key_of
from rqmail.ratelimit.reading import LimiterHealth, Reading
from rqmail.ratelimit.refilling import Refilling
from rqmail.ratelimit.reservation import REASONS, Denial, DenialReason, Reservation, Wanted
from rqmail.ratelimit.scopes import Scope
from rqmail.ratelimit.server import Server, may_have_run
from rqmail.ratelimit.switches import LONGEST_PAUSE_MS, Switches
from rqmail.ratelimit.uncounted import Uncounted, keys_of
from rqmail.ratelimit.usage import Held, Usage
from rqmail.redis_clients import redis_client

__all__ = [
    "CONNECT_TIMEOUT_SECONDS",
    "LEASE_MS",
    "LONGEST_PAUSE_MS",
    "READ_TIMEOUT_SECONDS",
    "Denial",
    "DenialReason",
    "LimiterHealth",
    "MailRateLimiter",
    "Reservation",
    "Window",
]

#: A request still in flight after this long is taken for lost with its worker, and its place is free again.
LEASE_MS = 120_000
#: Together below 300 ms: what a dead Redis may cost the first message.
CONNECT_TIMEOUT_SECONDS = 0.1
READ_TIMEOUT_SECONDS = 0.19
#: More than there can be lanes in a process.
MOST_CONNECTIONS = 512


class MailRateLimiter:
    """Keeps every mailbox within its calls a minute, recipients a day and requests in flight, over all processes.

    Fails open: whatever Redis does wrong, a mail goes out uncounted and ``mail.rateLimit.redisError`` is logged. One
    limiter serves all threads of a process, connects at first use and may be forked. ``history`` tells what was sent
    before where Redis knows nothing of a mailbox, or comes back with older data. ``on_fail_open`` hears of every
    reservation that was granted uncounted; what was sent on them is counted once Redis answers again. A ``clock``
    (tests, simulations) answers an aware datetime or milliseconds since 1970 and replaces the server's time.
    """

    def __init__(
        self,
        redis: Redis,
        window: Window = "rolling",
        clock: Clock | Callable[[], float] | None = None,
        history: SendHistory | None = None,
        *,
        lease_ms: int = LEASE_MS,
        monotonic_clock: Callable[[], float] = monotonic,
        on_fail_open: Callable[[], object] = lambda: None,
    ) -> None:
        if window not in ("rolling", "fixed"):
            raise InvalidInputError("window", window, "'rolling' or 'fixed'")
        self._server = Server(redis, monotonic_clock)
        self._encoding = Encoding(window, lease_ms, clock)
        self._refilling = Refilling(self._server, self._encoding, history)
        self._reading = Reading(self._server, self._encoding, self._refilling)
        self._switches = Switches(self._server, self._encoding)
        self._uncounted = Uncounted(self._server, self._encoding)
        self._on_fail_open = on_fail_open

    @classmethod
    def from_url(
        cls,
        redis_url: str,
        window: Window = "rolling",
        clock: Clock | Callable[[], float] | None = None,
        history: SendHistory | None = None,
        *,
        ca_file: Path | None = None,
        lease_ms: int = LEASE_MS,
        monotonic_clock: Callable[[], float] = monotonic,
        on_fail_open: Callable[[], object] = lambda: None,
    ) -> Self:
        """Make a limiter with a client of its own, whose timeouts are short and which never tries twice."""
        redis = redis_client(
            redis_url,
            ca_file=ca_file,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            timeout=READ_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            max_connections=MOST_CONNECTIONS,
        )
        return cls(
            redis,
            window,
            clock,
            history,
            lease_ms=lease_ms,
            monotonic_clock=monotonic_clock,
            on_fail_open=on_fail_open,
        )

    def close(self) -> None:
        """Close the connections to Redis; the next call opens them again."""
        self._server.redis.close()

    # --- one message -----------------------------------------------------------------------------------------------

    def check_and_reserve(
        self,
        mailbox_key: str,
        recipient_count: int,
        limits: RateLimits,
        reservation_id: str | None = None,
        *,
        upload_bytes: int = 0,
        external_count: int = 0,
        scopes: tuple[Scope, ...] = (),
    ) -> Reservation | Denial:
        """Take one call and ``recipient_count`` recipients from the mailbox's budgets, all or nothing, in one trip.

        ``external_count`` of them are taken from the day of each of the ``scopes`` besides. A mail whose files do not
        fit one request takes ``upload_bytes`` of the volume of uploads, too: they count until five minutes after it was
        settled. The same ``reservation_id`` asked again while it is in flight counts once. With Redis failing in
        whatever way the answer is an uncounted reservation, and ``mail.rateLimit.redisError`` is logged.
        """
        if recipient_count < 0:
            raise InvalidInputError("recipient_count", recipient_count, "0 or more")
        if upload_bytes < 0:
            raise InvalidInputError("upload_bytes", upload_bytes, "0 or more")
        if not 0 <= external_count <= recipient_count:
            raise InvalidInputError("external_count", external_count, "0 to recipient_count")
        mailbox_key = key_of(mailbox_key)
        if recipient_count > limits.recipients_per_day:
            return Denial("day", DAY_MS, never=True)
        for scope in scopes:
            if external_count > scope.external_per_day:
                return Denial("day", DAY_MS, never=True, scope=scope.name)
        if reservation_id is None:
            reservation_id = os.urandom(12).hex()
        may_start = not self._refilling.is_possible
        wanted = Wanted(recipient_count, upload_bytes, external_count, scopes if external_count else ())
        try:
            self._server.admit()
            reply = self._ask(mailbox_key, wanted, limits, reservation_id, may_start=may_start)
            if not isinstance(reply, int) and is_unknown(reply):
                if not self._refilling.refill(self._unknown(reply, mailbox_key, limits, wanted.scopes)):
                    # Started empty now it would never be filled: it runs open until its history can be read.
                    return self._granted_open(mailbox_key, wanted, reservation_id)
                reply = self._ask(mailbox_key, wanted, limits, reservation_id, may_start=True)
        except RedisError as error:
            self._server.warn(mailbox_key, error)
            return self._granted_open(mailbox_key, wanted, reservation_id, may_be_counted=may_have_run(error))
        self._server.answered()
        if self._uncounted:
            self._uncounted.tell()
        if isinstance(reply, int):
            return wanted.granted(reservation_id, mailbox_key, reply)
        return _denial(reply, wanted.scopes)

    def release(self, reservation: Reservation) -> None:
        """Give back just what the reservation took, once; nothing for one that Redis never counted."""
        if not reservation.counted:
            self._uncounted.not_sent(reservation)
            if self._server.is_answering:
                self._uncounted.tell()
            return
        keys, lease = keys_of(reservation), lease_field(reservation.id)
        self._server.or_open(
            lambda: self._server.run("release", *keys, lease, keys=len(keys)),
            None,
            reservation.mailbox_key,
            op="release",
        )

    def settle(self, reservation: Reservation, *, accepted: bool = True) -> None:
        """Say that the budget was used: it stays so, and the place in flight is free.

        An acceptance also ends slow probing after a pause; with ``accepted`` false nobody knows whether it was one.
        """
        if not reservation.counted:
            self._uncounted.used(reservation)
            return
        keys, lease = keys_of(reservation), lease_field(reservation.id)
        self._server.or_open(
            lambda: self._server.run("settle", *keys, lease, b"%d" % accepted, *self._encoding.now(), keys=len(keys)),
            None,
            reservation.mailbox_key,
        )

    @property
    def lease_seconds(self) -> float:
        """How long a place in flight is kept from when it was taken or extended."""
        return self._encoding.lease_ms / 1000

    def extend(self, reservation: Reservation, *, seconds: float = 0.0) -> None:
        """Keep the place in flight for a lease from now on, and ``seconds`` more; whatever else it took stays taken.

        Of a place that is free already, or that Redis never counted, nothing is kept.
        """
        if not reservation.counted:
            return
        key, lease = state_key(reservation.mailbox_key), lease_field(reservation.id)
        lasts, more = b"%d" % self._encoding.lease_ms, b"%d" % round(seconds * 1000)
        self._server.or_open(
            lambda: self._server.run("extend", key, lease, lasts, more, *self._encoding.now()),
            None,
            reservation.mailbox_key,
            op="extend",
        )

    def _ask(
        self, mailbox_key: str, wanted: Wanted, limits: RateLimits, reservation_id: str, *, may_start: bool
    ) -> int | str | bytes:
        recipient_count, upload_bytes, external, scopes = wanted
        reply: int | str | bytes = self._server.run(
            "check_and_reserve",
            state_key(mailbox_key),
            *(state_key(scope.key) for scope in scopes),
            self._encoding.limits(limits, may_start=may_start),
            lease_field(reservation_id),
            b"%d" % recipient_count,
            *self._encoding.now_and_more(limits, upload_bytes, external, scopes),
            keys=1 + len(scopes),
        )
        return reply

    @staticmethod
    def _unknown(
        reply: str | bytes, mailbox_key: str, limits: RateLimits, scopes: tuple[Scope, ...]
    ) -> dict[str, tuple[RateLimits, int]]:
        """Answer of which budgets nothing is known, each with its limits and the server's moment."""
        known = {mailbox_key: limits} | {scope.key: scope.limits for scope in scopes}
        return {key: (known[key], moment) for key, moment in unknown_of(reply, list(known)).items()}

    def _granted_open(
        self, mailbox_key: str, wanted: Wanted, reservation_id: str, *, may_be_counted: bool = False
    ) -> Reservation:
        """Let a mail go out that cannot be counted now, and remember it."""
        self._on_fail_open()
        now_ms = self._encoding.now_ms()
        granted = wanted.granted(reservation_id, mailbox_key, now_ms, counted=False)
        self._uncounted.remember(granted, may_be_counted=may_be_counted)
        return granted

    # --- one mailbox -----------------------------------------------------------------------------------------------

    def pause(
        self, mailbox_key: str, ms: int, reason: str, *, cause: PauseCause | None = None, by: str | None = None
    ) -> None:
        """Stop the mailbox for all workers for ``ms``; a longer pause that runs already stays.

        ``cause`` is the reason for programs, and ``by`` who wanted it. Afterwards one request at a time is let through
        until one is settled.
        """
        self._switches.pause(mailbox_key, ms, Why(reason, cause, by))

    def back_off(
        self,
        mailbox_key: str,
        base_ms: int,
        max_ms: int,
        reason: str,
        granted_ms: int | None = None,
        *,
        cause: PauseCause | None = None,
    ) -> int:
        """Pause the mailbox for ``base_ms``, doubled for every call in a row up to ``max_ms``; answer the ms chosen.

        A settled send ends the row. ``granted_ms`` is when the call that failed got its place: one granted before the
        running pause began tells nothing new and does not double it. With Redis failing nothing is paused, and
        ``base_ms`` is answered.
        """
        return self._switches.back_off(mailbox_key, base_ms, max_ms, Why(reason, cause), granted_ms)

    def count_rejection(self, mailbox_key: str) -> int:
        """Count a message that was refused for good; answer how many there were in a row (0 with Redis failing)."""
        return self._switches.count_rejection(mailbox_key)

    def resume(self, mailbox_key: str) -> bool:
        """End the mailbox's pause and all caution after it; false when Redis could not be told."""
        return self._switches.resume(mailbox_key)

    def reset(self, mailbox_key: str) -> bool:
        """Forget what was counted for the mailbox, neither its pause nor what is in flight; false when Redis failed."""
        return self._switches.reset(mailbox_key)

    # --- many mailboxes --------------------------------------------------------------------------------------------

    def usage(
        self, mailboxes: Mapping[str, RateLimits] | Iterable[str], limits: RateLimits = DEFAULT_LIMITS
    ) -> dict[str, Usage]:
        """Answer what each mailbox has used and has left, in one round trip for all of them.

        Give a mapping when mailboxes have limits of their own, or their keys alone to hold them all against ``limits``.
        Mailboxes that Redis forgot are refilled first, in two more round trips. With Redis failing, or a mailbox's keys
        holding something else than ours, its usage is not ``known``.
        """
        given = mailboxes if isinstance(mailboxes, Mapping) else dict.fromkeys(mailboxes, limits)
        return self._reading.usage({key_of(key): own for key, own in given.items()})

    def held(self, mailboxes: Mapping[str, RateLimits]) -> dict[str, Held]:
        """Answer what still counts of each mailbox, by the moments it was counted at; unreadable ones are left out."""
        return self._reading.held({key_of(key): own for key, own in mailboxes.items()})

    def health(self, mailbox_keys: Iterable[str] = ()) -> LimiterHealth:
        """Try what a decision needs (reach, sign in, write, run scripts), and look at the given mailboxes' keys."""
        return self._reading.health(map(key_of, mailbox_keys))


def _denial(reply: str | bytes, scopes: tuple[Scope, ...]) -> Denial:
    reason, retry_after, *why = text(reply).split(" ", 2)
    if reason.startswith("scope"):
        return Denial("day", int(retry_after), scope=scopes[int(reason[5:]) - 1].name)
    return Denial(
        REASONS[reason], int(retry_after), pause_reason=unpacked(why[0]).reason if reason == "paused" else None
    )
