"""Reads what many mailboxes have used and have left, and whether the limiter brakes at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from rqmail.ratelimit.encoding import Encoding, Why, is_unknown, moment_of, state_key, text, unpacked
from rqmail.ratelimit.limits import DEFAULT_LIMITS, RateLimits
from rqmail.ratelimit.refilling import Refilling
from rqmail.ratelimit.server import Server, short
from rqmail.ratelimit.usage import Held, Usage, WindowUsage

#: What a mailbox waits for, as the script says it.
_WAITS: dict[str, Literal["minute", "day", "in_flight", "paused"] | None] = {
    "-": None,
    "minute": "minute",
    "day": "day",
    "paused": "paused",
}

#: Others wait while a script runs: about three milliseconds for so many mailboxes.
_MAILBOXES_PER_SCRIPT = 100


@dataclass(frozen=True, slots=True)
class LimiterHealth:
    """Whether the limiter brakes: ``unreachable`` passes by itself, ``misconfigured`` needs a person."""

    state: Literal["ok", "unreachable", "misconfigured"]
    text: str


class Reading:
    """Asks for all mailboxes in one round trip, and refills those that Redis forgot in two more."""

    def __init__(self, server: Server, encoding: Encoding, refilling: Refilling) -> None:
        self._server = server
        self._encoding = encoding
        self._refilling = refilling

    def usage(self, wanted: Mapping[str, RateLimits]) -> dict[str, Usage]:
        """Answer the usage of mailboxes, each held against its limits; one that cannot be read is not ``known``."""
        if not wanted:
            return {}
        blamed = next(iter(wanted)) if len(wanted) == 1 else "*"
        nothing: dict[str, str] = {}
        replies = self._server.or_open(lambda: self._ask_refilled(wanted), nothing, blamed)
        return {key: self._usage(key, own, replies.get(key, "")) for key, own in wanted.items()}

    def held(self, wanted: Mapping[str, RateLimits]) -> dict[str, Held]:
        """Answer what still counts of mailboxes, by its moments; one that cannot be read is left out."""
        readable = {key: wanted[key] for key, usage in self.usage(wanted).items() if usage.known}
        if not readable:
            return {}
        nothing: dict[str, str] = {}
        replies = self._server.or_open(lambda: self._ask(readable, may_start=True, verb="held"), nothing, "*")
        return {key: Held(*map(_moments, reply.split("|"))) for key, reply in replies.items()}

    def health(self, mailbox_keys: Iterable[str]) -> LimiterHealth:
        """Try what a decision needs (reach, sign in, write, run scripts), and look at the given mailboxes' keys."""
        try:
            self._server.redis.set("mail:rate:health", 1, ex=10)
            replies = self._ask(dict.fromkeys(mailbox_keys, DEFAULT_LIMITS), may_start=True)
        except (AuthenticationError, AuthorizationError) as error:
            return LimiterHealth("misconfigured", short(error))
        except (ConnectionError, TimeoutError) as error:
            return LimiterHealth("unreachable", short(error))
        except ResponseError as error:
            busy = str(error).startswith(("BUSY", "LOADING", "MASTERDOWN"))
            return LimiterHealth("unreachable" if busy else "misconfigured", short(error))
        except RedisError as error:
            return LimiterHealth("misconfigured", short(error))
        for key, reply in replies.items():
            if reply.startswith("error"):
                return LimiterHealth("misconfigured", f"{key}: {reply.removeprefix('error ')}")
        return LimiterHealth("ok", "")

    def _ask_refilled(self, wanted: Mapping[str, RateLimits]) -> dict[str, str]:
        replies = self._ask(wanted, may_start=not self._refilling.is_possible)
        unknown = {key: (wanted[key], moment_of(reply)) for key, reply in replies.items() if is_unknown(reply)}
        if unknown:
            self._refilling.refill(unknown)
            replies |= self._ask({key: limits for key, (limits, _) in unknown.items()}, may_start=True)
        return replies

    def _ask(
        self, wanted: Mapping[str, RateLimits], *, may_start: bool, verb: Literal["usage", "held"] = "usage"
    ) -> dict[str, str]:
        keys = list(wanted)
        now = self._encoding.now() or (b"",)
        calls: list[tuple[int, list[bytes]]] = []
        for start in range(0, len(keys), _MAILBOXES_PER_SCRIPT):
            chunk = keys[start : start + _MAILBOXES_PER_SCRIPT]
            packed = (self._encoding.limits(wanted[key], may_start=may_start) for key in chunk)
            calls.append((len(chunk), [*map(state_key, chunk), *now, *packed]))
        answers = self._server.run_many(verb, calls)
        return dict(zip(keys, (text(reply) for answer in answers for reply in answer), strict=True))

    def _usage(self, key: str, limits: RateLimits, reply: str) -> Usage:
        if not reply.startswith("ok"):
            if reply:
                self._server.warn(key, ResponseError(reply.removeprefix("error ")))
            return _unknown_usage(key, limits, self._encoding.now_ms())
        fields = reply.split(None, 13)
        now, calls, recent, addressed, total, live, allowed, free_at = map(int, fields[1:9])
        uploaded, uploads_free, paused_until = map(int, fields[10:13])
        why = unpacked(fields[13]) if paused_until and len(fields) > 13 else Why("")
        rolling = self._encoding.window == "rolling"
        return Usage(
            mailbox_key=key,
            now_ms=now,
            minute_bucket=WindowUsage(calls, limits.per_minute),
            minute_rolling=WindowUsage(recent, limits.per_minute) if rolling else None,
            day_bucket=WindowUsage(addressed, limits.recipients_per_day),
            day_rolling=WindowUsage(total, limits.recipients_per_day) if rolling else None,
            in_flight=WindowUsage(live, allowed),
            next_free_ms=free_at,
            waits_for=_WAITS[fields[9]],
            uploads=WindowUsage(uploaded, limits.upload_bytes),
            uploads_free_ms=uploads_free or None,
            paused_until_ms=paused_until or None,
            pause_reason=why.reason if paused_until else None,
            pause_cause=why.cause,
            paused_by=why.by,
        )


def _moments(told: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(at), int(number)) for at, _, number in (part.partition("=") for part in told.split()))


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
