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
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, TextIO

import structlog

from rqmail.text.scrubbing import scrubbed, scrubbed_event, scrubbed_field, without_addresses

#: Fields that name a mailbox or a message: they are what a line is about, and are written as they are.
_NAMING = frozenset({"mailboxKey", "messageUuid", "timestamp", "level"})

_plain_record = logging.getLogRecordFactory()


def configure(log_format: str) -> None:
    """Send structlog's events to standard error in ``json`` or ``console`` form, and scrub whatever is logged."""
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
    logging.setLogRecordFactory(scrubbed_record)
    sys.excepthook = _print_uncaught
    threading.excepthook = _print_uncaught_in_thread
    sys.unraisablehook = _print_unraisable
    warnings.showwarning = _print_warning


def configure_embedded() -> None:
    """Hand structlog's events, scrubbed, to the logging of the process we are in, unless that one has set it up."""
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
