"""What is read of the reports that mail servers send, each in the shape that it has there, with invented names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rqmail.delivery.reports import read_report

REPORTS = Path(__file__).parent / "reports"
ID = "0198f6a2-77f1-7c3e-9d55-0a8f4be2c1d7"

#: For each report: who failed with which status, whether our id is found, and the Message-ID and subject it names.
FOUND = {
    "exchange_unknown_recipient": ([("weg@fabrikam.example", "5.1.10")], ID, "<m1@contoso.example>", "Open dag"),
    "exchange_several": (
        [("a@fabrikam.example", "5.4.1"), ("vol@fabrikam.example", "5.2.2")],
        ID,
        "<m2@contoso.example>",
        "Factuur für März",
    ),
    "exchange_without_original": ([("weg@fabrikam.example", "5.1.1")], None, None, None),
    "exchange_bad_sender": ([("jan@fabrikam.example", "5.1.8")], ID, "<m3@contoso.example>", "News"),
    "exchange_tenant_limit": ([("jan@fabrikam.example", "5.7.233")], ID, None, "News"),
    "gmail_unknown_user": ([("nobody@gmail.example", "5.1.1")], ID, "<m4@contoso.example>", "Hello"),
    "postfix_unknown_user": ([("Info@tailspin.example", "5.1.1")], ID, "<m5@contoso.example>", "Hello"),
    "postfix_expired": ([("jan@tailspin.example", "4.4.1")], ID, None, None),
    "sendmail_vague_status": ([("jan@wingtip.example", "5.1.0")], ID, "<m6@contoso.example>", None),
    "exim_without_status_part": ([("oud@litware.example", "5.1.1")], None, None, None),
    "utf8_addresses": ([("jörg@bücher.example", "5.1.1")], ID, None, "Grüße"),
    "cut_off": ([("jan@fabrikam.example", "5.1.1")], None, None, None),
}
NO_FAILURE = ("postfix_delayed", "delivered", "read_receipt", "out_of_office")


def report(name: str) -> bytes:
    return (REPORTS / f"{name}.eml").read_bytes()


def test_every_report_of_the_collection_is_in_the_table():
    assert {path.stem for path in REPORTS.glob("*.eml")} == {*FOUND, *NO_FAILURE}


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", FOUND)
def test_a_report_tells_who_did_not_get_which_mail_and_why(name, line_end):
    failed, message_id, internet_message_id, subject = FOUND[name]
    found = read_report(report(name).replace(b"\n", line_end))
    assert found is not None
    folded = [(one.addresses[0].lower(), one.code) for one in found.failures]
    assert folded == [(address.lower(), code) for address, code in failed]
    assert (found.message_id, found.internet_message_id, found.subject) == (message_id, internet_message_id, subject)


@pytest.mark.parametrize("name", NO_FAILURE)
def test_a_delay_a_receipt_and_an_answer_by_itself_are_no_failures(name):
    assert read_report(report(name)) is None


def test_the_failing_servers_words_are_kept_on_one_line_within_bounds():
    found = read_report(report("gmail_unknown_user"))
    assert found is not None
    assert found.failures[0].text.startswith(
        "550-5.1.1 The email account that you tried to reach does not exist. Please"
    )
    long = report("cut_off").replace(b"550 5.1.1 Us", b"550 5.1.1 " + b"x y " * 100_000)
    found = read_report(long)
    assert found is not None
    assert len(found.failures[0].text) <= 500


def test_both_names_of_a_recipient_that_was_forwarded_are_told():
    found = read_report(report("postfix_unknown_user"))
    assert found is not None
    assert found.failures[0].addresses == ("Info@tailspin.example", "oud@tailspin.example")


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\x00\xff" * 1000,
        b'Content-Type: multipart/report; boundary="b"\n\n'
        + b"--b\nContent-Type: message/delivery-status\n\n" * 20_000,
        b'Content-Type: multipart/mixed; boundary="b"\n\n--b\n' * 5_000,
        b"X-Failed-Recipients: " + b"a@b.example, " * 100_000 + b"\n\n550 5.1.1 no",
        b"Subject: =?utf-8?b?" + b"AAAA" * 100_000 + b"?=\n\nhi",
        b'Content-Type: multipart/report; boundary="b"\n\n--b\nContent-Type: message/delivery-status\n\n'
        + b"Final-Recipient: rfc822; jan@x.nl\nAction: failed\nStatus: 5.1.1\n\n" * 30_000,
    ],
    ids=["empty", "noise", "many parts", "deep parts", "many addresses", "a long subject", "many recipients"],
)
def test_no_report_whatever_is_in_it_raises_or_takes_longer_than_it_is_long(source):
    def seconds(piece):
        began = time.process_time()
        read_report(piece)
        return time.process_time() - began

    assert seconds(source) < 0.1 + 12 * max(seconds(source[: len(source) // 4]), 0.01)
