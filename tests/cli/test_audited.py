"""What is changed on the command line is written down like any other change."""

from __future__ import annotations

from rqmail.administration.audit import COMMAND_LINE


def test_every_change_on_the_command_line_is_audited(run, app):
    def ran(*arguments):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        return result

    ran("mailbox", "add", "clubblad", "--address", "clubblad@example.org")
    ran("mailbox", "set", "clubblad", "--per-minute", "7")
    ran("mailbox", "pause", "clubblad", "--reason", "wrong list", "--duration", "5m")
    ran("mailbox", "resume", "clubblad")
    ran("send", "--mailbox", "clubblad", "--to", "a@example.org", "--subject", "Hi", "--text", "Hello")
    ran("message", "cancel", "--all", "--mailbox", "clubblad", "--dry-run")
    ran("message", "cancel", "--all", "--mailbox", "clubblad")
    ran("mailbox", "delete", "clubblad")
    ran("tenant", "add", "acme", "--provider", "default")

    lines = app.audit.lines(limit=50)
    assert {line.who for line in lines} == {COMMAND_LINE}
    assert sorted(line.action for line in lines) == sorted(
        [
            "mailbox.add",
            "mailbox.set",
            "mailbox.pause",
            "mailbox.resume",
            "messages.cancel",
            "messages.cancel.done",
            "mailbox.delete",
            "tenant.add",
        ]
    )
    change = next(line for line in lines if line.action == "mailbox.set")
    assert (change.before["rateLimitPerMinute"], change.after["rateLimitPerMinute"]) == (None, 7)


def test_recovering_from_a_backup_says_what_it_does_and_is_audited(run, run_json, app):
    run("mailbox", "add", "news", "--address", "news@example.org")
    run("send", "--mailbox", "news", "--to", "a@example.org", "--subject", "Hi", "--text", "Hello")
    taken_at = ("recover-from-backup", "--taken-at", app.clock().isoformat())
    assert run_json(*taken_at, "--dry-run") == {
        "messages": 1,
        "campaignsPaused": [],
        "importsStopped": [],
        "dryRun": True,
    }
    assert run(*taken_at).stdout == "Marked as in doubt: 1 message.\n"
    assert run_json(*taken_at)["messages"] == 0
    assert [line.who for line in app.audit.lines() if line.action == "backup.recover"] == [COMMAND_LINE]
    refused = run("recover-from-backup", "--taken-at", "yesterday")
    assert refused.exit_code == 2
    assert "taken-at" in refused.output
