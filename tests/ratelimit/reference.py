"""What the limiter promises, written down once more in the plainest way: a list of all that was granted."""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTE, SLOT, DAY = 60_000, 600_000, 86_400_000


@dataclass
class Call:
    id: str
    at: float
    recipients: int
    in_flight: bool = True


@dataclass
class Model:
    """Counts by looking at every call there ever was."""

    per_minute: int
    per_day: int
    in_flight: int
    rolling: bool
    lease_ms: int
    calls: list[Call] = field(default_factory=list)

    def admits(self, now: float, recipients: int) -> bool:
        if sum(call.in_flight and call.at + self.lease_ms > now for call in self.calls) >= self.in_flight:
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
