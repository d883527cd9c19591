"""What a mailbox has used and has left, as the checks of the limiter see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rqmail.errors import PauseCause


@dataclass(frozen=True)
class WindowUsage:
    """One window of one mailbox: how much of the limit is used."""

    used: int
    limit: int

    @property
    def remaining(self) -> int:
        """Answer what is left, never below zero."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True)
class Usage:
    """What one mailbox has used and has left at ``now_ms``; all moments are milliseconds since 1970.

    ``minute_rolling`` and ``day_rolling`` are ``None`` with fixed windows. ``next_free_ms`` is the earliest moment at
    which a message with one recipient could pass, requests in flight left aside: ``now_ms`` when that is now. Otherwise
    ``waits_for`` is what ends then.
    ``uploads`` are the bytes that were uploaded and count still, and some of them count no more at ``uploads_free_ms``.
    ``known`` is false when Redis could not tell: then nothing is used, because the limiter lets everything through.
    """

    mailbox_key: str
    now_ms: int
    minute_bucket: WindowUsage
    minute_rolling: WindowUsage | None
    day_bucket: WindowUsage
    day_rolling: WindowUsage | None
    in_flight: WindowUsage
    next_free_ms: int
    waits_for: Literal["minute", "day", "in_flight", "paused"] | None = None
    uploads: WindowUsage | None = None
    uploads_free_ms: int | None = None
    paused_until_ms: int | None = None
    pause_reason: str | None = None
    pause_cause: PauseCause | None = None
    paused_by: str | None = None
    known: bool = True

    @property
    def minute(self) -> WindowUsage:
        """Answer the minute window that denies first."""
        return _tighter(self.minute_bucket, self.minute_rolling)

    @property
    def day(self) -> WindowUsage:
        """Answer the day window that denies first."""
        return _tighter(self.day_bucket, self.day_rolling)


@dataclass(frozen=True)
class Held:
    """What still counts of one mailbox: calls of this minute, recipients of this day, uploaded bytes of five minutes.

    Each is (ms since 1970, number); the window of an upload in flight begins in a time to come.
    Recipients are told at the begin of the slot they were counted in; with fixed windows all is told at this moment.
    """

    calls: tuple[tuple[int, int], ...] = ()
    recipients: tuple[tuple[int, int], ...] = ()
    uploads: tuple[tuple[int, int], ...] = ()


def _tighter(bucket: WindowUsage, rolling: WindowUsage | None) -> WindowUsage:
    return rolling if rolling is not None and rolling.used > bucket.used else bucket
