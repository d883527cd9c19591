"""What monitors are told: whether the process lives, whether mail can go out, and the numbers."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient
from redis import Redis
from rq import Worker
from rq.serializers import JSONSerializer

from rqmail.bootstrap import Application
from rqmail.models.base import db
from rqmail.models.message import MessageStatus
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import MailJob
from support.clock import MovableClock
from support.messages import message_in, new_message, submitted


@pytest.fixture
def running(application: Application, redis_client: Redis) -> None:
    """A dispatch that just ended, and a worker that listens for mail."""
    application.queues.end_dispatch("a tick")
    application.timetable.register()
    Worker(
        list(WORKER_QUEUES), name="w1", connection=redis_client, job_class=MailJob, serializer=JSONSerializer
    ).register_birth()


def wrong(client: FlaskClient) -> dict[str, str]:
    answer = client.get("/readyz")
    assert (answer.status_code == 200) is answer.json["ready"]
    return {check["name"]: check["text"] for check in answer.json["checks"] if not check["ok"]}


def test_a_living_process_says_so_to_anyone(anyone: FlaskClient) -> None:
    assert anyone.get("/healthz").json == {"status": "ok"}


@pytest.mark.usefixtures("running")
def test_it_is_ready_when_everything_runs(anyone: FlaskClient) -> None:
    assert wrong(anyone) == {}


def test_without_ticks_and_workers_it_says_which_command_is_missing(anyone: FlaskClient) -> None:
    said = wrong(anyone)
    assert set(said) == {"ticks", "workers"}
    assert "rqmail scheduler" in said["ticks"]
    assert "rqmail worker" in said["workers"]


@pytest.mark.usefixtures("running")
def test_a_tick_is_old_after_ten_seconds(anyone: FlaskClient, clock: MovableClock) -> None:
    clock.advance(seconds=10)
    assert wrong(anyone) == {}
    clock.advance(seconds=1)
    assert wrong(anyone) == {"ticks": "the last dispatch was 11 s ago; is `rqmail scheduler` running?"}


@pytest.mark.usefixtures("running")
def test_what_it_says_is_what_the_overview_calls_wrong(
    anyone: FlaskClient, application: Application, redis_client: Redis
) -> None:
    assert not application.overview.status().is_wrong
    redis_client.delete("rq:workers", "rq:scheduler:scheduled_jobs")
    said = wrong(anyone)
    assert set(said) == {"ticks", "workers"}
    problems = [str(problem.text).lower() for problem in application.overview.status().problems]
    assert problems == [text.lower() for text in said.values()]


@pytest.mark.usefixtures("running")
def test_a_limiter_that_redis_refuses_is_named(anyone: FlaskClient, redis_client: Redis) -> None:
    redis_client.config_set("maxmemory", 1)
    try:
        assert "redis" in wrong(anyone)
    finally:
        redis_client.config_set("maxmemory", 0)


@pytest.mark.usefixtures("running")
def test_a_database_without_its_tables_is_named(anyone: FlaskClient) -> None:
    db.obj.execute_sql("ALTER TABLE schema_migration RENAME TO elsewhere")
    try:
        assert "rqmail init" in wrong(anyone)["database"]
    finally:
        db.obj.execute_sql("DROP TABLE IF EXISTS schema_migration")
        db.obj.execute_sql("ALTER TABLE elsewhere RENAME TO schema_migration")


def numbers(client: FlaskClient) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_the_numbers_tell_what_was_sent_what_waits_and_what_is_left(
    client: FlaskClient, application: Application, clock: MovableClock
) -> None:
    application.mailboxes.add("news", "News@example.org", rate_limit_per_minute=7)
    message_in(MessageStatus.ERROR)
    submitted(new_message("mailbox:news"))
    application.metrics.count("sent", "news@example.org", 0.3)
    application.metrics.count("sent", "news@example.org", 4.0)
    application.metrics.count("call", "throttled", 0.02)
    application.metrics.count("deferred", "minute")
    application.metrics.flush()
    clock.advance(seconds=90)

    found = numbers(client)
    assert found['rqmail_sent_total{mailbox="news"}'] == 2
    assert found['rqmail_provider_calls_total{outcome="throttled"}'] == 1
    assert found['rqmail_provider_call_seconds_bucket{le="0.5",outcome="accepted"}'] == 1
    assert found['rqmail_provider_call_seconds_bucket{le="+Inf",outcome="accepted"}'] == 2
    assert found['rqmail_provider_call_seconds_sum{outcome="accepted"}'] == pytest.approx(4.3)
    assert found['rqmail_deferred_total{reason="minute"}'] == 1
    assert found['rqmail_messages{status="ERROR"}'] == 1
    assert found['rqmail_budget_limit{mailbox="news",window="minute"}'] == 7
    assert found["rqmail_oldest_waiting_seconds"] == 90
    assert found['rqmail_waiting{mailbox="news"}'] == 1


def test_sends_that_were_not_counted_are_told_once_redis_is_back(
    client: FlaskClient, application: Application, redis_client: Redis
) -> None:
    redis_client.config_set("maxmemory", 1)
    try:
        application.limiter.check_and_reserve("news@example.org", 1, application.overview.defaults)
        application.metrics.flush()
    finally:
        redis_client.config_set("maxmemory", 0)
    application.limiter.check_and_reserve("news@example.org", 1, application.overview.defaults)
    application.metrics.flush()
    application.metrics.flush()
    assert numbers(client)['rqmail_limiter_fail_open_total{op="reserve"}'] == 1


@pytest.mark.usefixtures("running")
def test_the_numbers_tell_the_age_of_the_last_tick_and_how_many_work(client: FlaskClient, clock: MovableClock) -> None:
    clock.advance(seconds=5)
    found = numbers(client)
    assert found["rqmail_tick_age_seconds"] == 5
    assert found["rqmail_workers"] == 1
    assert found["rqmail_redis_up"] == 1


def test_every_family_is_explained(client: FlaskClient) -> None:
    text = client.get("/metrics").text
    assert set(re.findall(r"^# TYPE (\S+)", text, re.M)) == set(re.findall(r"^# HELP (\S+) \S+", text, re.M))
