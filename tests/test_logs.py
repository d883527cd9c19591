"""How log lines look."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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


SAY_SECRETS = """
import logging, threading, sys, warnings
import structlog
from rqmail import logs
from rqmail.text.scrubbing import keep_secret
SECRET = "planted-secret-of-a-test"
keep_secret(SECRET)
early = logging.StreamHandler()  # as RQ's, which is there before ours is set up
logging.getLogger("early").addHandler(early)
logs.configure({log_format!r})
log = structlog.get_logger()
log.warning("mail.mailbox.paused", mailboxKey="noreply@contoso.example", reason=f"said {{SECRET}} to zoe@example.org")
def fail():
    raise ValueError(f"Invalid header value b'Bearer {{SECRET}}\\\\n' for zoe@example.org")
try:
    fail()
except ValueError as error:
    log.exception("mail.lane.failed", err=error, headers={{"Authorization": f"Bearer {{SECRET}}"}})
    logging.getLogger("early").exception("job %s failed: %s", "1", error)
    logging.getLogger("rq.worker").error("%d", SECRET)
warnings.warn(f"old way: {{SECRET}} of zoe@example.org")
log.info("mail.checked", password="planted-secret-nobody-told")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
class Ending:
    def __del__(self):
        fail()
Ending()
fail()
"""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_secret_and_no_address_but_the_mailboxs_reaches_the_log_whoever_writes_it(log_format):
    command = [sys.executable, "-c", SAY_SECRETS.format(log_format=log_format)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    written = done.stdout + done.stderr
    assert done.returncode == 1
    assert written.count("Invalid header value") >= 5
    assert written.count("Traceback") >= 5
    assert "old way: ***" in written
    assert "mail.mailbox.paused" in written
    assert "noreply@contoso.example" in written
    assert "planted-secret" not in written
    assert "zoe@" not in written
