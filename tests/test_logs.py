"""How log lines look."""

from __future__ import annotations

import json
import subprocess
import sys

SAY = """
import structlog
from rqmail import logs
logs.configure({log_format!r})
log = structlog.get_logger()
log.debug("not.said")
log.info("mail.rateLimit.deferred", mailboxKey="zoë@example.org", retryAfterMs=5)
"""


def _said(log_format: str) -> str:
    command = [sys.executable, "-c", SAY.format(log_format=log_format)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    return done.stderr


def test_for_machines_each_line_is_one_object_on_standard_error():
    [line] = _said("json").splitlines()
    told = json.loads(line)
    assert told.pop("timestamp").endswith("Z")
    assert told == {
        "event": "mail.rateLimit.deferred",
        "level": "info",
        "mailboxKey": "zoë@example.org",
        "retryAfterMs": 5,
    }


def test_for_people_a_line_names_the_event_and_its_fields_without_colours_where_nobody_sees_them():
    [line] = _said("console").splitlines()
    assert "mail.rateLimit.deferred" in line
    assert "retryAfterMs=5" in line
    assert "\x1b[" not in line
