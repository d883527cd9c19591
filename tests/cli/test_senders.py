"""Mailboxes and tenants on the command line."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from rqmail.models.mailbox import TenantMailSetting


def test_a_mailbox_is_added_changed_and_listed(run, run_json):
    added = run_json("mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "20")
    assert (added["key"], added["rateLimitPerMinute"], added["rateLimitRecipientsPerDay"]) == ("news", 20, None)
    changed = run_json("mailbox", "set", "news", "--per-minute", "default", "--recipients-per-day", "100")
    assert (changed["rateLimitPerMinute"], changed["rateLimitRecipientsPerDay"]) == (None, 100)
    assert run_json("mailbox", "list") == [changed]
    listed = run("mailbox", "list").stdout
    assert "25 (default)" in listed
    assert run("mailbox", "add", "news", "--address", "b@x.nl").exit_code == 1
    assert run("mailbox", "delete", "news").exit_code == 0
    assert run_json("mailbox", "list") == []


def test_a_mailbox_is_paused_explained_and_resumed(run, run_json):
    run("mailbox", "add", "news", "--address", "news@x.nl")
    run("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text", "t")
    assert (
        run_json("mailbox", "pause", "news", "--reason", "wrong list", "--duration", "5m")["pauseReason"]
        == "wrong list"
    )
    assert "1 message waits: the mailbox is paused until" in run("mailbox", "explain", "news").stdout
    assert "wrong list" in run("mailbox", "list").stdout
    assert run_json("mailbox", "resume", "news")["pausedUntil"] is None
    assert run_json("mailbox", "reset", "news")["key"] == "news"
    explained = run("mailbox", "explain", "news").stdout
    assert "minute: 0 of 25 used, 25 left (default)" in explained


def test_a_secret_is_read_from_a_file_or_standard_input_and_never_shown(run, run_json, tmp_path):
    file = tmp_path / "secret"
    file.write_text("hunter2~hunter2\n")
    added = run(
        "tenant", "add", "acme", "--provider", "microsoft-graph", "--address", "post@acme.nl",
        "--graph-client-id", "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902", "--graph-client-secret-file", file, "--json",
    )  # fmt: skip
    assert added.exit_code == 0
    assert "hunter2" not in added.output
    changed = run_json("tenant", "set", "acme", "--sendgrid-api-key-file", "-", stdin="SG.key\n")
    assert (changed["hasGraphClientSecret"], changed["hasSendgridApiKey"]) == (True, True)
    assert "hunter2" not in TenantMailSetting.get_by_id("acme").graph_client_secret_encrypted
    cleared = run_json("tenant", "set", "acme", "--clear", "sendgrid-api-key")
    assert not cleared["hasSendgridApiKey"]
    assert "set" in run("tenant", "list").stdout
    assert run("tenant", "delete", "acme").exit_code == 0


def test_a_mailbox_says_what_becomes_of_its_copies_in_sent_items(run, run_json):
    add = ("mailbox", "add", "news", "--address", "news@x.nl")
    assert run(*add, "--sent-items", "prune").exit_code == 2
    added = run_json(*add, "--sent-items", "prune", "--prune-after-days", "30")
    assert (added["sentItems"], added["pruneAfterDays"]) == ("prune", 30)
    assert run_json("mailbox", "set", "news", "--sent-items", "none")["sentItems"] == "none"
    assert run_json("mailbox", "set", "news", "--per-minute", "5")["sentItems"] == "none"
    assert run("mailbox", "set", "news", "--prune-after-days", "0").exit_code == 2
    assert run_json("mailbox", "set", "news", "--sent-items", "keep")["sentItems"] == "keep"


def test_a_mailbox_gets_a_pacing_of_its_own_and_goes_back_to_the_default(run, run_json):
    assert run_json("mailbox", "add", "news", "--address", "news@x.nl", "--pacing", "burst")["pacing"] == "burst"
    assert run_json("mailbox", "set", "news", "--pacing", "even")["pacing"] == "even"
    assert run_json("mailbox", "set", "news", "--per-minute", "5")["pacing"] == "even"
    assert run_json("mailbox", "set", "news", "--pacing", "default")["pacing"] is None
    assert run("mailbox", "set", "news", "--pacing", "slowly").exit_code == 2


def test_any_sender_is_explained_by_its_name_or_by_a_key_that_is_its_alone(run, run_json, app, at_work):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    run_json("mailbox", "add", "both", "--address", "both@x.nl")
    for key in ("acme", "both"):
        run_json("tenant", "add", key, "--provider", "sendgrid", "--sendgrid-from", "post@acme.nl")
    run_json("send", "--tenant", "acme", "--to", "a@x.nl", "--subject", "s", "--text", "t")
    app.limiter.pause("tenant:acme", 60_000, "SendGrid refuses the sender")
    app.limiter.pause("default", 60_000, "no credits")

    assert run_json("explain", "news")["key"] == run_json("explain", "mailbox:news")["key"] == "news"
    acme = run_json("explain", "acme")
    assert (acme["state"], acme["pauseReason"]) == ("paused", "SendGrid refuses the sender")
    told = run("tenant", "explain", "acme").stdout
    assert told == run("explain", "tenant:acme").stdout
    assert "1 message waits: the mailbox is paused until" in told
    assert "no credits" in run("explain", "default").stdout
    assert "mailbox:both or tenant:both" in run("explain", "both").stderr
    assert run("explain", "tenant:none").exit_code == 1
    assert run("explain", "none").stderr == "Error: sender 'none' does not exist\n"
    assert {problem["text"].split(" ")[0] for problem in run_json("status")["problems"]} == {"tenant:acme", "default"}


def test_limits_are_set_until_a_moment_and_go_back_by_themselves(run, run_json, app, monkeypatch):
    run_json("mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "20")
    until = app.clock() + timedelta(days=3)
    held = run_json("mailbox", "set", "news", "--per-minute", "5", "--until", until.isoformat())
    assert (held["rateLimitPerMinute"], held["limitsAfterPerMinute"]) == (5, 20)
    assert datetime.fromisoformat(held["limitsUntil"]) == until
    assert run_json("mailbox", "set", "news", "--until", "for-good")["limitsUntil"] is None
    assert "Its limits go back" in run("mailbox", "set", "news", "--until", until.isoformat()).stdout


def test_tonight_ends_with_the_day_of_the_time_zone_that_is_set(environment, run, run_json, app, monkeypatch):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    zone = ZoneInfo("Pacific/Auckland")
    monkeypatch.setattr(app, "settings", app.settings.model_copy(update={"timezone": zone.key}))
    held = run_json("mailbox", "set", "news", "--per-minute", "5", "--until", "tonight")
    tonight = datetime.fromisoformat(held["limitsUntil"]).astimezone(zone)
    assert (tonight.hour, tonight.minute) == (0, 0)
    assert timedelta(0) < tonight - app.clock() <= timedelta(hours=25)


def test_until_takes_no_moment_without_a_zone_in_the_past_or_empty(run, run_json):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    for wrong in ("2026-12-24T18:00", "soon", "2020-01-01T00:00Z", "", "2090-01-01T00:00Z"):
        refused = run("mailbox", "set", "news", "--per-minute", "5", "--until", wrong)
        assert refused.exit_code in (1, 2), wrong
        assert "allowed" in refused.stderr, wrong
        assert "ntil" in refused.stderr
    assert run_json("mailbox", "list")[0]["rateLimitPerMinute"] is None


def test_a_limit_above_what_exchange_allows_is_taken_with_a_warning(run, run_json):
    added = run("mailbox", "add", "news", "--address", "news@x.nl", "--per-minute", "31", "--json")
    assert added.exit_code == 0
    assert "Exchange Online allows a mailbox 30 messages a minute" in added.stderr
    changed = run("mailbox", "set", "news", "--per-minute", "30", "--recipients-per-day", "10001")
    assert "10,000 recipients a day" in changed.stderr
    assert "a minute" not in changed.stderr


def test_the_ids_of_an_app_are_guids_or_refused_by_name(run):
    arguments = ("tenant", "add", "acme", "--provider", "microsoft-graph", "--address", "a@acme.nl")
    for option, field in (("--graph-client-id", "graphClientId"), ("--graph-tenant-id", "graphTenantId")):
        refused = run(*arguments, option, "no guid")
        assert refused.exit_code in (1, 2)
        assert field in refused.stderr


def test_a_mailbox_is_checked_when_it_is_saved_and_when_asked(run, run_json, graph_of_the_sandbox):
    added = run_json("mailbox", "add", "news", "--address", "news@x.nl")
    assert (added["check"]["exists"], added["check"]["maySend"], added["check"]["mayRead"]) == (True, True, True)
    assert run_json("mailbox", "set", "news", "--per-minute", "5")["check"] == added["check"]
    assert run_json("mailbox", "list")[0]["check"] == added["check"]
    checked = run_json("mailbox", "check", "news")
    assert (checked["key"], checked["level"], checked["mayWrite"]) == ("news", "ok", True)
    assert checked["checkedOn"] >= added["check"]["checkedOn"]
    assert run_json("mailbox", "set", "news", "--address", "other@x.nl", "--no-check")["check"] is None
    assert [one["key"] for one in run_json("mailbox", "check", "--all")] == ["news"]
    assert "may write drafts: yes" in " ".join(run("mailbox", "check", "news").stdout.split())
    assert run("mailbox", "check").exit_code == 2
    assert run("mailbox", "check", "none").exit_code == 1
    assert run("mailbox", "delete", "news").exit_code == 0


def test_a_tenant_with_a_wrong_secret_is_saved_and_told_so(run, run_json, graph_of_the_sandbox, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("wrong")
    saved = run(
        "tenant", "add", "acme", "--provider", "microsoft-graph", "--address", "post@acme.nl",
        "--graph-client-id", "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902", "--graph-client-secret-file", tmp_path / "secret",
    )  # fmt: skip
    assert saved.exit_code == 0
    assert "graphClientSecret of tenant acme" in saved.stderr
    assert run("tenant", "check", "acme").exit_code == 1
    assert run_json("tenant", "list")[0]["check"]["maySend"] is False
    monkeypatch.setenv("COLUMNS", "160")
    assert "error" in run("tenant", "list").stdout


def test_nothing_is_asked_where_no_app_is_configured(run_json):
    assert run_json("mailbox", "add", "news", "--address", "news@x.nl")["check"] is None
