"""Our worker beside RQ's: it comes back after a flush, and what it cannot read does not stop it."""

from __future__ import annotations

import signal
import zlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

import jobs.mail
from rqmail.delivery.lanes import Lanes
from rqmail.processes import worker
from rqmail.processes.worker import MailWorker
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import PURGE_JOB, MailJob, MailQueues
from rqmail.text.scrubbing import keep_secret

SECRET = "planted-secret-of-a-job"


@dataclass
class App:
    """As much of an application as a worker needs."""

    settings: SimpleNamespace
    timetable: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(keep_in_background=lambda: None, stop_keeping=lambda: None)
    )
    lanes: Lanes = field(default_factory=lambda: Lanes(None, None, None, width=1, lease=None, start_within_seconds=1))


@pytest.fixture
def app(redis_url) -> App:
    return App(SimpleNamespace(redis_url=redis_url, redis_authority=None))


@pytest.fixture
def queues(redis_client, clock) -> MailQueues:
    return MailQueues(redis_client, clock, poll_seconds=1, job_timeout_seconds=60)


@pytest.fixture
def mail_worker(app, redis_client) -> MailWorker:
    made = MailWorker(
        [Queue(name, connection=redis_client, job_class=MailJob, serializer=JSONSerializer) for name in WORKER_QUEUES],
        connection=redis_client,
        job_class=MailJob,
        serializer=JSONSerializer,
    )
    made.application = app
    return made


@pytest.fixture(autouse=True)
def handlers_kept():
    """A worker takes the signals over; the test run wants its own back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def a_job_that_does_nothing(monkeypatch):
    """``jobs.mail.purge_messages``, without an application behind it."""

    def purge_messages() -> int:
        return 0

    purge_messages.__module__ = "jobs.mail"
    monkeypatch.setattr(jobs.mail, "purge_messages", purge_messages)


def push(redis_client, function: str, job_id: str, queue: str = "mail") -> None:
    Queue(queue, connection=redis_client, job_class=MailJob, serializer=JSONSerializer).enqueue_call(
        function, job_id=job_id, result_ttl=60
    )


def status(redis_client, job_id: str) -> str:
    return MailJob.fetch(job_id, connection=redis_client).get_status().value


def test_a_worker_that_an_emptied_redis_has_forgotten_registers_with_its_next_beat(mail_worker, queues, redis_client):
    mail_worker.register_birth()
    redis_client.flushall()
    assert queues.workers() == []
    mail_worker.set_state("busy")  # leaves half a registration behind
    mail_worker.heartbeat()
    [known] = queues.workers()
    assert (known.name, known.queues) == (mail_worker.name, WORKER_QUEUES)


def test_a_burst_ends_when_the_queues_are_empty(app, redis_client):
    push(redis_client, PURGE_JOB, "job-1")
    assert worker.run(app, burst=True) == 0
    assert status(redis_client, "job-1") == "finished"


@pytest.mark.parametrize("kind", [MailWorker, SimpleWorker])
def test_what_rq_keeps_of_a_failed_job_holds_no_secret_and_no_address(app, redis_client, monkeypatch, kind):
    def purge_messages() -> int:
        raise ValueError(f"it answered {SECRET} and Bearer {'b' * 20} to jan@contoso.example")

    purge_messages.__module__ = "jobs.mail"
    monkeypatch.setattr(jobs.mail, "purge_messages", purge_messages)
    keep_secret(SECRET)
    push(redis_client, PURGE_JOB, "job-1")
    queue = Queue("mail", connection=redis_client, job_class=MailJob, serializer=JSONSerializer)
    made = kind([queue], connection=redis_client, job_class=MailJob, serializer=JSONSerializer)
    made.application = app
    made.work(burst=True, logging_level="CRITICAL")
    failed = MailJob.fetch("job-1", connection=redis_client)
    assert failed.get_status().value == "failed"
    kept = [str(result.exc_string) for result in failed.results()]
    kept.append(zlib.decompress(redis_client.hget("rq:job:job-1", "exc_info") or zlib.compress(b"")).decode())
    assert any("ValueError: it answered ***" in text for text in kept)
    for secret in (SECRET, "b" * 20, "jan@contoso.example"):
        assert not [text for text in kept if secret in text]


@pytest.mark.parametrize(
    "poison",
    [
        "a job id that is no text",
        "a job without a hash",
        "a job of garbage",
        "a job that is no hash",
        "unknown function",
    ],
)
def test_a_poisoned_job_is_set_aside_and_the_next_one_is_done(app, redis_client, poison):
    match poison:
        case "a job id that is no text":
            redis_client.rpush("rq:queue:mail", b"\xff\xfe")
        case "a job without a hash":
            redis_client.rpush("rq:queue:mail", "no-such-job")
        case "a job of garbage":
            redis_client.hset(
                "rq:job:odd",
                mapping={"data": b"\x80\x04garbage", "created_at": "2026-03-10T09:30:20.000000Z", "status": "queued"},
            )
            redis_client.rpush("rq:queue:mail", "odd")
        case "a job that is no hash":
            redis_client.set("rq:job:odd", "text")
            redis_client.rpush("rq:queue:mail", "odd")
        case "unknown function":
            push(redis_client, "jobs.mail.no_such_function", "odd")
    push(redis_client, PURGE_JOB, "job-1")
    for _ in range(2):  # what RQ gives up on ends its burst; a worker that stays begins another
        worker.run(app, burst=True)
    assert status(redis_client, "job-1") == "finished"


def test_work_for_one_queue_leaves_the_others_alone(app, redis_client):
    push(redis_client, PURGE_JOB, "tick", "ticks")
    push(redis_client, PURGE_JOB, "mail", "mail")
    worker.run(app, burst=True, queues=["ticks"])
    assert (status(redis_client, "tick"), status(redis_client, "mail")) == ("finished", "queued")


def test_asked_to_end_it_begins_nothing_new_and_a_second_signal_kills_nothing(mail_worker, app):
    mail_worker.set_state("busy")
    mail_worker._install_signal_handlers()
    mail_worker.request_stop(signal.SIGTERM, None)
    assert app.lanes.stopping.is_set()
    mail_worker.request_force_stop(signal.SIGTERM, None)


def test_asked_to_end_while_it_starts_it_ends_without_waiting_for_work(app, monkeypatch):
    register = MailWorker.register_birth

    def asked_meanwhile(self) -> None:
        register(self)
        app.lanes.stop()  # what the handler does that is in force until RQ's own is

    monkeypatch.setattr(MailWorker, "register_birth", asked_meanwhile)
    assert worker.run(app) == 0


def test_a_worker_told_to_end_while_redis_is_away_ends(app, monkeypatch):
    app.settings.redis_url = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(app.lanes.stopping, "wait", lambda seconds: app.lanes.stop())
    assert worker.run(app) == 0
