"""Handing messages in, looking at them and acting on them, on the command line."""

import csv
import io
import json
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from jobs.mail import purge_messages
from rqmail.clock import utc_now
from rqmail.insight.jsonable import as_json
from rqmail.models.access import AuditEntry
from rqmail.models.message import Message


@pytest.fixture
def send(run_json):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")

    def send(*more, to="a@x.nl", subject="Hallo"):
        return run_json("send", "--mailbox", "news", "--to", to, "--subject", subject, "--text", "dag", *more)["id"]

    return send


def end_as(status, message_id, outcome, error):
    """Put a message where a worker would have left it."""
    log = json.dumps({"at": "2026-03-10T09:30:20Z", "outcome": outcome, "duration_ms": 3}) + "\n"
    changes = {"status": status, "claim": "c", "attempts": 1, "last_error": error, "attempt_log": log}
    Message.update(changes).where(Message.id == message_id).execute()


def test_a_message_is_sent_with_everything_and_shown(send, run, run_json):
    tomorrow = (
        (utc_now() + timedelta(days=1)).replace(microsecond=0).astimezone(ZoneInfo("Europe/Amsterdam")).isoformat()
    )
    message_id = send(
        "--cc", "c@x.nl", "--bcc", "Jörg <d@x.nl>,e@x.nl", "--html", "<p>", "--priority", "low",
        "--at", tomorrow, to="a@x.nl,b@x.nl",
    )  # fmt: skip
    shown = run_json("message", "show", message_id)
    assert (shown["status"], shown["priority"], shown["sender"]) == ("SCHEDULED", "low", "mailbox:news")
    assert shown["scheduledOn"] == as_json(datetime.fromisoformat(tomorrow))
    assert shown["waitsFor"] == "time"
    assert [to["address"] for to in shown["recipients"]] == ["a@x.nl", "b@x.nl", "c@x.nl", "d@x.nl", "e@x.nl"]
    assert "Jörg <d@x.nl>" in run("message", "show", message_id).stdout


def test_the_answer_says_who_was_named_twice(run, run_json):
    to = ("send", "--mailbox", "news", "--to", "a@x.nl", "--cc", "Ann <A@X.nl>", "--subject", "s", "--text", "t")
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    told = run_json(*to)
    assert told["folded"] == [{"address": "a@x.nl", "kept": "to", "leftOut": "cc"}]
    assert "a@x.nl was named twice: kept in to, left out of cc." in run(*to).stderr


def test_without_json_the_id_is_printed_alone(send, run):
    told = run("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text-file", "-", stdin="dag\n")
    assert Message.get_by_id(told.stdout.strip()).contents.get().text == "dag\n"


def test_a_file_is_imported_or_its_errors_are_told(send, run, run_json, tmp_path):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.jsonl"
    good.write_text("to;subject;text\na@x.nl;s;t\nb@x.nl;s;t\n")
    bad.write_text('{"to": "jan", "subject": "s", "text": "t"}\n')
    assert run_json("import", good, "--mailbox", "news", "--dry-run") == {
        "rows": 2, "stored": 0, "errorCount": 0, "errors": [], "encoding": "utf-8", "passedOver": [],
        "duplicates": 0, "skipped": 0, "duplicateRows": [], "import": None, "delimiter": ";", "dryRun": True,
        "suppressed": 0, "emptied": 0, "suppressedRows": [], "notices": 0, "noticeRows": [],
    }  # fmt: skip
    assert run_json("import", good, "--mailbox", "news")["stored"] == 2
    assert run("import", "-", "--mailbox", "news", stdin=good.read_text()).stdout.startswith("2 messages were stored")
    told = run("import", bad, "--mailbox", "news")
    assert told.exit_code == 2
    assert "row 1: to: 'jan' is not valid" in told.stderr
    error = json.loads(run("import", bad, "--mailbox", "news", "--json").stderr)["error"]
    assert (error["errorCount"], error["errors"][0]["row"], error["errors"][0]["field"]) == (1, 1, "to")
    assert Message.select().count() == 4


def test_one_search_finds_a_message_and_lists_and_exports_tell_its_recipients(send, run, run_json):
    send()
    wanted = send("--cc", "c@x.nl", to="Jörg <Joerg@Sales.example>", subject="=Factuur")
    assert [line["id"] for line in run_json("message", "list", "--search", "joerg@sales")] == [wanted]
    assert run_json("message", "list", "-q", wanted)[0]["firstRecipient"] == "Joerg@sales.example"
    assert "Joerg@sales.example (+1)" in run("message", "list", "-q", "jörg").stdout
    told = run("message", "export", "-q", "factuur", "--delimiter", ";")
    header, row = csv.reader(io.StringIO(told.stdout_bytes.decode("utf-8-sig"), newline=""), delimiter=";")
    assert told.stdout_bytes.startswith(b"\xef\xbb\xbfid;")
    assert dict(zip(header, row, strict=True))["recipients"] == "Joerg@sales.example, c@x.nl"
    assert row[header.index("subject")] == "'=Factuur"
    wrong = run("message", "export", "--delimiter", "x")
    assert (wrong.exit_code, "delimiter" in wrong.stderr) == (2, True)


