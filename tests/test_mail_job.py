"""Whoever writes to Redis cannot make our workers run anything but our own jobs."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import structlog
from redis import Redis
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer

import jobs.mail
from rqmail.queue_state import MAIL
from rqmail.queues import SEND_JOB, MailJob

RAN: list[object] = []


def stored(
    redis: Redis, function: object, *, instance: object = None, args: object = (), kwargs: object = None, **more
):
    """Write a job as somebody would who only has Redis."""
    data = zlib.compress(json.dumps([function, instance, args, {} if kwargs is None else kwargs]).encode())
    redis.hset(
        "rq:job:odd",
        mapping={
            "data": data, "created_at": "2026-03-10T09:30:20.000000Z", "origin": MAIL, "status": "queued",
            "timeout": 60, **more,
        },
    )  # fmt: skip
    redis.rpush(f"rq:queue:{MAIL}", "odd")


def run(redis: Redis, *, serializer: object = DefaultSerializer) -> list[dict[str, object]]:
    """Be a worker of RQ's until the queue is empty, and answer what was logged."""
    queue = Queue(MAIL, connection=redis, job_class=MailJob, serializer=serializer)
    worker = SimpleWorker([queue], connection=redis, job_class=MailJob, serializer=serializer)
    with structlog.testing.capture_logs() as logs:
        worker.work(burst=True, logging_level="CRITICAL")
    return logs


@pytest.fixture(autouse=True)
def one_job(monkeypatch):
    """``jobs.mail.send_messages``, which only notes what it was given."""

    def send_messages(*args: object, **kwargs: object) -> None:
        RAN.append((args, kwargs))

    send_messages.__module__ = "jobs.mail"
    monkeypatch.setattr(jobs.mail, "send_messages", send_messages)
    RAN.clear()


def outcome(redis: Redis) -> str:
    return redis.hget("rq:job:odd", "status").decode()


def test_what_recovery_needs_is_imported_once_in_the_parent_and_not_by_every_tick():
    code = """if True:
        import sys, jobs.mail
        before = set(sys.modules)
        from rqmail.bootstrap import application
        app = application()
        app.changes, app.imports, app.recovery, app.timetable
        print([name for name in set(sys.modules) - before if name.startswith("rqmail.")])
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("serializer", [DefaultSerializer, JSONSerializer])
def test_a_job_of_ours_runs_whatever_serializer_the_worker_was_started_with(redis_client, serializer):
    stored(redis_client, SEND_JOB, args=[["a"]])
    assert run(redis_client, serializer=serializer) == []
    assert (outcome(redis_client), RAN) == ("finished", [((["a"],), {})])


@pytest.mark.parametrize(
    "function",
    [
        "os.system",
        "builtins.exec",
        "jobs.mail.application",
        "jobs.mail.timedelta",
        "jobs.mail._at_work",
        "jobs.mail.__builtins__.exec",
        "jobs.mail.send_messages.__globals__.clear",
        "jobs.mailer.send",
        "jobs.mail",
        "jobs.mail.no_such_function",
        ["os.system"],
        None,
        "",
    ],
)
def test_a_job_that_names_anything_but_a_job_of_ours_is_refused_and_logged(redis_client, tmp_path, function):
    stored(redis_client, function, args=[f"touch {tmp_path / 'ran'}"])
    logs = run(redis_client)
    assert not (tmp_path / "ran").exists()
    assert outcome(redis_client) == "failed"
    assert {entry["event"] for entry in logs} == {"mail.job.refused"}
    assert logs[0]["jobId"] == "odd"


@pytest.mark.parametrize(
    "more",
    [{"instance": "text"}, {"instance": {"a": 1}}, {"kwargs": {"ids": ["a"]}}, {"kwargs": [1]}, {"args": "text"}],
    ids=str,
)
def test_a_method_call_or_keyword_arguments_are_refused(redis_client, more):
    stored(redis_client, SEND_JOB, **more)
    assert [entry["event"] for entry in run(redis_client)] == ["mail.job.refused"]
    assert (outcome(redis_client), RAN) == ("failed", [])


@pytest.mark.parametrize("callback", ["success_callback_name", "failure_callback_name", "stopped_callback_name"])
def test_a_job_with_a_callback_is_refused_and_the_callback_not_called(redis_client, callback, monkeypatch):
    called: list[object] = []
    monkeypatch.setattr(Path, "touch", lambda *args: called.append(args))
    stored(redis_client, SEND_JOB, args=[["a"]], **{callback: "pathlib.Path.touch"})
    [entry] = run(redis_client)
    assert "on_" in entry["why"]
    assert (outcome(redis_client), RAN, called) == ("failed", [], [])


def test_a_job_with_a_webhook_is_refused_and_nothing_is_posted(redis_client, monkeypatch):
    posted: list[object] = []
    monkeypatch.setattr(Job, "send_webhooks", lambda job, *_: posted.extend(job.webhooks))
    stored(
        redis_client,
        SEND_JOB,
        args=[["a"]],
        webhooks=json.dumps([{"url": "http://127.0.0.1:1/", "job_status": "finished"}]),
    )
    run(redis_client)
    assert (outcome(redis_client), RAN, posted) == ("failed", [], [])


def test_pickled_data_is_not_unpickled_and_does_not_stop_the_worker(redis_client):
    bomb = b"cbuiltins\nexec\n(S'import pathlib; pathlib.Path(\"ran\").touch()'\ntR."
    redis_client.hset("rq:job:bomb", mapping={"data": bomb, "created_at": "2026-03-10T09:30:20.000000Z"})
    redis_client.rpush(f"rq:queue:{MAIL}", "bomb")
    stored(redis_client, SEND_JOB, args=[["a"]])
    assert [entry["event"] for entry in run(redis_client)] == ["mail.job.unreadable"]
    assert RAN == [((["a"],), {})]
    assert not Path("ran").exists()


def test_a_scheduled_entry_cannot_name_a_queue_class_to_import(redis_client):
    stored(redis_client, SEND_JOB, meta=json.dumps({"queue_class_name": "os.system", "interval": 1}))
    assert MailJob.fetch("odd", connection=redis_client).meta == {"interval": 1}


def test_a_worker_that_is_told_to_end_while_it_imports_what_a_job_needs_ends(redis_client, monkeypatch):
    stored(redis_client, SEND_JOB, args=[[]])

    def told_to_end(_name):
        raise StopRequested

    monkeypatch.setattr("rqmail.queues.import_module", told_to_end)
    with pytest.raises(StopRequested):
        MailJob.fetch("odd", connection=redis_client, serializer=JSONSerializer)
