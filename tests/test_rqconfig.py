"""The stock ``rq worker`` started with ``-c rqmail.rqconfig``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rqmail.queue_state import TICKS
from rqmail.queues import JOB_CLASS, MailJob, MailQueues
from rqmail.settings import PREFIX


@pytest.fixture
def rq(tmp_path):
    """Run a stock ``rq`` command where only a file ``.env`` says anything."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "RQ_"))}

    def run(*command, env_file="", **variables):
        (tmp_path / ".env").write_text(env_file)
        return subprocess.run(
            [str(Path(sys.executable).with_name("rq")), *command],
            cwd=tmp_path, env={**environment, **variables}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


def test_a_stock_worker_with_our_config_finds_redis_in_the_env_file_and_works_on_our_queues(
    rq, sqlite_database, redis_url, redis_client, clock
):
    queues = MailQueues(redis_client, clock, poll_seconds=1, job_timeout_seconds=60)
    queues.push([("job-1", [])], high=True)
    queues.push([("job-2", [])], high=False)
    ended = rq(
        "worker", "--burst",
        env_file=f'RQMAIL_REDIS_URL="{redis_url}"\nRQMAIL_DATABASE_URL={sqlite_database.url}\n',
        RQ_CONFIG="rqmail.rqconfig", RQ_JOB_CLASS=JOB_CLASS,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert sum(queues.depth().values()) == 0
    done = [MailJob.fetch(job_id, connection=redis_client).is_finished for job_id in ("job-1", "job-2")]
    assert done == [True, True]


def test_a_stock_worker_with_our_config_and_another_job_class_does_not_start(rq, redis_url, redis_client, clock):
    queues = MailQueues(redis_client, clock, poll_seconds=1, job_timeout_seconds=60)
    queues.nudge()
    ended = rq("worker", "-c", "rqmail.rqconfig", "--burst", RQMAIL_REDIS_URL=redis_url)
    assert ended.returncode == 1
    assert f"add -j {JOB_CLASS}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert queues.depth()[TICKS] == 1


def test_a_setting_that_is_wrong_is_told_by_name(rq):
    ended = rq("worker", "-c", "rqmail.rqconfig", "-j", JOB_CLASS, RQMAIL_REDIS_URL="http://127.0.0.1")
    assert ended.returncode == 1
    assert ended.stderr.startswith("RQMAIL_REDIS_URL: ")
    assert "Traceback" not in ended.stderr


def test_other_commands_of_rq_take_our_config_without_a_job_class(rq, redis_url):
    ended = rq("info", "-c", "rqmail.rqconfig", RQMAIL_REDIS_URL=redis_url)
    assert ended.returncode == 0, ended.stderr


def test_what_a_stock_worker_says_before_its_first_job_is_scrubbed(rq, redis_url):
    ended = rq(
        "worker", "--burst", "-c", "rqmail.rqconfig", "-j", JOB_CLASS, "-n", "planted-secret-0123",
        RQMAIL_REDIS_URL=redis_url, RQMAIL_SENDGRID_API_KEY="planted-secret-0123",
    )  # fmt: skip
    written = ended.stdout + ended.stderr
    assert "started" in written
    assert "planted" not in written
