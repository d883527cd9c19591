"""The one place that asks the machine what time it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

#: Answers the present moment as an aware UTC datetime; handed to everything that needs the time.
Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Answer the present moment, aware and in UTC."""
    return datetime.now(UTC)


def to_epoch_ms(moment: datetime) -> int:
    """Turn an aware datetime into whole milliseconds since 1970, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_epoch_ms(milliseconds: int) -> datetime:
    """Turn milliseconds since 1970 into an aware UTC datetime."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


#: Seconds of processor time this process has used: against :data:`monotonic` it tells how busy the process is.
cpu_seconds = time.process_time

#: Seconds on a clock that never jumps: for measuring durations and for breakers, never for dates.
monotonic = time.monotonic
