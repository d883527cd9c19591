"""What can be typed for a parameter: durations, moments, limits, senders."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click

from rqmail.bootstrap import application
from rqmail.errors import InvalidInputError
from rqmail.intake.moments import local_time, moment_of
from rqmail.text.decoding import decoded
from rqmail.text.values import trimmed

_F = TypeVar("_F", bound=Callable[..., Any])
#: Longer ones reach beyond the calendar, counted back from now.
_LONGEST = timedelta(days=36_500)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Duration(click.ParamType[timedelta]):
    """A length of time: ``90s``, ``5m``, ``2h``, ``3d``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read a number and its unit."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,6})([smhd])", str(value).strip(), re.ASCII)
        if match is None:
            self.fail(f"{value!r} is no duration; write 90s, 5m, 2h or 3d.", param, ctx)
        length = timedelta(**{_UNITS[match[2]]: int(match[1])})
        if length > _LONGEST:
            self.fail(f"{value!r} is too long; at most {_LONGEST.days}d.", param, ctx)
        return length


class Until(click.ParamType[datetime | str]):
    """A moment that brings its zone or is local to RQMAIL_TIMEZONE; ``tonight``; or ``for-good`` for no end.

    Tonight ends with the day of RQMAIL_TIMEZONE; where it is not set, of the machine's own zone.
    """

    name = "moment|tonight|for-good"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> datetime | str:
        """Read the moment; whether it may be so far away is decided where every caller is checked."""
        if isinstance(value, datetime):
            return value
        if value == "for-good":
            return "for-good"
        app = application()
        zone = app.settings.timezone
        if value == "tonight":
            today = app.clock().astimezone(ZoneInfo(zone) if zone else None).date()
            midnight = datetime.combine(today + timedelta(days=1), time(), ZoneInfo(zone) if zone else None)
            return midnight.astimezone(UTC)
        moment = moment_of("--until", local_time(zone, None).read("--until", str(value)) if zone else str(value))
        if moment is None:
            raise InvalidInputError("--until", "", "a moment, `tonight` or `for-good`")
        return moment


class Limit(click.ParamType[int | str]):
    """A whole number, or ``default`` for none of its own."""

    name = "number|default"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Read the number; whether it is allowed is decided where every caller is checked."""
        if value == "default":
            return "default"
        if not re.fullmatch(r"[+-]?\d{1,12}", str(value), re.ASCII):
            self.fail(f"{value!r} is no whole number; `default` goes back to the default.", param, ctx)
        return int(value)


def sender_options(function: _F) -> _F:
    """Add ``--mailbox`` and ``--tenant``."""
    tenant = click.option("--tenant", metavar="KEY", help="Of this tenant.")
    mailbox = click.option("--mailbox", metavar="KEY", help="Of this system mailbox.")
    return mailbox(tenant(function))


def sender(mailbox: str | None, tenant: str | None) -> str:
    """Name the sender that was chosen, as messages carry it; neither is the default one."""
    if mailbox is not None and tenant is not None:
        raise click.UsageError("--mailbox and --tenant exclude each other.")
    if mailbox is not None:
        return f"mailbox:{mailbox}"
    return "default" if tenant is None else f"tenant:{tenant}"


def secret_from(path: str | None) -> str | None:
    """Read a secret from a file, or from standard input for ``-``: on the command line everybody could see it."""
    return None if path is None else trimmed(decoded(read_bytes(path)))


def read_bytes(path: str) -> bytes:
    """Read a file, or standard input for ``-``; what cannot be read is wrong usage."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror or type(error).__name__}.") from None


class TextFile(click.ParamType[str]):
    """A text file, or ``-`` for standard input, in UTF-8, UTF-16 or Windows-1252; its contents are the value."""

    name = "file"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """Read the file."""
        return decoded(read_bytes(str(value)))
