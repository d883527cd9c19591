"""Everything a message may carry, handed in on the command line."""

import pytest

from rqmail.models.contents import load_contents
from rqmail.models.message import Message

MAIL = ("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s")


@pytest.fixture(autouse=True)
def news(run_json):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")


def test_a_message_carries_all_that_was_typed(run, run_json, tmp_path, app, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "Überweisung 请.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    told = run_json(
        *MAIL, "--html", '<img src="cid:logo@news">', "--attach", tmp_path / "Überweisung 请.pdf",
        "--attach", tmp_path / "empty", "--inline", f"logo@news={tmp_path / 'logo.png'}",
        "--reply-to", "Ann <ann@x.nl>", "--reply-to", "b@x.nl", "--importance", "high",
        "--header", "X-Order: 4711: twee", "--header", "Auto-Submitted:auto-generated",
        "--unsubscribe-url", "https://x.nl/u/1", "--read-receipt", "--delivery-receipt", "--from", "Raad <raad@x.nl>",
    )  # fmt: skip
    assert told["notices"] == []
    kept = load_contents([told["id"]])[told["id"]]
    shown = run_json("message", "show", told["id"])
    assert [(one["name"], one["size"], one["contentId"]) for one in shown["attachments"]][2] == (
        "logo.png", 8, "logo@news",
    )  # fmt: skip
    assert (shown["from"], shown["importance"], shown["readReceipt"], shown["unsubscribeUrl"]) == (
        {"address": "raad@x.nl", "name": "Raad"}, "high", True, "https://x.nl/u/1",
    )  # fmt: skip
    printed = run("message", "show", told["id"]).stdout
    for line in (
        "Überweisung 请.pdf (application/pdf, 8 bytes, SHA-256", "from  Raad <raad@x.nl>",
        "reply to  Ann <ann@x.nl>, b@x.nl", "importance  high", "receipts  read and delivered",
        "one click  unsubscribes at https://x.nl/u/1", "header  X-Order: 4711: twee",
    ):  # fmt: skip
        assert line in printed
    assert [(one.name, one.content_type, one.size, one.content_id) for one in kept.attachments] == [
        ("Überweisung 请.pdf", "application/pdf", 8, None),
        ("empty", "application/octet-stream", 0, None),
        ("logo.png", "image/png", 8, "logo@news"),
    ]
    with app.contents.open(kept.attachments[0].sha256) as opened:
        assert opened.read() == b"%PDF-1.7"
    extras = kept.extras
    assert [(one.name, one.address) for one in extras.reply_to] == [("Ann", "ann@x.nl"), ("", "b@x.nl")]
    assert (extras.importance, extras.read_receipt, extras.delivery_receipt) == ("high", True, True)
    assert (extras.from_.name, extras.from_.address) == ("Raad", "raad@x.nl")
    assert extras.headers == (
        ("X-Order", "4711: twee"),
        ("Auto-Submitted", "auto-generated"),
        ("List-Unsubscribe", "<https://x.nl/u/1>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--attach", "nowhere.pdf"), "Invalid value for '--attach': File 'nowhere.pdf' does not exist."),
        (("--attach", "."), "Invalid value for '--attach': File '.' is a directory."),
        (("--inline", "logo.png"), "'logo.png' is no CID=FILE, such as logo=logo.png"),
        (("--inline", "logo=nowhere.png"), "Invalid value for '--inline': File 'nowhere.png' does not exist."),
        (("--inline", "logo=there.png"), 'allowed: an HTML body that shows it: <img src="cid:logo">'),
        (("--html", '<img src="cid:other">'), "html: 'cid:other' is not valid; allowed: an inline attachment"),
        (("--reply-to", "ann"), "replyTo: 'ann' is not valid"),
        (("--importance", "urgent"), "'urgent' is not one of 'low', 'normal', 'high'."),
        (("--header", "X-Order"), "'X-Order' is no header; write \"NAME: VALUE\""),
        (
            ("--header", "Subject: other"),
            "headers: 'Subject' is not valid; allowed: no Subject here: the field subject",
        ),
        (("--header", "X-A: a", "--header", "x-a: b"), "headers: 'x-a' is not valid; allowed: each header once"),
        (("--unsubscribe-url", "http://x.nl"), "unsubscribeUrl: 'http://x.nl' is not valid; allowed: an https address"),
        (("--from", "a@x.nl,b@x.nl"), "allowed: one address"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_cannot_be_used_is_named_with_what_is_allowed_and_nothing_is_stored(run, tmp_path, typed, told):
    (tmp_path / "there.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refused = run(*MAIL, "--text", "t", *typed)
    assert refused.exit_code == 2
    assert told in " ".join(refused.stderr.split())
    assert Message.select().count() == 0


def test_a_type_that_exchange_blocks_is_warned_of_and_taken(run, run_json, tmp_path):
    (tmp_path / "setup.exe").write_bytes(b"MZ")
    typed = (*MAIL, "--text", "t", "--attach", tmp_path / "setup.exe")
    warning = "Exchange or Outlook may keep setup.exe from who receives it: its type is blocked"
    assert run_json(*typed)["notices"] == [{"field": "attachments", "text": warning}]
    told = run(*typed)
    assert told.exit_code == 0
    assert f"Warning: attachments: {warning}" in told.stderr
    assert Message.select().count() == 2


def test_a_mail_in_mime_form_says_itself_what_it_carries(run, tmp_path):
    (tmp_path / "mail.eml").write_bytes(b"From: news@x.nl\nTo: a@x.nl\nSubject: s\n\nt\n")
    refused = run("send", "--mailbox", "news", "--eml", tmp_path / "mail.eml", "--read-receipt", "--header", "X-A: b")
    assert refused.exit_code == 2
    assert "and all else of the mail: leave out --header, --read-receipt." in refused.stderr


def test_a_mailbox_may_have_a_bound_of_its_own_for_one_message(run, run_json):
    assert run_json("mailbox", "set", "news", "--max-message-bytes", "1000", "--no-check")["maxMessageBytes"] == 1000
    refused = run(*MAIL, "--text", "t", "--attach", __file__)
    assert refused.exit_code == 2
    assert "the whole message may have 1,000 bytes as it is sent" in refused.stderr
    assert "maxMessageBytes: 0 is not valid" in run("mailbox", "set", "news", "--max-message-bytes", "0").stderr
    run("mailbox", "set", "news", "--sent-items", "prune", "--prune-after-days", "30", "--no-check")
    listed = run("mailbox", "list").stdout
    assert "1,000" in listed
    assert "prune, 30 days" in listed
    back = run_json("mailbox", "set", "news", "--max-message-bytes", "default", "--no-check")
    assert back["maxMessageBytes"] is None
    assert run(*MAIL, "--text", "t", "--attach", __file__).exit_code == 0


def test_an_import_attaches_the_files_of_a_folder(run, run_json, tmp_path):
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "pdfs" / "1.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "list.csv").write_text("to,subject,text,attachments\na@x.nl,s,t,1.pdf\nb@x.nl,s,t,2.pdf\n")
    hand_in = ("import", tmp_path / "list.csv", "--mailbox", "news")
    refused = run(*hand_in)
    assert refused.exit_code == 2
    assert "--attachments-dir DIR" in refused.stderr
    refused = run(*hand_in, "--attachments-dir", tmp_path / "pdfs")
    assert refused.exit_code == 2
    assert "row 3: attachments: '2.pdf' is not valid" in refused.stderr
    (tmp_path / "pdfs" / "2.pdf").write_bytes(b"%PDF-1.7")
    assert run_json(*hand_in, "--attachments-dir", tmp_path / "pdfs")["stored"] == 2