def test_messages_are_listed_by_what_is_known_about_them(send, run, run_json):
    first, second = send(subject="Factuur 100%"), send(to="b@x.nl")
    end_as("ERROR", second, "rejected", "No such recipient.")
    assert [line["id"] for line in run_json("message", "list")] == [second, first]
    assert [line["id"] for line in run_json("message", "list", "--status", "error")] == [second]
    assert [line["id"] for line in run_json("message", "list", "--recipient", "B@X.nl")] == [second]
    assert [line["id"] for line in run_json("message", "list", "--subject", "100%")] == [first]
    run_json("tenant", "add", "acme")
    assert run_json("message", "list", "--tenant", "acme") == []
    assert [line["id"] for line in run_json("message", "list", "--limit", "1", "--after", second)] == [first]
    assert "No such recipient." in run("message", "list").stdout
    assert "rejected" in run("message", "show", second).stdout


def test_a_message_is_cancelled_once_and_requeued(send, run, run_json):
    message_id = send()
    assert run_json("message", "cancel", message_id)["count"] == 1
    again = run("message", "cancel", message_id)
    assert again.exit_code == 1
    assert "is CANCELLED and cannot be cancelled" in again.stderr
    assert run_json("message", "requeue", message_id)["count"] == 1
    assert run_json("message", "show", message_id)["status"] == "SCHEDULED"


def test_all_that_matches_is_counted_first_and_then_acted_on(send, run_json):
    failed = [send(subject="one"), send(subject="two")]
    waiting = send(subject="three")
    for message_id in failed:
        end_as("ERROR", message_id, "rejected", "No such recipient.")
    assert run_json("message", "requeue", "--all", "--status", "ERROR", "--dry-run") == {"count": 2, "dryRun": True}
    assert run_json("message", "requeue", "--all", "--status", "ERROR", "--yes")["count"] == 2
    assert run_json("message", "cancel", "--all", "--subject", "t")["count"] == 2
    assert Message.get_by_id(waiting).status == "CANCELLED"
    assert Message.get_by_id(failed[0]).status == "SCHEDULED"


def test_requeueing_all_means_what_failed_keeps_its_expiry_and_has_to_be_confirmed(send, run, run_json):
    failed, cancelled, too_late = send(), send(), send()
    expires = (utc_now() + timedelta(days=1)).isoformat(sep=" ", timespec="microseconds")
    past = (utc_now() - timedelta(days=1)).isoformat(sep=" ", timespec="microseconds")
    end_as("ERROR", failed, "rejected", "No such recipient.")
    end_as("ERROR", too_late, "rejected", "No such recipient.")
    Message.raw("UPDATE message SET expires_on = ? WHERE id = ?", expires, failed).execute()
    Message.raw("UPDATE message SET expires_on = ? WHERE id = ?", past, too_late).execute()
    run_json("message", "cancel", cancelled)

    asked = run("message", "requeue", "--all", "--mailbox", "news")
    assert asked.exit_code == 2
    assert "1 message would be scheduled again: give --yes" in asked.stderr
    assert run_json("message", "requeue", "--all", "--mailbox", "news", "--yes")["count"] == 1
    shown = {message_id: run_json("message", "show", message_id) for message_id in (failed, cancelled, too_late)}
    assert [shown[one]["status"] for one in shown] == ["SCHEDULED", "CANCELLED", "ERROR"]
    assert shown[failed]["expiresOn"] is not None
    assert run_json("message", "requeue", "--all", "--status", "CANCELLED", "--yes")["count"] == 1
    assert run_json("message", "requeue", too_late)["count"] == 1, "whoever names it wants it sent all the same"
    assert run_json("message", "show", too_late)["expiresOn"] is None


def test_what_happened_to_a_message_is_told_in_order_and_by_whom(send, run, run_json):
    message_id = send()
    run_json("message", "cancel", "--all", "--mailbox", "news")
    run_json("message", "requeue", message_id)
    events = run_json("message", "show", message_id)["events"]
    assert [(one["what"], one["by"]) for one in events] == [
        ("handed-in", "command line"),
        ("cancelled", "command line"),
        ("requeued", "command line"),
    ]
    shown = run("message", "show", message_id).stdout
    assert shown.index("handed-in") < shown.index("cancelled") < shown.index("requeued")


@pytest.mark.parametrize(("decision", "status"), [("sent", "SENT"), ("resend", "SCHEDULED"), ("discard", "CANCELLED")])
def test_an_unknown_outcome_is_decided_by_a_person(send, run, run_json, decision, status):
    message_id = send()
    assert run("message", "resolve", message_id, decision).exit_code == 1
    end_as("UNKNOWN", message_id, "unknown", "No answer came.")
    assert run_json("message", "resolve", message_id, decision)["status"] == status


