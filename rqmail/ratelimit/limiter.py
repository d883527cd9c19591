"""The brake: takes a place in a mailbox's budgets before a mail goes out, atomically, on Redis."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias, TypeVar

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    MaxConnectionsError,
    NoScriptError,
    RedisError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from rqmail.clock import Clock, monotonic, utc_now
from rqmail.errors import InvalidInputError
from rqmail.ratelimit import scripts
from rqmail.ratelimit.breaker import Breaker
from rqmail.ratelimit.connections import Connections
from rqmail.ratelimit.history import DAY_MS, PastCall, SendHistory, condense, since_ms
from rqmail.ratelimit.limits import DEFAULT_LIMITS, RateLimits
from rqmail.ratelimit.limits import mailbox_key as key_of
from rqmail.ratelimit.usage import Usage, WindowUsage

Window: TypeAlias = Literal["rolling", "fixed"]
DenialReason: TypeAlias = Literal["minute", "day", "in_flight", "paused"]

#: A request still in flight after this long is taken for lost with its worker, and its place is free again.
LEASE_MS = 120_000
#: Together below 300 ms: what a dead Redis may cost the first message.
CONNECT_TIMEOUT_SECONDS = 0.1
READ_TIMEOUT_SECONDS = 0.19
#: More than there can be lanes in a process.
MOST_CONNECTIONS = 512
#: A pause beyond a year is a mistake in a number.
LONGEST_PAUSE_MS = 366 * DAY_MS
#: Above this many calls a minute or recipients a day a limit is as good as none.
_LARGEST_LIMIT = 2**31 - 1
#: Others wait while a script runs: about three milliseconds for so many mailboxes.
_MAILBOXES_PER_SCRIPT = 100
_REASON_BYTES = 200
#: Sends of one process remembered while Redis is away: far more than it makes before somebody looks.
_MOST_UNCOUNTED = 10_000
#: So many of them are counted before one mail goes out: it waits for that.
_LATE_AT_ONCE = 100
#: The clocks of the server and of this machine are one when they are no further apart.
_SAME_CLOCK_MS = 1_000
_LIMITS = struct.Struct("<ddddBB")
_STATE = b"mail:rate:state:"
_LEASE = b"lease:"

T = TypeVar("T")

log = structlog.get_logger("rqmail.ratelimit")


@dataclass(frozen=True, slots=True)
class Reservation:
    """One call and its recipients, taken from a mailbox's budgets; not ``counted`` when Redis could not be asked."""

    id: str
    mailbox_key: str
    recipient_count: int
    granted_ms: int
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Denial:
    """No room: ``retry_after_ms`` is when this very request could pass, all windows considered, if it came alone.

    A place in flight may come free much sooner. ``never`` says that it has more recipients than a whole day allows, and
    ``pause_reason`` why the mailbox is paused.
    """

    reason: DenialReason
    retry_after_ms: int
    pause_reason: str | None = None
    never: bool = False


@dataclass(frozen=True, slots=True)
class LimiterHealth:
    """Whether the limiter brakes: ``unreachable`` passes by itself, ``misconfigured`` needs a person."""

    state: Literal["ok", "unreachable", "misconfigured"]
    text: str


