"""``rqmail webhook``: who is told of what happens to mail."""

from __future__ import annotations

import pytest

from mailers.servers import Script, serving
from rqmail import bootstrap
from rqmail.models import events


@pytest.fixture
def private(monkeypatch, app):
    """An application whose webhooks may lead to this machine."""
    monkeypatch.setenv("RQMAIL_WEBHOOK_ALLOW_PRIVATE", "true")
    bootstrap.set_mail_rate_limiter_for_tests(None)
    return bootstrap.application()


@pytest.mark.usefixtures("private")
def test_a_webhook_is_kept_by_commands(run, run_json):
    script = Script([(200, {}, b""), (500, {}, b""), (200, {}, b"")])
    with serving(script) as url:
        added = run("webhook", "add", f"{url}/in", "--event", "mailbox-paused", "--event", "sent")
        assert "is told of: sent, mailbox-paused" in added.stdout
        [listed] = run_json("webhook", "list")["webhooks"]
        webhook_id = listed["id"]
        assert added.stdout.split("once: ")[1].strip().startswith("whsec_")
        assert "took the test: HTTP 200" in run("webhook", "test", webhook_id).stdout
        app = bootstrap.application()
        events.tell_of_pause("mailbox:news", "renovation", None, app.clock())
        app.webhook_deliverer.run()
        [failed] = run_json("webhook", "deliveries", webhook_id, "--failed")["deliveries"]
        assert (failed["error"], failed["payload"]["data"]["mailbox"]) == ("HTTP 500", "news")
        assert "failing" in run("webhook", "show", webhook_id).stdout
        assert "1 event is delivered again" in run("webhook", "redeliver", webhook_id, failed["eventId"]).stdout
        app.webhook_deliverer.run()
        assert "delivered" in run("webhook", "deliveries", webhook_id).stdout
        assert run_json("webhook", "disable", webhook_id)["state"] == "disabled"
        assert run_json("webhook", "enable", webhook_id)["state"] == "ok"
        assert run("webhook", "remove", webhook_id).exit_code == 0
    assert run_json("webhook", "list") == {"webhooks": []}
    actions = [line.action.removeprefix("webhook.") for line in app.audit.lines()]
    assert actions == ["remove", "enable", "disable", "redeliver", "add"]
    assert "whsec_" not in str(app.audit.lines())


def test_what_cannot_be_done_is_said_in_a_line(run):
    gone = run("webhook", "show", "wh_1")
    assert (gone.exit_code, gone.stderr) == (1, "Error: webhook 'wh_1' does not exist\n")
    private = run("webhook", "add", "https://127.0.0.1/", "--event", "sent")
    assert (private.exit_code, "RQMAIL_WEBHOOK_ALLOW_PRIVATE" in private.stderr) == (2, True)
    added = run("webhook", "add", "https://nobody.invalid/", "--event", "sent", "--json")
    assert added.exit_code == 0
    webhook_id = bootstrap.application().webhooks.all()[0].id
    untaken = run("webhook", "test", webhook_id)
    assert (untaken.exit_code, "its name cannot be resolved" in untaken.stderr) == (1, True)
    assert "event 'msg_1' does not exist" in run("webhook", "redeliver", webhook_id, "msg_1").stderr
    assert run("webhook", "redeliver", webhook_id).exit_code == 2