def test_unknown_outcomes_are_counted_before_they_are_decided_all_at_once(send, run, run_json):
    undecided, other = [send(), send()], send()
    for message_id in undecided:
        end_as("UNKNOWN", message_id, "unknown", "No answer came.")
    assert run_json("message", "resolve", "sent", "--all", "--dry-run") == {"count": 2, "dryRun": True}
    assert run_json("message", "resolve", "sent", "--all", "--mailbox", "news") == {"count": 2, "dryRun": False}
    statuses = {line["id"]: line["status"] for line in run_json("message", "list")}
    assert statuses == {undecided[0]: "SENT", undecided[1]: "SENT", other: "SCHEDULED"}
    assert run("message", "resolve", "sent").exit_code == 2
    assert run("message", "resolve", other, "maybe").exit_code == 2


def test_a_subject_cannot_steer_the_terminal(send, run):
    message_id = send()
    Message.update(subject="\x1b[2Jgone [bold red]", last_error="\x1b]0;title\x07").where(
        Message.id == message_id
    ).execute()
    for arguments in (("message", "list"), ("message", "show", message_id)):
        told = run(*arguments).stdout
        assert "\x1b" not in told
        assert "gone [bold red]" in told


def test_old_messages_are_counted_and_deleted(send, run_json):
    message_id = send()
    run_json("message", "cancel", message_id)
    assert run_json("purge", "--older-than", "1d", "--dry-run")["count"] == 0
    long_ago = "2020-01-01 00:00:00.000000"
    Message.raw("UPDATE message SET created_on = ?, ended_on = ?", long_ago, long_ago).execute()
    assert run_json("purge", "--older-than", "1d", "--dry-run")["count"] == 1
    assert run_json("purge", "--older-than", "1d")["count"] == 1
    assert Message.select().count() == 0


def test_without_an_age_what_the_hourly_purge_deletes_is_deleted_messages_only_if_set_and_the_audit_after_400_days(
    send, run, run_json, app
):
    run_json("message", "cancel", send())
    entries = AuditEntry.select().count()
    long_ago = "2020-01-01 00:00:00.000000"
    Message.raw("UPDATE message SET created_on = ?, ended_on = ?", long_ago, long_ago).execute()
    AuditEntry.update(at=utc_now() - timedelta(days=399)).execute()
    assert run_json("purge") == {"count": 0, "imports": 0, "campaigns": 0, "auditEntries": 0, "dryRun": False}
    AuditEntry.update(at=utc_now() - timedelta(days=401)).execute()
    assert run_json("purge", "--dry-run") == {
        "count": 0,
        "imports": 0,
        "campaigns": 0,
        "auditEntries": entries,
        "dryRun": True,
    }
    assert purge_messages() == {"messages": 0, "imports": 0, "audit_entries": entries, "campaigns": 0}  # the hourly one
    assert run("purge").stdout == "Deleted: 0 messages, 0 records of imports, 0 entries of the audit.\n"


def test_one_pass_hands_over_what_the_budget_admits(run_json, send, at_work):
    run_json("mailbox", "set", "news", "--per-minute", "2", "--pacing", "burst")
    for _ in range(3):
        send()
    assert run_json("dispatch")["claimed"] == 2
    assert run_json("status")["messages"]["QUEUED"] == 2


EML = b"""From: Shop <shop@elsewhere.example>
To: Zo\xc3\xab <zoe@x.nl>
Cc: c@x.nl
Bcc: hidden@x.nl
Subject: =?utf-8?Q?Caf=C3=A9?=
X-Order: 7

Dag
"""


@pytest.mark.parametrize(
    ("options", "recipients"),
    [
        ([], [("to", "zoe@x.nl"), ("cc", "c@x.nl"), ("bcc", "hidden@x.nl")]),
        (["--to", "zoe@x.nl,other@x.nl"], [("to", "zoe@x.nl"), ("bcc", "other@x.nl")]),
    ],
)
def test_a_mail_in_mime_form_is_sent_to_its_envelope_or_to_whom_it_names(run_json, tmp_path, options, recipients):
    (tmp_path / "mail.eml").write_bytes(EML)
    run_json("mailbox", "add", "news", "--address", "news@x.nl")
    sent = run_json("send", "--mailbox", "news", "--eml", tmp_path / "mail.eml", "--priority", "low", *options)
    shown = run_json("message", "show", sent["id"])
    assert (shown["subject"], shown["priority"]) == ("Café", "low")
    assert [(one["kind"], one["address"]) for one in shown["recipients"]] == recipients


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--subject", "s"], "--eml says subject and body"), (["--text", "t"], "--eml says subject and body")],
)
def test_a_mail_in_mime_form_says_its_own_subject_and_body(run, tmp_path, options, told):
    (tmp_path / "mail.eml").write_bytes(EML)
    run("mailbox", "add", "news", "--address", "news@x.nl")
    result = run("send", "--mailbox", "news", "--eml", tmp_path / "mail.eml", *options)
    assert (result.exit_code, told in result.stderr) == (2, True)
