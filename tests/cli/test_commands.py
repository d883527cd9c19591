"""The command line as a whole: help, exit codes, errors."""

import ast
import json
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from rqmail.cli import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    command = cli.get_command(click.Context(cli), name)
    paths = [[name]] + [[name, sub] for sub in getattr(command, "commands", {})]
    for path in paths:
        result = CliRunner().invoke(cli, [*path, "--help"])
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) > 4


def test_the_list_of_commands_loads_none_of_them():
    code = "import sys; from rqmail.cli import cli; cli(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "purge" in told
    for heavy in ("'rq'", "'peewee'", "'requests'", "'msal'", "'pydantic'", "'rich'"):
        assert heavy not in told


#: What no look at things needs: what sends, changes and serves, and what upgrades the tables.
_NEVER = ("requests", "msal", "flask", "babel", "rqmail.vault", "rqmail.mailers.factory", "playhouse.migrations")


@pytest.mark.parametrize(
    ("arguments", "loads", "not_loaded"),
    [
        (["status"], "rich", ("structlog", "rq", "rqmail.queues", "rqmail.models.message")),
        (["status", "--json"], "rqmail.insight.overview", ("structlog", "rich", "rq", "rqmail.models.message")),
        (["mailbox", "list", "--json"], "rqmail.administration.mailboxes", ("structlog", "rich", "rq")),
        (["message", "list", "--json"], "rqmail.models.message", ("structlog", "rich", "rq", "email_validator")),
        (["send", "--to", "a@x.nl", "--subject", "s", "--text", "t"], "rqmail.intake.draft", ("rich", "jinja2")),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_loads_what_it_uses_and_nothing_else(environment, arguments, loads, not_loaded):
    code = (
        f"import sys; from rqmail.cli import cli; cli({arguments}, standalone_mode=False); print(sorted(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    loaded = set(ast.literal_eval(told.splitlines()[-1]))
    assert loads in loaded
    assert loaded & {*_NEVER, *not_loaded} == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["send", "--mailbox", "news"],
        ["send", "--mailbox", "news", "--tenant", "acme", "--to", "a@x.nl", "--subject", "s", "--text", "t"],
        ["send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text", "t", "--text-file", "-"],
        ["mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "many"],
        ["mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "1.5"],
        ["mailbox", "set", "news"],
        ["mailbox", "pause", "news", "--reason", "r", "--duration", "soon"],
        ["tenant", "set", "acme"],
        ["tenant", "add", "acme", "--provider", "smtp"],
        ["message", "cancel"],
        ["message", "cancel", "some-id", "--all"],
        ["message", "cancel", "some-id", "--dry-run"],
        ["message", "resolve", "some-id", "perhaps"],
        ["import", "no-such-file.csv", "--mailbox", "news"],
        ["purge", "--older-than", "long"],
        ["web", "--port", "99999"],
    ],
)
def test_wrong_usage_exits_with_2(run, arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "exit_code", "kind"),
    [
        (["send", "--mailbox", "none", "--to", "a@x.nl", "--subject", "s", "--text", "t"], 2, "InvalidInputError"),
        (["mailbox", "add", "news", "--address", "nobody"], 2, "InvalidInputError"),
        (["mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "-1"], 2, "InvalidInputError"),
        (["mailbox", "explain", "none"], 1, "NotFoundError"),
        (["message", "show", "none"], 1, "NotFoundError"),
        (["message", "shew", "none"], 2, "UsageError"),
    ],
)
def test_an_error_is_one_line_for_people_and_one_object_for_programs(run, arguments, exit_code, kind):
    told = run(*arguments)
    assert told.exit_code == exit_code
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    error = json.loads(result.stderr)["error"]
    assert error["type"] == kind
    assert error["message"] in told.stderr
    if kind != "UsageError":
        assert told.stderr == f"Error: {error['message']}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("message", "show", "\udcff"),
        ("message", "list", "--search", "caf\udce9"),
        ("message", "list", "--recipient", "caf\udce9@example.org"),
        ("message", "cancel", "caf\udce9"),
        ("mailbox", "pause", "news", "--reason", "caf\udce9"),
        ("import", "--undo", "caf\udce9"),
        ("explain", "tenant:caf\udce9"),
        ("send", "--mailbox", "caf\udce9", "--to", "a@example.org", "--subject", "x", "--text", "y"),
    ],
)
def test_bytes_that_are_not_utf_8_are_wrong_usage_or_find_nothing_and_no_traceback(run, arguments):
    run("mailbox", "add", "news", "--address", "news@example.org", "--no-check")
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit)
    assert (result.exit_code, len(result.output.strip().splitlines())) in {(1, 1), (2, 1)}


def test_a_length_of_time_beyond_the_calendar_is_wrong_usage(run):
    result = run("purge", "--older-than", "999999d")
    assert (result.exit_code, "at most 36500d" in result.output) == (2, True)


def test_a_wrong_setting_is_named_with_what_is_allowed(environment):
    told = rqmail("status", RQMAIL_SEND_LANES="many")
    assert told.returncode == 2
    assert told.stderr.startswith("Error: RQMAIL_SEND_LANES: 'many' is not valid; allowed: ")


def test_a_missing_table_says_what_to_do(environment, tmp_path):
    told = rqmail("mailbox", "list", RQMAIL_DATABASE_URL=f"sqlite:///{tmp_path}/empty.db")
    assert told.returncode == 1
    assert "run `rqmail init` first" in told.stderr
    assert "Traceback" not in told.stderr


def test_without_redis_the_tables_are_made_and_the_rest_is_told(environment, tmp_path):
    told = rqmail("init", RQMAIL_DATABASE_URL=f"sqlite:///{tmp_path}/new.db", RQMAIL_REDIS_URL="redis://127.0.0.1:1/0")
    assert told.returncode == 1
    assert told.stdout.startswith("Tables: 0001")
    assert told.stderr.startswith("Error: Redis cannot be used: ")


def test_init_can_be_asked_what_is_missing_without_changing_anything(run, run_json, redis_client):
    missing = run("init", "--check", "--json")
    assert missing.exit_code == 1
    told = json.loads(missing.stdout)
    assert (told["ready"], told["migrations"]) == (False, [])
    assert "rqmail-tick-recover" in told["ticks"]
    assert redis_client.keys() == []
    run("init")
    assert run_json("init", "--check") == {"ready": True, "migrations": [], "ticks": []}
    redis_client.flushall()
    again = run("init", "--check")
    assert (again.exit_code, "run `rqmail init`" in again.stdout) == (1, True)


def test_tables_that_are_behind_are_told_also_while_redis_is_away(environment, tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"
    told = rqmail("init", "--check", RQMAIL_DATABASE_URL=url, RQMAIL_REDIS_URL="redis://127.0.0.1:1/0")
    assert told.returncode == 1
    assert told.stdout.startswith("Tables: 0001")
    assert "not applied; run `rqmail init`" in told.stdout
    assert told.stderr.startswith("Error: Redis cannot be used: ")


def test_init_is_safe_to_repeat(run_json):
    assert run_json("init")["ticks"]
    assert run_json("init") == {"migrations": [], "ticks": []}


def rqmail(*arguments, **environment):
    """Run the real command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "rqmail.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )
