"""How keys, limits and moments go to the scripts."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias, get_args

from rqmail.clock import Clock, utc_now
from rqmail.errors import PauseCause
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.scopes import Scope
from rqmail.text.scrubbing import scrubbed_start

Window: TypeAlias = Literal["rolling", "fixed"]

#: Above this many calls a minute or recipients a day a limit is as good as none.
_LARGEST_LIMIT = 2**31 - 1
_LIMITS = struct.Struct("<ddddBB")
_UPLOAD = struct.Struct("<dd")
_SCOPES = {number: struct.Struct(f"<{number + 1}d") for number in (1, 2)}
_STATE = b"mail:rate:state:"
_LEASE = b"lease:"
_REASON_BYTES = 200
#: A pause's cause, and who wanted it, before its reason: a server may hold pauses without them, of an earlier version.
_CAUSE = re.compile(rf"\[({'|'.join(get_args(PauseCause))})(?: ([^\]]*))?\] ?", re.ASCII)


class Why(NamedTuple):
    """Why a mailbox is paused: in words, for programs, and who wanted it, as far as known."""

    reason: str
    cause: PauseCause | None = None
    by: str | None = None


def state_key(mailbox_key: str) -> bytes:
    """Answer the key that holds the mailbox's state."""
    return _STATE + mailbox_key.encode()


def lease_field(reservation_id: str) -> bytes:
    """Answer the field of the state that holds the reservation while it is in flight."""
    return _LEASE + reservation_id.encode()


def packed(why: Why) -> bytes:
    """Answer why a mailbox is paused as the scripts keep it, the reason in at most 200 bytes."""
    clipped = scrubbed_start(why.reason, _REASON_BYTES).encode()[:_REASON_BYTES].decode(errors="ignore").encode()
    if why.cause is None:
        return clipped
    by = "" if why.by is None else " " + why.by.replace("]", "")
    return f"[{why.cause}{by}] ".encode() + clipped


def unpacked(kept: str) -> Why:
    """Read why a mailbox is paused."""
    found = _CAUSE.match(kept)
    if found is None:
        return Why(kept)
    cause: PauseCause = found[1]  # type: ignore[assignment]
    return Why(kept[found.end() :], cause, found[2])


def text(reply: str | bytes) -> str:
    """Answer a reply as text, whether the client decodes or not."""
    return reply if isinstance(reply, str) else reply.decode(errors="replace")


def is_unknown(reply: str | bytes) -> bool:
    """Say whether a script has no trustworthy counts of a mailbox."""
    return reply[:7] in (b"unknown", "unknown")


def unknown_of(reply: str | bytes, keys: Sequence[str]) -> dict[str, int]:
    """Answer of which of the keys that a script was run on it knows nothing, and when, in ms of its clock."""
    _, moment, flags = text(reply).split()
    return {key: int(float(moment)) for key, flag in zip(keys, flags, strict=True) if flag == "1"}


def moment_of(reply: str | bytes) -> int:
    """Answer when a script said that it knows nothing, in milliseconds of its clock."""
    return int(float(reply.split()[1]))


class Encoding:
    """What every script is told by one limiter: kind of window, lease, and the time where it is handed in."""

    def __init__(self, window: Window, lease_ms: int, clock: Clock | Callable[[], float] | None) -> None:
        self.window = window
        self.lease_ms = lease_ms
        self._clock = clock
        self._packed: dict[tuple[RateLimits, bool], bytes] = {}

    def limits(self, limits: RateLimits, *, may_start: bool) -> bytes:
        """Pack limits as the scripts read them; with ``may_start`` an unknown mailbox begins empty."""
        packed = self._packed.get((limits, may_start))
        if packed is None:
            packed = self._packed[limits, may_start] = _LIMITS.pack(
                min(limits.per_minute, _LARGEST_LIMIT),
                min(limits.recipients_per_day, _LARGEST_LIMIT),
                limits.in_flight,
                self.lease_ms,
                self.window == "rolling",
                may_start,
            )
        return packed

    def now_and_more(
        self, limits: RateLimits, upload_bytes: int, external_count: int, scopes: Sequence[Scope]
    ) -> tuple[bytes, ...]:
        """Answer the moment as :meth:`now` does, and what a mail that uploads or has scopes asks for besides."""
        if not upload_bytes and not scopes:
            return self.now()
        upload = _UPLOAD.pack(upload_bytes, limits.upload_bytes) if upload_bytes else b""
        moment = self.now() or (b"",)
        if not scopes:
            return (*moment, upload)
        most = (min(scope.external_per_day, _LARGEST_LIMIT) for scope in scopes)
        return (*moment, upload, _SCOPES[len(scopes)].pack(external_count, *most))

    def now(self) -> tuple[bytes, ...]:
        """Answer the handed-in moment as a script wants it, or nothing: then the server takes its own."""
        if self._clock is None:
            return ()
        return (b"%.3f" % _to_ms(self._clock()),)

    def now_ms(self) -> int:
        """Answer the moment here, in milliseconds since 1970."""
        return int(_to_ms((self._clock or utc_now)()))


def _to_ms(moment: datetime | float) -> float:
    return moment.timestamp() * 1000 if isinstance(moment, datetime) else moment
