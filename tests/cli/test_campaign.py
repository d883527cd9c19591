"""``rqmail campaign``: created, looked at, steered and exported by commands."""

from __future__ import annotations

import csv
import io
import json

import pytest

from rqmail.models.bounces import note_bounce
from rqmail.models.deliveries import Delivery, note_delivery

LIST = "to,First name,price\nan@x.nl,An,12.5\nbo@x.nl,Bo,3\n"


@pytest.fixture
def news(app):
    app.mailboxes.add("news", "news@contoso.example")


@pytest.fixture
def files(tmp_path, news):
    (tmp_path / "list.csv").write_text(LIST)
    (tmp_path / "mail.html").write_text('<p>Dear {{ first_name }}, {{ price|currency("EUR") }}</p>')
    return tmp_path


CREATE = ("campaign", "create", "spring", "--mailbox", "news", "--subject", "Hi {{ first_name }}", "--html-file",
          "mail.html", "--recipients", "list.csv")  # fmt: skip


@pytest.mark.usefixtures("files")
def test_a_campaign_is_made_looked_at_started_and_ended_by_commands(run, run_json, app):
    made = run_json(*CREATE, "--language", "nl")
    assert (made["id"], made["recipients"], made["duplicates"], made["suppressed"]) == (1, 2, 0, 0)
    shown = run("campaign", "preview", "spring", "--row", "2").stdout
    assert "subject: Hi Bo" in shown and "Dear Bo, €\xa03,00" in shown
    assert run_json("campaign", "status", "spring")["state"] == "DRAFT"
    assert run_json("campaign", "start", "spring")["state"] == "RUNNING"
    assert run("campaign", "start", "spring").exit_code == 0, "it goes on"
    app.dispatcher.tick()
    told = run_json("campaign", "status", "spring")
    assert (told["waiting"], told["sent"], told["failed"], told["unknown"], told["bounced"]) == (2, 0, 0, 0, 0)
    assert told["doneOn"] is not None
    assert [one["sender"] for one in told["pool"]] == ["mailbox:news"]
    assert run_json("campaign", "pause", "spring")["state"] == "PAUSED"
    assert run_json("campaign", "resume", "spring")["state"] == "RUNNING"
    assert "RUNNING" in run("campaign", "list").stdout
    asked = run("campaign", "cancel", "spring", stdin="n\n")
    assert (asked.exit_code, "2 people will not get it" in asked.stderr) == (1, True)
    assert run_json("campaign", "cancel", "spring", "--yes")["state"] == "CANCELLED"
    app.dispatcher.tick()
    assert run_json("campaign", "status", "spring")["cancelled"] == 2
    told = [line.action for line in reversed(app.audit.lines(limit=10))]
    assert told == [f"campaign.{verb}" for verb in ("create", "start", "start", "pause", "resume", "cancel")]


@pytest.mark.usefixtures("files")
def test_an_export_tells_whose_mail_came_back_and_who_is_unsubscribed(run, run_json, app):
    run(*CREATE)
    run("campaign", "start", "spring")
    app.dispatcher.tick()
    [an, _] = run_json("campaign", "people", "spring")["people"]
    note_bounce(an["messageId"], "an@x.nl", code="5.1.1", detail="no", at=app.clock(), probable=False)
    run("suppression", "add", "BO@x.nl", "--reason", "unsubscribe")
    rows = list(csv.DictReader(io.StringIO(run("campaign", "export", "spring").stdout.lstrip("\ufeff"))))
    assert [(one["bounced"], bool(one["unsubscribedOn"])) for one in rows] == [("5.1.1", False), ("", True)]
    shown = run("campaign", "people", "spring").stdout
    assert "bounced (5.1.1)" in shown
    assert "unsubscribed" in shown


@pytest.mark.usefixtures("files")
def test_an_export_tells_of_everybody_in_the_order_of_the_list(run, run_json):
    run(*CREATE)
    exported = run("campaign", "export", "spring").stdout
    rows = list(csv.DictReader(io.StringIO(exported.lstrip("\ufeff"))))
    assert [(one["address"], one["status"], one["sentOn"]) for one in rows] == [
        ("an@x.nl", "WAITING", ""),
        ("bo@x.nl", "WAITING", ""),
    ]
    lines = run("campaign", "export", "spring", "--json").stdout.splitlines()
    assert [json.loads(line)["address"] for line in lines] == ["an@x.nl", "bo@x.nl"]
    assert [one["address"] for one in run_json("campaign", "people", "spring", "-q", "BO")["people"]] == ["bo@x.nl"]


