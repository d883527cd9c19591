"""What the stock ``rq worker`` reads of us with ``-c rqmail.rqconfig``: where Redis is and what to listen to.

RQ takes no job class from such a module: ``-j rqmail.queues.MailJob``, or ``RQ_JOB_CLASS``, says it. A worker started
without it could run none of our jobs, and would run anybody else's: it is told so and does not start.
"""

from __future__ import annotations

import click

from rqmail import logs
from rqmail.errors import SettingsError
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import JOB_CLASS
from rqmail.redis_clients import stock_settings
from rqmail.settings import Settings, load_settings
from rqmail.text.scrubbing import keep_secret


def _job_class_is_ours() -> bool:
    """Say whether the ``rq`` command that reads this module runs jobs with our class, or runs none at all."""
    command = click.get_current_context(silent=True)
    if command is None or not (command.info_name or "").startswith("worker"):
        return True
    return bool(command.params["job_class"] == JOB_CLASS)


def _settings() -> Settings:
    try:
        return load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None  # RQ would print a traceback


if not _job_class_is_ours():
    raise SystemExit(f"rqmail.rqconfig: add -j {JOB_CLASS} or set RQ_JOB_CLASS to it; no other job class runs our jobs")

_found = _settings()
# What RQ says before the first job is scrubbed, too.
keep_secret(*_found.secrets)
logs.configure(_found.log_format)

_server = stock_settings(_found.redis_url, _found.redis_authority)
#: RQ reads where Redis is from the first of these that is not ``None``.
REDIS_URL = _server.get("REDIS_URL")
SENTINEL = _server.get("SENTINEL")
QUEUES = list(WORKER_QUEUES)
