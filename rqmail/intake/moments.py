"""Moments as people write them: with an offset, or in the local time of a zone that was named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from zoneinfo import ZoneInfo, available_timezones

from rqmail.errors import InvalidInputError
from rqmail.text.scrubbing import scrubbed_start

#: A moment further away than this is a typing error.
FURTHEST = timedelta(days=5 * 366)

_ALLOWED = "a moment with its time zone, such as 2026-03-01T09:00:00+01:00"


def moment_of(field: str, value: datetime | str | None) -> datetime | None:
    """Read a moment that says its own time zone and answer it in UTC; ``None`` for nothing."""
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        aware = isinstance(moment, datetime) and moment.tzinfo is not None
        utc = moment.astimezone(UTC) if aware else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        raise InvalidInputError(field, scrubbed_start(str(value), 100), _ALLOWED)
    return utc


def check_moments(at: datetime | None, expires: datetime | None, now: datetime) -> None:
    """Refuse an expiry that has passed or comes before the sending, and a moment more than five years away."""
    for field, moment in (("at", at), ("expires", expires)):
        if moment is not None and moment - now > FURTHEST:
            raise InvalidInputError(field, moment.isoformat(), "a moment less than five years away")
    if expires is None:
        return
    if at is not None and expires <= at:
        raise InvalidInputError("expires", expires.isoformat(), "a moment after the one the message is to go out at")
    if expires <= now:
        raise InvalidInputError("expires", expires.isoformat(), "a moment that is still to come")


@dataclass(frozen=True)
class LocalTime:
    """How a file writes its moments: in which zone where it names none, and in which format beside ISO 8601.

    Nothing is guessed: without a zone a moment has to bring its own, and a local time that the zone does not have, or
    has twice, is refused.
    """

    timezone: str | None = None
    date_format: str | None = None

    def read(self, field: str, text: str) -> str:
        """Answer the moment in ISO 8601 with its offset; what is no moment comes back as it is, to be refused later."""
        text = text.strip()
        moment = self._parsed(text)
        if moment is None:
            if self.date_format and text:
                raise InvalidInputError(
                    field, scrubbed_start(text, 100), f"a moment written as {self.date_format}, or in ISO 8601"
                )
            return text
        if moment.tzinfo is not None:
            return moment.isoformat()
        if self.timezone is None:
            raise InvalidInputError(field, scrubbed_start(text, 100), f"{_ALLOWED}; or name the zone with --timezone")
        return self._placed(field, text, moment).isoformat()

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone; raises ``InvalidInputError`` with the nearest name when there is none of this name."""
        return zone_named("timezone", self.timezone or "UTC")

    def _parsed(self, text: str) -> datetime | None:
        if self.date_format:
            try:
                return datetime.strptime(text, self.date_format)  # noqa: DTZ007 - its zone comes next
            except ValueError:
                pass
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return None

    def _placed(self, field: str, text: str, naive: datetime) -> datetime:
        try:
            first, second = (naive.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
            exists = first.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) == naive
        except OverflowError:
            raise InvalidInputError(field, text, _ALLOWED) from None
        if not exists:
            raise InvalidInputError(
                field, text, f"a local time that {self.timezone} has: this one is skipped when its clocks go forward"
            )
        if first.utcoffset() != second.utcoffset():
            raise InvalidInputError(
                field,
                text,
                f"with its offset: {self.timezone} has this time twice, {first.isoformat()} or {second.isoformat()}",
            )
        return first


def local_time(timezone: str | None, date_format: str | None) -> LocalTime:
    """Answer how moments are written; raises ``InvalidInputError`` for a zone or a format that is none."""
    if timezone is not None:
        zone_named("timezone", timezone)
    return LocalTime(timezone, None if date_format is None else check_date_format(date_format))


def zone_named(field: str, name: str) -> ZoneInfo:
    """Answer the time zone of this name; raises ``InvalidInputError`` with the nearest name."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # a name with a slash too many, a folder, no such key
        near = get_close_matches(name, available_timezones(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidInputError(field, name, f"a time zone such as Europe/Amsterdam{hint}") from None


def check_date_format(text: str) -> str:
    """Answer a format for dates; raises ``InvalidInputError`` for one that cannot tell a day."""
    sample = datetime(2026, 12, 24, 9, 5, tzinfo=UTC)
    try:
        back = datetime.strptime(sample.strftime(text), text)  # noqa: DTZ007 - only the day is looked at
    except ValueError:
        back = None
    if back is None or back.date() != sample.date():
        raise InvalidInputError("date-format", text, "a format such as %d-%m-%Y %H:%M, with day, month and year")
    return text
