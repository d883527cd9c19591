"""How log lines look: one event name and its fields, as JSON for machines or in colour for people."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure(log_format: str) -> None:
    """Send structlog's events to standard error in ``json`` or ``console`` form."""
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
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
