"""``rqmail suppression``, and what the other commands say of who is on the list."""

from __future__ import annotations

import pytest


@pytest.fixture
def news(app):
    app.mailboxes.add("news", "news@contoso.example")


def test_the_list_is_kept_by_commands(run, run_json, app, tmp_path):
    assert run("suppression", "add", "B@x.nl", "c@x.nl", "--reason", "complaint").exit_code == 0
    listed = run_json("suppression", "list", "--search", "B@X.NL")
    assert [(one["address"], one["reason"], one["source"]) for one in listed["suppressions"]] == [
        ("b@x.nl", "complaint", "command line")
    ]
    assert "c@x.nl" in run("suppression", "list").stdout
    exported = tmp_path / "list.csv"
    assert run("suppression", "export", "--output", exported).exit_code == 0
    assert "b@x.nl gets mail again" in run("suppression", "remove", "b@x.nl").stdout
    assert run_json("suppression", "import", exported, "--dry-run")["report"]["added"] == 1
    assert "1 address added; 1 row was known" in run("suppression", "import", exported).stdout
    assert [line.action for line in app.audit.lines(limit=2)] == ["suppression.import", "suppression.remove"]


def test_what_cannot_be_done_is_said_in_a_line(run):
    gone = run("suppression", "remove", "b@x.nl")
    assert (gone.exit_code, gone.stderr) == (1, "Error: suppression 'b@x.nl' does not exist\n")
    assert run("suppression", "add", "jan").exit_code == 2
    bad = run("suppression", "import", "-", stdin="a@x.nl\njan\n")
    assert (bad.exit_code, "row 2: address" in bad.stderr) == (2, True)


@pytest.mark.usefixtures("news")
def test_whoever_hands_mail_in_hears_who_gets_nothing(run, run_json, tmp_path):
    run("suppression", "add", "b@x.nl", "--reason", "unsubscribe")
    send = ("send", "--mailbox", "news", "--subject", "Hi", "--text", "Hi.", "--to")
    assert "b@x.nl is suppressed (unsubscribe since" in run(*send, "a@x.nl,b@x.nl").stderr
    assert [one["address"] for one in run_json(*send, "a@x.nl,b@x.nl")["suppressed"]] == ["b@x.nl"]
    refused = run(*send, "b@x.nl")
    assert (refused.exit_code, "not suppressed: b@x.nl (unsubscribe" in refused.stderr) == (2, True)
    assert run(*send, "b@x.nl", "--ignore-unsubscribed").exit_code == 0
    rows = tmp_path / "rows.csv"
    rows.write_text("to,subject,text\na@x.nl,s,t\nb@x.nl,s,t\n")
    done = run("import", rows, "--mailbox", "news")
    assert "1 message was stored" in done.stdout
    assert "1 recipient gets nothing, being suppressed; 1 row is for nobody else" in done.stderr
    assert "row 3: b@x.nl (unsubscribe)" in done.stderr
    assert run_json("import", rows, "--mailbox", "news", "--ignore-unsubscribed")["stored"] == 2


@pytest.mark.usefixtures("news")
def test_what_came_back_through_each_mailbox_is_shown(run, run_json):
    assert "not looked for yet" in run("mailbox", "bounces").stdout
    assert run_json("mailbox", "bounces", "news")["mailboxes"]["news"]["level"] == "ok"
