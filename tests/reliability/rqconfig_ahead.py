"""``rqmail.rqconfig`` for processes whose clock runs as far ahead as the file ``CLOCK_AHEAD`` says in seconds."""

from __future__ import annotations

import os
from pathlib import Path

from rqmail import bootstrap
from rqmail.rqconfig import QUEUES, REDIS_URL
from support.clock import ClockAhead

__all__ = ["QUEUES", "REDIS_URL"]

_ahead = ClockAhead(Path(os.environ["CLOCK_AHEAD"]))
_application = bootstrap.Application
bootstrap.Application = lambda settings, _clock, limiter=None: _application(settings, _ahead, limiter)
