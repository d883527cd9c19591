"""What `status` and `doctor` tell, and when they exit with 1."""

import json
import os
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from rqmail.models.message import Message
from rqmail.queue_state import WorkerState


@pytest.fixture
def one_message(run_json):
    run_json("mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "20")
    run_json("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text", "t")


def make_overdue(app):
    Message.update(requested_on=app.clock() - timedelta(minutes=5)).execute()


def test_status_tells_messages_mailboxes_and_budgets(run, run_json, one_message, at_work):
    status = run_json("status")
    assert status["messages"]["SCHEDULED"] == 1
    news = status["mailboxes"]["news"]
    assert news["budget"]["perMinute"] == {
        "limit": 20, "source": "override", "used": 0, "remaining": 20, "bucket": 0, "rolling": 0,
    }  # fmt: skip
    shown = run("status")
    assert shown.exit_code == 0
    assert "mailbox:news" in shown.stdout
    assert "0/9,000" in shown.stdout


def test_status_and_explain_tell_how_often_the_limiter_denied_in_the_last_hour_by_reason(
    run, run_json, one_message, app, at_work, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    for reason in ("minute", "minute", "minute", "day"):
        app.metrics.denied("news@x.nl", reason)
    app.metrics.flush()
    assert run_json("status")["mailboxes"]["news"]["deniedLastHour"] == {"minute": 3, "day": 1}
    [head, row] = [line for line in run("status").stdout.splitlines() if "denied/h" in line or "mailbox:news" in line]
    assert "3 minute, 1 day" in row
    assert row.index("1 day") + len("1 day") == head.index("denied/h") + len("denied/h")
    assert "denied: 3 minute, 1 day in the last hour" in run("mailbox", "explain", "news").stdout


def test_status_exits_with_1_when_overdue_mail_is_not_moved(run, one_message, app):
    make_overdue(app)
    result = run("status")
    assert result.exit_code == 1
    assert "start `rqmail worker`" in result.stdout
    assert json.loads(run("status", "--json").stdout)["problems"][0]["level"] == "error"


def test_status_exits_with_1_when_nothing_carries_mail_though_none_waits(run, app):
    result = run("status")
    assert result.exit_code == 1
    assert "rqmail scheduler" in result.stdout
    assert "rqmail worker" in result.stdout


def test_status_looks_again_every_so_often(environment, app):
    command = [sys.executable, "-m", "rqmail.cli", "status", "-i", "0.2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ, text=True) as process:
        watchdog = threading.Timer(30, process.kill)
        watchdog.start()
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        watchdog.cancel()
        process.kill()
    assert looks[0]["now"] < looks[1]["now"]


def test_doctor_says_what_is_missing_and_what_to_do(run, run_json, app):
    result = run("doctor", "--json")
    assert result.exit_code == 1
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert {name: check["level"] for name, check in checks.items()} == {
        "settings": "ok",
        "database": "ok",
        "senders": "warning",
        "redis": "ok",
        "redis persistence": "ok",
        "ticks": "error",
        "workers": "error",
        "graph": "warning",
    }
    assert "rqmail scheduler" in checks["ticks"]["advice"]
    assert "rqmail scheduler" in run("doctor").stdout


def test_doctor_believes_no_tick_that_ran_just_now_when_redis_forgot_the_next_one(run, run_json, app, redis_client):
    from rqmail.queue_state import SCHEDULE

    run_json("init")
    run_json("dispatch")
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["ticks"]["level"] == "ok"
    redis_client.delete(SCHEDULE)
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["ticks"]["level"] == "error"
    assert "nothing keeps the ticks coming" in checks["ticks"]["text"]


def test_doctor_counts_a_worker_that_a_flush_forgot_while_it_works(run, app):
    app.queues.note_at_work("stock", "mail")
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["workers"]["level"] == "ok"


def test_doctor_names_the_stock_commands_of_this_installation(run, app):
    url = app.settings.redis_url
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert f"rqscheduler -j rqmail.queues.MailJob -i 1 -u {url}" in checks["ticks"]["advice"]
    assert "rq worker -c rqmail.rqconfig -j rqmail.queues.MailJob" in checks["workers"]["advice"]


@pytest.mark.parametrize("url", ["redis://:pw1234@h:6379/0", "rediss://u:pw1234@h/0", "unix:///run/r?password=pw1234"])
def test_doctor_names_a_redis_with_a_password_by_its_variable(url):
    from rqmail.administration.checkup import _shown_in_a_shell

    assert _shown_in_a_shell(url) == '"$RQMAIL_REDIS_URL"'


def test_doctor_tells_a_refusing_redis_from_an_absent_one(run, app, redis_client, monkeypatch):
    redis_client.config_set("requirepass", "x")
    try:
        checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    finally:
        redis_client.execute_command("AUTH", "x")
        redis_client.config_set("requirepass", "")
    assert checks["redis"]["text"].startswith("it refuses us")


def test_doctor_is_content_with_a_system_that_runs(run, run_json, graph_of_the_sandbox, monkeypatch):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    run_json("init")
    run_json("dispatch")
    working = [WorkerState("w", "idle", ("mail",), None)]
    monkeypatch.setattr(type(graph_of_the_sandbox.queue_state), "workers", lambda _: working)
    result = run("doctor", "--json")
    assert result.exit_code == 0, result.output
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["graph token"]["level"] == "ok"
    assert (checks["graph permissions"]["level"], checks["dns"]["level"]) == ("warning", "warning")
    assert "Sent Items may be read" in checks["mailbox news"]["text"]


def test_doctor_puts_what_is_the_same_of_many_senders_in_one_line(run, run_json, graph_of_the_sandbox):
    for number in range(1, 6):
        run_json("mailbox", "add", f"m{number}", "--address", f"m{number}@x.nl", "--no-check")
    told = " ".join(run("doctor").stdout.split())
    assert "5 mailboxes" in told
    assert "and 2 more" in told
    assert "m5" not in told
    assert "m5" in run("doctor", "--all").stdout
    checks = json.loads(run("doctor", "--json").stdout)["checks"]
    assert [check["name"] for check in checks if check["name"].startswith("mailbox ")] == [
        f"mailbox m{number}" for number in range(1, 6)
    ]


def test_doctor_tries_every_tenant_with_what_is_its_own(run, run_json, app, tmp_path):
    run_json("tenant", "add", "acme", "--provider", "sendgrid", "--sendgrid-from", "post@acme.nl")
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["tenant acme"]["level"] == "error"
    assert "sendgridApiKey of tenant acme is not set" in checks["tenant acme"]["text"]


@pytest.mark.parametrize(
    ("command", "next_step"),
    [
        (("mailbox", "list"), "rqmail mailbox add KEY --address ADDRESS"),
        (("tenant", "list"), "rqmail tenant add KEY --provider PROVIDER"),
        (("token", "list"), "rqmail token create NAME --scope send"),
        (("message", "list"), "rqmail send"),
        (("import", "--list"), "rqmail import FILE --mailbox KEY --dry-run"),
    ],
)
def test_an_empty_list_tells_the_next_step_on_stderr(run, command, next_step):
    told = run(*command)
    assert (told.exit_code, told.stdout) == (0, "")
    assert next_step in told.stderr
