"""When a campaign may send: hours of some days of the week, in a time zone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from rqmail.errors import InvalidInputError
from rqmail.intake.moments import zone_named

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_BETWEEN = re.compile(r"(\d{1,2}):(\d{2})\s*[-–]\s*(\d{1,2}):(\d{2})")


@dataclass(frozen=True, slots=True)
class SendingWindow:
    """From ``begins`` to before ``ends`` by the clocks of ``zone``, on ``days`` (0 is Monday).

    One that ends earlier than it begins goes on past midnight: the night belongs to the day on which it began.
    """

    begins: time
    ends: time
    zone: str
    days: tuple[int, ...] = tuple(range(7))

    def is_open(self, now: datetime) -> bool:
        """Say whether mail may go out at this moment."""
        local = now.astimezone(ZoneInfo(self.zone))
        clock, day = local.time(), local.weekday()
        if self.begins < self.ends:
            return day in self.days and self.begins <= clock < self.ends
        return (day in self.days and clock >= self.begins) or ((day - 1) % 7 in self.days and clock < self.ends)

    def opens_after(self, now: datetime) -> datetime:
        """Answer when mail may go out next: this very moment, or when the window opens."""
        if self.is_open(now):
            return now
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        openings = (
            datetime.combine(today + timedelta(days=ahead), self.begins, zone)
            for ahead in range(9)
            if (today + timedelta(days=ahead)).weekday() in self.days
        )
        return next(one for one in openings if one > now).astimezone(now.tzinfo)

    def closes_after(self, now: datetime) -> datetime:
        """Answer when the window that is open now closes."""
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        closings = (datetime.combine(today + timedelta(days=ahead), self.ends, zone) for ahead in range(3))
        return next(one for one in closings if one > now).astimezone(now.tzinfo)

    def to_column(self) -> str:
        """Write it as JSON."""
        told = {"begins": f"{self.begins:%H:%M}", "ends": f"{self.ends:%H:%M}", "zone": self.zone, "days": self.days}
        return json.dumps(told)

    def __str__(self) -> str:
        days = "" if len(self.days) == len(DAYS) else f" on {', '.join(DAYS[day] for day in self.days)}"
        return f"{self.begins:%H:%M}-{self.ends:%H:%M}{days} ({self.zone})"


def window_of(column: str | None) -> SendingWindow | None:
    """Read what :meth:`SendingWindow.to_column` wrote."""
    if not column:
        return None
    told = json.loads(column)
    return SendingWindow(
        time.fromisoformat(told["begins"]), time.fromisoformat(told["ends"]), told["zone"], tuple(told["days"])
    )


def parse_window(
    between: str | None, weekdays: str | None, zone: str | None, *, usual_zone: str | None = None
) -> SendingWindow | None:
    """Answer the window that is typed as ``08:00-20:00``, ``mon-fri`` (or ``mon,wed``) and ``Europe/Amsterdam``.

    Without a zone ``usual_zone`` holds. Raises ``InvalidInputError`` naming what cannot be used. Nothing typed is no
    window.
    """
    if between is None and weekdays is None:
        if zone is not None:
            raise InvalidInputError("timezone", zone, "hours or days that it is for: between, weekdays")
        return None
    zone = zone or usual_zone
    if zone is None:
        raise InvalidInputError("timezone", "", "a zone such as Europe/Amsterdam; RQMAIL_TIMEZONE sets one for all")
    begins, ends = (time(0), time(0)) if between is None else _hours(between)
    return SendingWindow(begins, ends, zone_named("timezone", zone).key, _days(weekdays))


def _hours(typed: str) -> tuple[time, time]:
    allowed = "hours such as 08:00-20:00"
    found = _BETWEEN.fullmatch(typed.strip())
    if found is None:
        raise InvalidInputError("between", typed, allowed)
    try:
        one, other = (time(int(hour) % 24 if hour == "24" and minute == "00" else int(hour), int(minute))
                      for hour, minute in (found.group(1, 2), found.group(3, 4)))  # fmt: skip
    except ValueError:
        raise InvalidInputError("between", typed, allowed) from None
    return one, other


def _days(typed: str | None) -> tuple[int, ...]:
    if typed is None:
        return tuple(range(7))
    found: set[int] = set()
    for part in typed.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        try:
            begin = DAYS.index(first[:3])
            end = DAYS.index(last[:3]) if dash else begin
        except ValueError:
            raise InvalidInputError("weekdays", typed, f"days such as mon-fri or mon,wed: {', '.join(DAYS)}") from None
        found |= {(begin + step) % 7 for step in range((end - begin) % 7 + 1)}
    return tuple(sorted(found))