class MailRateLimiter:
    """Keeps every mailbox within its calls a minute, recipients a day and requests in flight, over all processes.

    Fails open: whatever Redis does wrong, a mail goes out uncounted and ``mail.rateLimit.redisError`` is logged. One
    limiter serves all threads of a process, connects at first use and may be forked. ``on_fail_open`` hears of every
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
        self._redis = redis
        self._connections = Connections(redis)
        self._window = window
        self._clock = clock
        self._history = history
        self._lease_ms = lease_ms
        self._breaker = Breaker(monotonic_clock)
        self._on_fail_open = on_fail_open
        self._uncounted: dict[str, Reservation] = {}
        self._packed: dict[tuple[RateLimits, bool], bytes] = {}

    @classmethod
    def from_url(
        cls,
        redis_url: str,
        window: Window = "rolling",
        clock: Clock | Callable[[], float] | None = None,
        history: SendHistory | None = None,
        *,
        lease_ms: int = LEASE_MS,
        monotonic_clock: Callable[[], float] = monotonic,
        on_fail_open: Callable[[], object] = lambda: None,
    ) -> Self:
        """Make a limiter with a client of its own, whose timeouts are short and which never tries twice."""
        redis = Redis.from_url(
            redis_url,
            socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
            socket_timeout=READ_TIMEOUT_SECONDS,
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
        self._redis.close()

    # --- one message -----------------------------------------------------------------------------------------------

    def check_and_reserve(
        self, mailbox_key: str, recipient_count: int, limits: RateLimits, reservation_id: str | None = None
    ) -> Reservation | Denial:
        """Take one call and ``recipient_count`` recipients from the mailbox's budgets, all or nothing, in one trip.

        The same ``reservation_id`` asked again while it is in flight counts once. With Redis failing in whatever way
        the answer is an uncounted reservation, and ``mail.rateLimit.redisError`` is logged.
        """
        if recipient_count < 0:
            raise InvalidInputError("recipient_count", recipient_count, "0 or more")
        mailbox_key = key_of(mailbox_key)
        if recipient_count > limits.recipients_per_day:
            return Denial("day", DAY_MS, never=True)
        if reservation_id is None:
            reservation_id = os.urandom(12).hex()
        try:
            if not self._breaker.admits():
                raise _HeldBackError
            reply = self._ask(mailbox_key, recipient_count, limits, reservation_id, may_start=self._history is None)
            if not isinstance(reply, int) and _is_unknown(reply):
                if not self._refill({mailbox_key: (limits, _moment(reply))}):
                    # Started empty now it would never be filled: it runs open until its history can be read.
                    return self._granted_open(mailbox_key, recipient_count, reservation_id)
                reply = self._ask(mailbox_key, recipient_count, limits, reservation_id, may_start=True)
        except RedisError as error:
            self._warn(mailbox_key, error)
            return self._granted_open(mailbox_key, recipient_count, reservation_id)
        self._breaker.succeeded()
        if self._uncounted:
            self._count_late()
        if isinstance(reply, int):
            return Reservation(reservation_id, mailbox_key, recipient_count, reply)
        return _denial(reply)

    def release(self, reservation: Reservation) -> None:
        """Give back just what the reservation took, once; nothing for one that Redis never counted."""
        if not reservation.counted:
            self._uncounted.pop(reservation.id, None)
            return
        key, lease = _state_key(reservation.mailbox_key), _LEASE + reservation.id.encode()
        self._or_open(
            lambda: self._run(scripts.RELEASE, key, lease),
            None,
            reservation.mailbox_key,
            op="release",
        )

    def settle(self, reservation: Reservation, *, accepted: bool = True) -> None:
        """Say that the budget was used: it stays so, and the place in flight is free.

        An acceptance also ends slow probing after a pause; with ``accepted`` false nobody knows whether it was one.
        """
        if not reservation.counted:
            return
        key, lease = _state_key(reservation.mailbox_key), _LEASE + reservation.id.encode()
        self._or_open(lambda: self._run(scripts.SETTLE, key, lease, b"%d" % accepted), None, reservation.mailbox_key)

    # --- one mailbox -----------------------------------------------------------------------------------------------

    def pause(self, mailbox_key: str, ms: int, reason: str) -> None:
        """Stop the mailbox for all workers for ``ms``; a longer pause that runs already stays.

        Afterwards one request at a time is let through until one is settled.
        """
        mailbox_key = key_of(mailbox_key)
        arguments = (b"%d" % max(0, min(ms, LONGEST_PAUSE_MS)), _clipped(reason), *self._now())
        self._or_open(lambda: self._run(scripts.PAUSE, _state_key(mailbox_key), *arguments), None, mailbox_key)

    def back_off(self, mailbox_key: str, base_ms: int, max_ms: int, reason: str, granted_ms: int | None = None) -> int:
        """Pause the mailbox for ``base_ms``, doubled for every call in a row up to ``max_ms``; answer the ms chosen.

        A settled send ends the row. ``granted_ms`` is when the call that failed got its place: one granted before the
        running pause began tells nothing new and does not double it. With Redis failing nothing is paused, and
        ``base_ms`` is answered.
        """
        mailbox_key = key_of(mailbox_key)
        granted = b"" if granted_ms is None else b"%d" % granted_ms
        longest = min(max_ms, LONGEST_PAUSE_MS)
        arguments = (b"%d" % base_ms, b"%d" % longest, _clipped(reason), granted, *self._now())
        return self._or_open(
            lambda: int(self._run(scripts.BACK_OFF, _state_key(mailbox_key), *arguments)),
            base_ms,
            mailbox_key,
        )

    def strike(self, mailbox_key: str) -> int:
        """Count a message that was refused for good; answer how many there were in a row (0 with Redis failing)."""
        mailbox_key = key_of(mailbox_key)
        return self._or_open(lambda: int(self._run(scripts.STRIKE, _state_key(mailbox_key))), 0, mailbox_key)

    def resume(self, mailbox_key: str) -> bool:
        """End the mailbox's pause and all caution after it; false when Redis could not be told."""
        mailbox_key = key_of(mailbox_key)
        return self._or_open(lambda: self._redis.hdel(_state_key(mailbox_key), "pause") is not None, False, mailbox_key)

    def reset(self, mailbox_key: str) -> bool:
        """Forget what was counted for the mailbox, neither its pause nor what is in flight; false when Redis failed."""
        mailbox_key = key_of(mailbox_key)
        arguments = (b"%d" % (self._window == "rolling"), *self._now())
        return self._or_open(
            lambda: bool(self._run(scripts.RESET, _state_key(mailbox_key), *arguments)),
            False,
            mailbox_key,
        )

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
        wanted = {key_of(key): own for key, own in given.items()}
        if not wanted:
            return {}
        blamed = next(iter(wanted)) if len(wanted) == 1 else "*"
        nothing: dict[str, str] = {}
        replies = self._or_open(lambda: self._refilled_usage(wanted), nothing, blamed)
        return {key: self._usage(key, own, replies.get(key, "")) for key, own in wanted.items()}

    def health(self, mailbox_keys: Iterable[str] = ()) -> LimiterHealth:
        """Try what a decision needs (reach, sign in, write, run scripts), and look at the given mailboxes' keys."""
        try:
            self._redis.set("mail:rate:health", 1, ex=10)
            replies = self._ask_usage(dict.fromkeys(map(key_of, mailbox_keys), DEFAULT_LIMITS), may_start=True)
        except (AuthenticationError, AuthorizationError) as error:
            return LimiterHealth("misconfigured", _short(error))
        except (ConnectionError, TimeoutError) as error:
            return LimiterHealth("unreachable", _short(error))
        except ResponseError as error:
            busy = str(error).startswith(("BUSY", "LOADING", "MASTERDOWN"))
            return LimiterHealth("unreachable" if busy else "misconfigured", _short(error))
        except RedisError as error:
            return LimiterHealth("misconfigured", _short(error))
        for key, reply in replies.items():
            if reply.startswith("error"):
                return LimiterHealth("misconfigured", f"{key}: {reply.removeprefix('error ')}")
        return LimiterHealth("ok", "")

    # --- talking to the scripts ------------------------------------------------------------------------------------

    def _run(self, script: scripts.Script, *arguments: bytes) -> Any:
        command = scripts.packed(script, arguments)
        try:
            return self._connections.ask(command)
        except NoScriptError:
            scripts.register(self._redis, script)
            return self._connections.ask(command)

    def _ask(
        self, mailbox_key: str, recipient_count: int, limits: RateLimits, reservation_id: str, *, may_start: bool
    ) -> int | str | bytes:
        reply: int | str | bytes = self._run(
            scripts.CHECK_AND_RESERVE,
            _state_key(mailbox_key),
            self._pack(limits, may_start),
            _LEASE + reservation_id.encode(),
            b"%d" % recipient_count,
            *self._now(),
        )
        return reply

    def _ask_usage(self, wanted: Mapping[str, RateLimits], *, may_start: bool) -> dict[str, str]:
        keys = list(wanted)
        now = self._now() or (b"",)
        calls: list[tuple[int, list[bytes]]] = []
        for start in range(0, len(keys), _MAILBOXES_PER_SCRIPT):
            chunk = keys[start : start + _MAILBOXES_PER_SCRIPT]
            packed = (self._pack(wanted[key], may_start) for key in chunk)
            calls.append((len(chunk), [*map(_state_key, chunk), *now, *packed]))
        answers = scripts.run_many(self._redis, scripts.USAGE, calls)
        return dict(zip(keys, (_text(reply) for answer in answers for reply in answer), strict=True))

    def _refilled_usage(self, wanted: Mapping[str, RateLimits]) -> dict[str, str]:
        replies = self._ask_usage(wanted, may_start=self._history is None)
        unknown = {key: (wanted[key], _moment(reply)) for key, reply in replies.items() if _is_unknown(reply)}
        if unknown:
            self._refill(unknown)
            replies |= self._ask_usage({key: limits for key, (limits, _) in unknown.items()}, may_start=True)
        return replies

    def _refill(self, unknown: Mapping[str, tuple[RateLimits, int]]) -> bool:
        """Count what the history knows of mailboxes that Redis forgot; of racing refills the first one counts.

        Answers whether all of it could be read.
        """
        if self._history is None:
            return True
        calls: list[tuple[int, list[bytes]]] = []
        told: list[tuple[str, int, int]] = []
        for key, (limits, now_ms) in unknown.items():
            try:
                sent = self._told(self._history, key, now_ms)
            except Exception as error:  # noqa: BLE001 - whatever the database does, the mail goes out
                log.warning("mail.rateLimit.refillFailed", mailboxKey=key, err=_short(error))
                continue
            arguments = [_state_key(key), self._pack(limits, True), b"%d" % now_ms]
            for call in sent:
                lease = _LEASE + call.reservation_id.encode() if call.reservation_id else b""
                arguments += (b"%d" % call.at_ms, b"%d" % call.recipients, lease)
            calls.append((1, arguments))
            told.append((key, len(sent), sum(call.recipients for call in sent)))
        if not calls:
            return False
        filled = scripts.run_many(self._redis, scripts.FILL, calls)
        for (key, count, recipients), first in zip(told, filled, strict=True):
            if first and count:
                log.info("mail.rateLimit.refilled", mailboxKey=key, calls=count, recipients=recipients)
        return len(calls) == len(unknown)

    def _told(self, history: SendHistory, key: str, now_ms: int) -> list[PastCall]:
        """Ask the history in the time of this machine, and answer in the server's, where they are apart."""
        here_ms = self._now_ms()
        shift_ms = now_ms - here_ms if abs(now_ms - here_ms) > _SAME_CLOCK_MS else 0
        return condense(history(key, since_ms(now_ms - shift_ms), now_ms - shift_ms), now_ms, shift_ms)

    def _pack(self, limits: RateLimits, may_start: bool) -> bytes:
        packed = self._packed.get((limits, may_start))
        if packed is None:
            packed = self._packed[limits, may_start] = _LIMITS.pack(
                min(limits.per_minute, _LARGEST_LIMIT),
                min(limits.recipients_per_day, _LARGEST_LIMIT),
                limits.in_flight,
                self._lease_ms,
                self._window == "rolling",
                may_start,
            )
        return packed

    def _now(self) -> tuple[bytes, ...]:
        """Answer the handed-in moment as a script wants it, or nothing: then the server takes its own."""
        if self._clock is None:
            return ()
        return (b"%.3f" % _to_ms(self._clock()),)

    def _now_ms(self) -> int:
        return int(_to_ms((self._clock or utc_now)()))

    def _usage(self, key: str, limits: RateLimits, reply: str) -> Usage:
        if not reply.startswith("ok"):
            if reply:
                self._warn(key, ResponseError(reply.removeprefix("error ")))
            return _unknown_usage(key, limits, self._now_ms())
        fields = reply.split(None, 11)
        now, calls, recent, addressed, total, live, allowed, free_at = map(int, fields[1:9])
        reason, paused_until = _REASONS.get(fields[9]), int(fields[10])
        rolling = self._window == "rolling"
        return Usage(
            mailbox_key=key,
            now_ms=now,
            minute_bucket=WindowUsage(calls, limits.per_minute),
            minute_rolling=WindowUsage(recent, limits.per_minute) if rolling else None,
            day_bucket=WindowUsage(addressed, limits.recipients_per_day),
            day_rolling=WindowUsage(total, limits.recipients_per_day) if rolling else None,
            in_flight=WindowUsage(live, allowed),
            next_free_ms=free_at,
            waits_for=reason,
            paused_until_ms=paused_until or None,
            pause_reason=(fields[11] if len(fields) > 11 else "") if paused_until else None,
        )

    # --- failing open ----------------------------------------------------------------------------------------------

    def _granted_open(self, mailbox_key: str, recipient_count: int, reservation_id: str) -> Reservation:
        """Let a mail go out that cannot be counted now, and remember it."""
        self._on_fail_open()
        granted = Reservation(reservation_id, mailbox_key, recipient_count, self._now_ms(), counted=False)
        if len(self._uncounted) < _MOST_UNCOUNTED:
            self._uncounted[reservation_id] = granted
        return granted

    def _count_late(self) -> None:
        """Count some of what went out while Redis could not be asked; the rest, or all if it is gone again, later."""
        for _ in range(_LATE_AT_ONCE):
            try:
                reservation_id, late = self._uncounted.popitem()
            except KeyError:  # that was all
                return
            try:
                key, recipients = _state_key(late.mailbox_key), b"%d" % late.recipient_count
                self._run(scripts.COUNT_LATE, key, _LEASE + reservation_id.encode(), recipients, *self._now())
            except (ConnectionError, TimeoutError) as error:
                self._uncounted[reservation_id] = late
                self._warn(late.mailbox_key, error)
                return
            except RedisError:
                continue  # it answers, and refuses to count this one: asking again would not help

    def _or_open(self, call: Callable[[], T], otherwise: T, mailbox_key: str, op: str | None = None) -> T:
        """Answer the call, or ``otherwise`` after one warning when Redis fails; a server that is down is not asked."""
        try:
            if not self._breaker.admits():
                raise _HeldBackError
            answer = call()
        except RedisError as error:
            self._warn(mailbox_key, error, op)
            return otherwise
        self._breaker.succeeded()
        return answer

    def _warn(self, mailbox_key: str, error: RedisError, op: str | None = None) -> None:
        if isinstance(error, (_HeldBackError, MaxConnectionsError)):
            pass  # says nothing about the server
        elif isinstance(error, (ConnectionError, TimeoutError)):
            self._breaker.failed()
        else:
            self._breaker.succeeded()  # it answered, if only with an error
        fields = {"mailboxKey": mailbox_key, "err": _short(error)}
        if op is not None:
            fields["op"] = op
        log.warning("mail.rateLimit.redisError", **fields)


