"""What a terminal of 80 columns, a pipe and a shell's completion get to see."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from rqmail.terminal.tables import console, moment, table

ID = "01a3cbe5-77aa-7a0c-9f31-0f3d7a5277aa"


def drawn(shown, width):
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(shown)
    return out.getvalue()


def rows():
    shown = table("id", "budget", "sent", "why", right=("sent",), folds=("why",), drops=("sent", "why"))
    shown.add_row(ID, "8,990/9,000", "12,345", "the mailbox is over its sending quota until tomorrow")
    return shown


@pytest.mark.parametrize("width", [60, 66, 70, 80, 120, 200])
def test_ids_and_budgets_are_whole_at_any_width(width):
    text = drawn(rows(), width)
    assert ID in text
    assert "8,990/9,000" in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width


def test_what_there_is_no_room_for_is_named():
    assert "12,345" in drawn(rows(), 120)
    narrow = drawn(rows(), 70)
    assert "12,345" not in narrow
    assert "no room for: sent" in narrow


def test_a_status_of_80_columns_keeps_senders_and_budgets_whole(run, run_json, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run_json("mailbox", "add", "nieuwsbrief-vlaanderen", "--address", "news@x.nl")
    shown = run("status").stdout
    assert "mailbox:nieuwsbrief-vlaanderen" in shown
    assert "0/25" in shown
    assert "0/9,000" in shown
    assert max(len(line.rstrip()) for line in shown.splitlines() if "mailbox:" in line) <= 80


def test_columns_is_honoured_in_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert console().width == 72
    monkeypatch.setenv("COLUMNS", "wide")
    assert console().width == 200


def test_problems_come_first_and_every_moment_is_utc(run, run_json, app):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    run_json("mailbox", "pause", "news", "--reason", "wrong list", "--duration", "2h")
    run_json("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text", "t")
    shown = run("status").stdout
    assert shown.index("warning:") < shown.index("messages")
    assert "times     UTC" in shown


def test_a_moment_is_written_in_utc_and_says_so():
    now = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
    assert moment(now + timedelta(hours=1), now) == "13:00:00Z"
    assert moment(now + timedelta(days=1), now) == "2026-03-30 12:00Z"


def test_the_messages_of_a_sender_that_does_not_exist_are_an_error(run, run_json):
    for command in (("list",), ("cancel", "--all"), ("resolve", "sent", "--all")):
        result = run("message", *command, "--mailbox", "nobody")
        assert result.exit_code == 2
        assert "mailbox" in result.stderr
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    assert run("message", "list", "--mailbox", "news").exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_its_completion(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_RQMAIL_COMPLETE" in result.stdout
