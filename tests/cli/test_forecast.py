"""``rqmail forecast``: when the mail will have left, and what if."""

from __future__ import annotations

from datetime import datetime, timedelta


def test_forecast_tells_when_the_mail_of_each_mailbox_has_left(app, run, run_json):
    run_json("mailbox", "add", "news", "--address", "news@contoso.example", "--no-check")
    run_json("mailbox", "add", "events", "--address", "events@contoso.example", "--no-check")
    told = run_json("forecast", "--messages", 5_000)
    assert told["messages"] == 5_000
    shares = {key: one["further"] for key, one in told["mailboxes"].items()}
    assert sum(shares.values()) == 5_000
    assert shares["news"] == 2_500
    took = datetime.fromisoformat(told["doneOn"]) - datetime.fromisoformat(told["at"])
    assert timedelta(minutes=98) < took < timedelta(minutes=102)
    alone = run_json("forecast", "--messages", 5_000, "--mailbox", "news")
    assert list(alone["mailboxes"]) == ["news"]
    assert alone["doneOn"] > told["doneOn"]
    shown = run("forecast", "--messages", 5_000)
    assert shown.exit_code == 0
    assert "5,000 messages" in shown.output
    assert "2,500" in shown.output
    assert "This holds from when it is mended: No worker listens for mail" in shown.stderr  # nor a scheduler


def test_what_cannot_be_forecast_is_refused_by_name(app, run):
    refused = run("forecast", "--messages", -1)
    assert refused.exit_code == 2
    assert "messages" in refused.output
    assert run("forecast", "--at", "tomorrow").exit_code == 2
    missing = run("forecast", "--mailbox", "nobody")
    assert missing.exit_code == 1
    assert "mailbox 'nobody' does not exist" in missing.output
