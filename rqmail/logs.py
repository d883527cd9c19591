"""How log lines look: one event name and its fields, as JSON for machines or in colour for people, without secrets.

Everything a process of ours writes goes through one scrubber: our own events, what libraries log (RQ, waitress, MSAL),
and the traceback of whatever nobody caught.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, MutableMapping
from functools import partial
from types import TracebackType
from typing import Any, TextIO

from rqmail.text.scrubbing import scrubbed, scrubbed_event, scrubbed_field, without_addresses

#: Fields that name a mailbox or a message: they are what a line is about, and are written as they are.
_NAMING = frozenset({"mailboxKey", "messageUuid", "timestamp", "level"})

_plain_record = logging.getLogRecordFactory()


#: What sets structlog up once it is imported; ``None`` after that.
_set_up: Callable[[], None] | None = None


class EventLog:
    """Writes events by structlog, which is imported with the first of them: most commands write none."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getattr__(self, level: str) -> Any:
        """Answer what writes an event of ``level``: ``info``, ``warning``, ``error``, ``exception``."""
        prepare()
        import structlog  # noqa: PLC0415

        return getattr(structlog.get_logger(*self._names), level)


def event_log(name: str | None = None) -> EventLog:
    """Answer what a module writes its events with; a host's own logging knows it by ``name``."""
    return EventLog(*([] if name is None else [name]))


def prepare() -> None:
    """Import structlog and set it up as was asked for: before a process forks, or with its first event."""
    global _set_up  # noqa: PLW0603 - one log a process
    import structlog.dev  # noqa: F401, PLC0415

    set_up = _set_up
    if set_up is not None:
        set_up()
        _set_up = None  # not before it is done: what another thread writes meanwhile is to be scrubbed as well


def configure(log_format: str) -> None:
    """Send structlog's events to standard error in ``json`` or ``console`` form, and scrub whatever is logged."""
    _when_imported(partial(_write_events, log_format))
    logging.setLogRecordFactory(scrubbed_record)
    sys.excepthook = _print_uncaught
    threading.excepthook = _print_uncaught_in_thread
    sys.unraisablehook = _print_unraisable
    warnings.showwarning = _print_warning


def configure_embedded() -> None:
    """Hand structlog's events, scrubbed, to the logging of the process we are in, unless that one has set it up."""
    _when_imported(_hand_over_events)


def _when_imported(set_up: Callable[[], None]) -> None:
    global _set_up  # noqa: PLW0603 - one log a process
    _set_up = set_up
    if "structlog" in sys.modules:
        prepare()


def _write_events(log_format: str) -> None:
    import structlog  # noqa: PLC0415

    last: Any
    if log_format == "json":
        last = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            scrub_event,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def _hand_over_events() -> None:
    import structlog  # noqa: PLC0415

    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            scrub_event,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def scrub_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take secrets out of every field of an event, and mail addresses out of all but those that name the mailbox."""
    for name, value in event.items():
        if name == "event":
            event[name] = scrubbed_event(str(value))
        elif name in _NAMING:
            event[name] = scrubbed(value) if isinstance(value, str) else value
        else:
            event[name] = scrubbed_field(name, value)
    return event


def scrubbed_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Make a record of the standard library's logging whose text and traceback are scrubbed, whoever formats it."""
    record = _plain_record(*args, **kwargs)
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - a wrong format string is written with what it was given, and that scrubbed
        text = f"{record.msg!s} {record.args!r}"
    record.msg, record.args = without_addresses(scrubbed(text)), ()
    if record.exc_info and record.exc_info[0] is not None:
        # Formatters take a text that is there already; the exception, which some of them format anew, is dropped.
        record.exc_text = _traceback(*record.exc_info)
        record.exc_info = None
    if record.stack_info:
        record.stack_info = scrubbed(record.stack_info)
    return record


def _traceback(kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> str:
    return without_addresses(scrubbed("".join(traceback.format_exception(kind, error, where)))).rstrip("\n")


def _print_uncaught(kind: type[BaseException], error: BaseException | None, where: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error or kind(), where)
        return
    sys.stderr.write(_traceback(kind, error, where) + "\n")


def _print_uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    if uncaught.exc_type is not SystemExit:
        _print_uncaught(uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback)


def _print_unraisable(ignored: sys.UnraisableHookArgs) -> None:
    sys.stderr.write(_traceback(ignored.exc_type, ignored.exc_value, ignored.exc_traceback) + "\n")


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(without_addresses(scrubbed(text)))
