"""The command line on an empty database and a real Valkey."""

import json

import pytest
from click.testing import CliRunner
from rq import Worker
from rq.serializers import JSONSerializer

from rqmail import bootstrap
from rqmail.cli import cli
from rqmail.models.base import db
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import MailJob
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID
from rqmail.sandbox.server import Sandbox


@pytest.fixture
def environment(sqlite_database, redis_url, monkeypatch, tmp_path):
    """The settings every command of the test reads."""
    variables = {
        "RQMAIL_DATABASE_URL": sqlite_database.url,
        "RQMAIL_REDIS_URL": redis_url,
        "RQMAIL_SECRET_KEY": "a key for the tests, long enough",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    return variables


@pytest.fixture
def app(environment):
    """The application the commands find; built here, so that logs go where pytest looks."""
    bootstrap.set_mail_rate_limiter_for_tests(None)
    yield bootstrap.application()
    db.obj.close_all()
    bootstrap.set_mail_rate_limiter_for_tests(None)


@pytest.fixture
def run(app):
    """Run a command in this process and answer what it printed and its exit code."""

    def run(*arguments, stdin=None):
        return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)

    return run


@pytest.fixture
def run_json(run):
    """Run a command that has to succeed, and answer its JSON."""

    def run_json(*arguments, stdin=None):
        result = run(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run_json


@pytest.fixture
def at_work(app, redis_client):
    """A scheduler that just had its turn, and a worker that listens for mail."""
    app.timetable.register()
    app.queues.end_dispatch("a tick")
    Worker(
        list(WORKER_QUEUES), name="w1", connection=redis_client, job_class=MailJob, serializer=JSONSerializer
    ).register_birth()


@pytest.fixture
def graph_of_the_sandbox(environment, app, monkeypatch):
    """Settings whose Microsoft Graph is a sandbox, read by every command of the test."""
    with Sandbox() as sandbox:
        for name, value in {
            "GRAPH_BASE_URL": sandbox.base_url,
            "GRAPH_AUTHORITY": sandbox.authority,
            "CA_BUNDLE": sandbox.ca_file,
            "GRAPH_TENANT_ID": SANDBOX_TENANT_ID,
            "GRAPH_CLIENT_ID": SANDBOX_CLIENT_ID,
            "GRAPH_CLIENT_SECRET": SANDBOX_CLIENT_SECRET,
        }.items():
            monkeypatch.setenv(f"RQMAIL_{name}", str(value))
        bootstrap.set_mail_rate_limiter_for_tests(None)
        yield bootstrap.application()
