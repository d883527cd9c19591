"""What the limiter promises, written down once more in the plainest way: a list of all that was granted."""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTE, SLOT, DAY, UPLOAD_WINDOW = 60_000, 600_000, 86_400_000, 300_000


@dataclass
class Call:
    id: str
    at: float
    recipients: int
    in_flight: bool = True
    upload: int = 0
    extended: float | None = None  # when its lease was extended last
    more: float = 0
    settled: float | None = None

    def lease_ends(self, lease_ms: int) -> float:
        return (self.at if self.extended is None else self.extended) + self.more + lease_ms


@dataclass
class Model:
    """Counts by looking at every call there ever was."""

    per_minute: int
    per_day: int
    in_flight: int
    rolling: bool
    lease_ms: int
    upload_bytes: int = 150_000_000
    calls: list[Call] = field(default_factory=list)

    def running(self, now: float) -> int:
        return sum(call.in_flight and call.lease_ends(self.lease_ms) > now for call in self.calls)

    def uploaded(self, now: float) -> int:
        """The bytes of uploads that ended (at the latest when their lease did) in the last five minutes, or run."""
        return sum(call.upload for call in self.calls if self._upload_counts(call, now))

    def settle(self, call: Call, now: float) -> None:
        call.in_flight = False
        if self._upload_counts(call, now):
            call.settled = now

    def _upload_counts(self, call: Call, now: float) -> bool:
        ended = call.lease_ends(self.lease_ms) if call.settled is None else call.settled
        return ended + UPLOAD_WINDOW > now

    def admits(self, now: float, recipients: int, upload: int = 0) -> bool:
        if self.running(now) >= self.in_flight:
            return False
        if upload and self.uploaded(now) + min(upload, self.upload_bytes) > self.upload_bytes:
            return False
        minute = [call for call in self.calls if call.at // MINUTE == now // MINUTE]
        day = [call for call in self.calls if call.at // DAY == now // DAY]
        if len(minute) >= self.per_minute or sum(call.recipients for call in day) + recipients > self.per_day:
            return False
        if not self.rolling:
            return True
        recent = [call for call in self.calls if call.at > now - MINUTE]
        held = [call for call in self.calls if (call.at // SLOT + 1) * SLOT + DAY > now]
        return len(recent) < self.per_minute and sum(call.recipients for call in held) + recipients <= self.per_day

    def most_in_any(self, length: float) -> tuple[int, int]:
        """The most calls and the most recipients that any stretch of that length holds."""
        calls = recipients = 0
        for first in self.calls:
            inside = [call for call in self.calls if first.at <= call.at < first.at + length]
            calls, recipients = max(calls, len(inside)), max(recipients, sum(call.recipients for call in inside))
        return calls, recipients
