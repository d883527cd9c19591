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
