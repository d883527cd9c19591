"""SendGrid: the request it documents, and the meaning of its answers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from io import BytesIO

import pytest

from mailers.servers import Script, refused_url, serving
from rqmail.clock import to_epoch_ms
from rqmail.errors import (
    MailAuthError,
    MailboxUnavailableError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
)
from rqmail.mailers.base import Address, MailFile
from rqmail.mailers.sendgrid import LARGEST_REQUEST, SendGridMailer

KEY = "SG.very-secret-key"
ACCEPTED = (202, {"X-Message-Id": "sg-1"}, b"")


@pytest.fixture
def send(transport, clock):
    def run(mail, script):
        with serving(script) as url:
            sender = Address("noreply@contoso.example", "Contoso")
            return SendGridMailer(transport, url, KEY, sender, clock=clock).send(mail)

    return run


def test_a_mail_is_written_as_sendgrid_documents_it(send, mail):
    script = Script([ACCEPTED])
    receipt = send(mail, script)

    assert (receipt.status, receipt.provider_message_id) == (202, "sg-1")
    asked = script.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v3/mail/send")
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.json() == {
        "personalizations": [
            {
                "to": [{"email": "zoe@example.org", "name": "Zoë Müller"}, {"email": "plain@example.org"}],
                "cc": [{"email": "cc@example.org", "name": 'Jan "de" Vries'}],
                "bcc": [{"email": "bcc@example.org"}],
            }
        ],
        "from": {"email": "noreply@contoso.example", "name": "Contoso"},
        "subject": mail.subject,
        "content": [{"type": "text/plain", "value": mail.text}, {"type": "text/html", "value": mail.html}],
        "headers": {"x-campaign": "zomer", "x-rqmail-id": mail.id},
        "custom_args": {"rqmail-id": mail.id},
    }


@pytest.mark.parametrize(
    ("change", "part", "written"),
    [
        (
            {"to": (Address("a@x.nl", "Vries, Jan de"), Address("b@x.nl", 'B; "x"'))},
            ("personalizations", 0, "to"),
            [{"email": "a@x.nl", "name": '"Vries, Jan de"'}, {"email": "b@x.nl", "name": '"B; \\"x\\""'}],
        ),
        ({"to": ()}, ("personalizations", 0, "to"), [{"email": "cc@example.org", "name": 'Jan "de" Vries'}]),
        ({"reply_to": (Address("r@x.nl"), Address("R@x.nl", "R"))}, ("reply_to_list",), [{"email": "r@x.nl"}]),
        (
            {"headers": {"X-Naam": "Zoë"}},
            ("headers", "X-Naam"),
            "=?utf-8?q?Zo=C3=AB?=",
        ),
        ({"html": None}, ("content",), [{"type": "text/plain", "value": "Beste allemaal"}]),
    ],
    ids=["names with separators", "nobody in to", "reply-to twice", "a header beyond ASCII", "text alone"],
)
def test_sendgrids_own_rules_are_kept(send, mail, change, part, written):
    script = Script([ACCEPTED])
    send(replace(mail, **change), script)
    found = script.asked[0].json()
    for name in part:
        found = found[name]
    assert found == written


def test_an_address_named_twice_gets_one_copy(send, mail):
    script = Script([ACCEPTED])
    send(replace(mail, bcc=(Address("ZOE@example.org"), Address("b@example.org"))), script)

    assert script.asked[0].json()["personalizations"][0]["bcc"] == [{"email": "b@example.org"}]


def test_a_mail_without_a_body_still_has_the_content_sendgrid_demands(send, mail):
    script = Script([ACCEPTED])
    send(replace(mail, text=None, html=None), script)

    assert script.asked[0].json()["content"] == [{"type": "text/plain", "value": " "}]


def test_a_mail_of_html_alone_brings_its_text_and_before_it(send, mail):
    script = Script([ACCEPTED])
    send(replace(mail, text=None, html="<p>Dag <b>Jan</b></p>"), script)

    assert script.asked[0].json()["content"] == [
        {"type": "text/plain", "value": "Dag Jan\n"},
        {"type": "text/html", "value": "<p>Dag <b>Jan</b></p>"},
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, MailboxUnavailableError),
        (302, MailTransientError),
        (400, MailRejectedError),
        (402, MailboxUnavailableError),
        (404, MailboxUnavailableError),
        (405, MailboxUnavailableError),
        (413, MailRejectedError),
        (401, MailAuthError),
        (403, MailAuthError),
        (408, MailOutcomeUnknownError),
        (429, MailThrottledError),
        (500, MailOutcomeUnknownError),
        (502, MailOutcomeUnknownError),
        (503, MailOutcomeUnknownError),
        (504, MailOutcomeUnknownError),
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        {"errors": [{"message": "The to address zoe@example.org is bad", "field": "to", "help": None}]},
        b"<html>",
        b"[]",
        {"errors": []},
        {"errors": [7]},
        {"errors": [{"message": 7}]},
    ],
    ids=range(6),
)
def test_each_status_has_its_class_whatever_the_body(send, mail, status, expected, body):
    with pytest.raises(expected) as caught:
        send(mail, Script([(status, {}, body)]))

    assert type(caught.value) is expected
    assert caught.value.status == status
    assert "zoe" not in str(caught.value)
    assert KEY not in repr(caught.value)


def test_the_first_error_is_said(send, mail):
    with pytest.raises(MailRejectedError, match="subject is required"):
        send(mail, Script([(400, {}, {"errors": [{"message": "The subject is required"}]})]))


FROM_MISSING = {
    "message": "The from object must be provided for every email send. It is an object that requires the email "
    "parameter, but may also contain a name parameter.",
    "field": "from.email",
    "help": "http://sendgrid.com/docs/API_Reference/Web_API_v3/Mail/errors.html#message.from",
}
NOT_VERIFIED = {
    "message": "The from address does not match a verified Sender Identity. Mail cannot be sent until this error is "
    "resolved. Visit https://sendgrid.com/docs/for-developers/sending-email/sender-identity/ to see the requirements",
    "field": "from",
    "help": None,
}


@pytest.mark.parametrize(
    ("status", "errors", "words"),
    [
        (400, [FROM_MISSING], "the sender's own address"),
        (400, [{"message": "The subject is required"}, FROM_MISSING], "the sender's own address.*from object"),
        (403, [NOT_VERIFIED], "not a verified Sender Identity at SendGrid; verify it"),
        (401, [{"message": "Maximum credits exceeded", "field": None, "help": None}], "used up its credits"),
    ],
)
def test_a_no_about_the_sender_is_about_the_sender_and_never_about_the_mail(send, mail, status, errors, words):
    with pytest.raises(MailboxUnavailableError, match=words) as caught:
        send(mail, Script([(status, {}, {"errors": errors})]))
    assert caught.value.status == status


@pytest.mark.parametrize("errors", [[FROM_MISSING], [NOT_VERIFIED]])
def test_a_no_about_an_address_that_only_this_mail_is_from_is_about_the_mail(send, mail, errors):
    other = replace(mail, from_=Address("other@example.org", ""))
    with pytest.raises(MailRejectedError, match="the address that this mail is from"):
        send(other, Script([(403, {}, {"errors": errors})]))


def test_a_503_that_names_its_end_is_a_throttle(send, mail):
    with pytest.raises(MailThrottledError) as caught:
        send(mail, Script([(503, {"Retry-After": "7200"}, b"")]))
    assert caught.value.retry_after == 7200


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "7200"},
        {"Retry-After": "Thu, 01 Jan 1000000 00:00:00 GMT"},
        {"Retry-After": "1e400"},
        {"X-RateLimit-Reset": "1e400"},
        {"X-RateLimit-Reset": "nan"},
    ],
    ids=str,
)
def test_whatever_a_429_names_as_its_end_it_stays_a_throttle(send, mail, headers):
    with pytest.raises(MailThrottledError) as caught:
        send(mail, Script([(429, headers, b"")]))
    assert caught.value.retry_after == (7200 if "7200" in headers.values() else None)


@pytest.mark.parametrize(
    ("in_seconds", "expected"), [(90, 90), (7200, 7200), (86_000, 86_000), (0, None), (-10, None), (90_000, None)]
)
def test_a_throttle_lasts_until_the_reset_sendgrid_names(send, mail, clock, in_seconds, expected):
    reset = to_epoch_ms(clock() + timedelta(seconds=in_seconds)) / 1000
    with pytest.raises(MailThrottledError) as caught:
        send(mail, Script([(429, {"X-RateLimit-Reset": str(reset)}, b"")]))

    assert caught.value.retry_after == (None if expected is None else pytest.approx(expected, abs=0.01))


@pytest.mark.parametrize(
    ("headers", "expected"), [({}, None), ({"Retry-After": "5"}, 5), ({"X-RateLimit-Reset": "x"}, None)]
)
def test_a_throttle_without_a_reset_goes_by_retry_after(send, mail, headers, expected):
    with pytest.raises(MailThrottledError) as caught:
        send(mail, Script([(429, headers, b"")]))

    assert caught.value.retry_after == expected


def test_more_recipients_than_sendgrid_takes_are_refused_here(send, mail):
    many = tuple(Address(f"a{n}@example.org") for n in range(999))
    with pytest.raises(MailRejectedError, match="1,001 recipients"):
        send(replace(mail, to=many, cc=many[:1], bcc=many[:1]), Script([ACCEPTED]))


def test_a_mail_larger_than_sendgrid_takes_is_refused_here(send, mail):
    with pytest.raises(MailRejectedError, match="too large"):
        send(replace(mail, html="x" * LARGEST_REQUEST), Script([ACCEPTED]))


def test_a_refused_connection_is_certainly_not_sent(transport, mail):
    with pytest.raises(MailTransientError, match="SendGrid"):
        SendGridMailer(transport, refused_url(), KEY, Address("a@b.example")).send(mail)


def test_the_body_is_valid_json_for_any_text(send, mail):
    script = Script([ACCEPTED])
    send(replace(mail, subject='"\\\n\u2028\ud800'), script)

    assert json.loads(script.asked[0].body)["subject"] == '"\\\n\u2028?'


def test_files_and_the_fields_few_mails_have_are_written_as_sendgrid_documents_them(send, mail):
    files = (
        MailFile("factuur é.pdf", "application/pdf", 4, "", lambda: BytesIO(b"%PDF")),
        MailFile("logo.png", "image/png", 1, "", lambda: BytesIO(b"x"), is_inline=True, content_id="logo@x"),
    )
    script = Script([ACCEPTED])
    send(
        replace(
            mail,
            files=files,
            headers={"List-Unsubscribe": "<https://x.nl/u>"},
            reply_to=(Address("r@x.nl", "R"),),
            importance="high",
            read_receipt=True,
            delivery_receipt=True,
            from_=Address("team@x.nl", "Team"),
        ),
        script,
    )
    document = script.asked[0].json()
    assert document["attachments"] == [
        {"content": "JVBERg==", "type": "application/pdf", "filename": "factuur é.pdf", "disposition": "attachment"},
        {
            "content": "eA==",
            "type": "image/png",
            "filename": "logo.png",
            "disposition": "inline",
            "content_id": "logo@x",
        },
    ]
    assert document["from"] == {"email": "team@x.nl", "name": "Team"}
    assert document["reply_to_list"] == [{"email": "r@x.nl", "name": "R"}]
    assert document["headers"] == {
        "List-Unsubscribe": "<https://x.nl/u>",
        "Importance": "high",
        "Disposition-Notification-To": "team@x.nl",
        "Return-Receipt-To": "team@x.nl",
        "x-rqmail-id": mail.id,
    }


def test_files_larger_than_sendgrid_takes_are_refused_before_they_are_read(send, mail):
    never = MailFile("a.bin", "application/octet-stream", LARGEST_REQUEST, "", lambda: pytest.fail("it was read"))
    with pytest.raises(MailRejectedError, match="too large"):
        send(replace(mail, files=(never,)), Script([]))


def test_a_mail_that_is_to_be_sent_as_it_came_is_refused_rather_than_sent_as_something_else(mail):
    raw = MailFile("mail.eml", "message/rfc822", 3, "hash", lambda: BytesIO(b"x: "))
    with pytest.raises(MailRejectedError, match="MIME form"):
        SendGridMailer(None, "https://api.sendgrid.example", "key", Address("a@x.nl")).send(replace(mail, raw=raw))


def test_a_mail_with_a_message_id_of_its_own_keeps_it(send, mail):
    script = Script([ACCEPTED])
    send(replace(mail, internet_message_id="<7@erp.example>"), script)
    assert script.asked[0].json()["headers"]["Message-ID"] == "<7@erp.example>"