@pytest.mark.usefixtures("files")
def test_whether_people_got_it_is_told_by_every_command_that_tells_of_them(run, run_json, app):
    run(*CREATE)
    run("campaign", "start", "spring")
    app.dispatcher.tick()
    people = run_json("campaign", "people", "spring")["people"]
    assert [one["delivery"] for one in people] == [None, None]
    now = app.clock()
    for person, status in zip(people, ("delivered", "quarantined"), strict=True):
        note_delivery(person["messageId"], Delivery(person["address"], status, now, now, probable=False))
    told = run_json("campaign", "status", "spring")
    assert (told["delivered"], "delivered: 1" in run("campaign", "status", "spring").stdout) == (1, True)
    exported = run("campaign", "export", "spring").stdout
    assert [line.rpartition(",")[2] for line in exported.splitlines()] == ["delivery", "delivered", "quarantined"]
    shown = run_json("message", "show", people[1]["messageId"])["recipients"][0]["delivery"]
    assert (shown["address"], shown["status"], shown["probable"]) == ("bo@x.nl", "quarantined", False)
    assert "bo@x.nl (quarantined, taken" in run("message", "show", people[1]["messageId"]).stdout
    assert "bo@x.nl quarantined" in run("message", "export").stdout


@pytest.mark.usefixtures("files")
def test_bad_rows_are_all_named_and_nothing_is_stored(run, tmp_path):
    (tmp_path / "list.csv").write_text(LIST + "nobody,X,1\n,Y,2\nAN@x.nl,An,1\n")
    refused = run(*CREATE)
    assert refused.exit_code == 2
    assert "2 of 5 rows cannot be used; nothing was stored" in refused.stderr
    assert "row 4, to:" in refused.stderr and "row 5, to:" in refused.stderr
    told = run(*CREATE, "--json")
    assert told.exit_code == 2
    assert [(one["row"], one["column"]) for one in json.loads(told.stdout)["errors"]] == [(4, "to"), (5, "to")]
    assert run("campaign", "list", "--json").stdout.strip() == '{\n  "campaigns": []\n}'
    made = run(*CREATE, "--skip-invalid")
    assert (made.exit_code, "a draft for 2 people" in made.stdout) == (0, True)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        ((*CREATE, "--mailbox", "none"), 1, "mailbox 'none' does not exist"),
        ((*CREATE[:6], "Hi {{ firstname }}", *CREATE[7:]), 2, "did you mean 'first_name'"),
        ((*CREATE, "--between", "8-20", "--timezone", "Europe/Amsterdam"), 2, "hours such as 08:00-20:00"),
        ((*CREATE, "--between", "08:00-20:00"), 2, "timezone"),
        ((*CREATE, "--not-within", "90m"), 2, "whole hours or days"),
        ((*CREATE, "--column", "E-mail"), 2, "to=THEIRS"),
        (("campaign", "status", "autumn"), 1, "campaign 'autumn' does not exist"),
        (("campaign", "preview", "autumn"), 1, "campaign 'autumn' does not exist"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_line(run, arguments, exit_code, said):
    result = run(*arguments)
    assert (result.exit_code, said in result.stderr) == (exit_code, True), result.stderr


@pytest.mark.usefixtures("files")
def test_a_draft_is_tried_changed_cloned_and_deleted(run, run_json, app):
    assert run(*CREATE, "--dry-run").exit_code == 0
    assert run("campaign", "delete", "spring").exit_code == 1
    run(*CREATE)
    message_id = run_json("campaign", "test", "spring", "--to", "me@x.nl")["id"]
    assert run_json("message", "show", message_id)["subject"] == "[Test] Hi An"
    app.mailboxes.add("events", "events@contoso.example")
    changed = ("--mailbox", "events", "--between", "08:00-20:00", "--weekdays", "mon-fri", "--timezone", "UTC")
    assert run("campaign", "set", "spring", *changed, "--expires", "2031-01-01T00:00:00Z").exit_code == 0
    told = run_json("campaign", "status", "spring")
    assert [one["sender"] for one in told["pool"]] == ["mailbox:events"]
    assert told["window"] == "08:00-20:00 on mon, tue, wed, thu, fri (UTC)"
    assert run_json("campaign", "clone", "spring", "autumn")["state"] == "DRAFT"
    assert run_json("campaign", "delete", "spring") == {"deleted": "spring"}
    assert [one["name"] for one in run_json("campaign", "list")["campaigns"]] == ["autumn"]