class _HeldBackError(ConnectionError):
    """Redis did not answer a moment ago; it was not asked again."""

    def __str__(self) -> str:
        return "did not answer a moment ago, not asked again yet"


def _to_ms(moment: datetime | float) -> float:
    return moment.timestamp() * 1000 if isinstance(moment, datetime) else moment


def _denial(reply: str | bytes) -> Denial:
    reason, retry_after, *why = _text(reply).split(" ", 2)
    return Denial(_REASONS[reason], int(retry_after), pause_reason=why[0] if reason == "paused" else None)


_REASONS: dict[str, DenialReason] = {"minute": "minute", "day": "day", "in_flight": "in_flight", "paused": "paused"}


def _state_key(mailbox_key: str) -> bytes:
    return _STATE + mailbox_key.encode()


def _is_unknown(reply: str | bytes) -> bool:
    return reply[:7] in (b"unknown", "unknown")


def _moment(reply: str | bytes) -> int:
    return int(float(reply.split()[1]))


def _text(reply: str | bytes) -> str:
    return reply if isinstance(reply, str) else reply.decode(errors="replace")


def _clipped(reason: str) -> bytes:
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore").encode()


def _short(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def _unknown_usage(key: str, limits: RateLimits, now_ms: int) -> Usage:
    minute, day = WindowUsage(0, limits.per_minute), WindowUsage(0, limits.recipients_per_day)
    return Usage(
        mailbox_key=key,
        now_ms=now_ms,
        minute_bucket=minute,
        minute_rolling=None,
        day_bucket=day,
        day_rolling=None,
        in_flight=WindowUsage(0, limits.in_flight),
        next_free_ms=now_ms,
        known=False,
    )
