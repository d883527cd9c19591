"""What a message carries beside its text is checked before any budget is used."""

from __future__ import annotations

import pytest

from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import Attachment, type_of
from rqmail.intake.draft import Draft, check
from rqmail.intake.sender_rules import SenderRules
from support.clock import START

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


ANYHOW = SenderRules(through_graph=False)


def checked(rules=ANYHOW, **fields):
    given = {"sender": "default", "subject": "s", "to": "a@x.nl", "text": "t"} | fields
    return check(Draft(**given), START, rules)


def file(name="a.txt", content=b"x", **more):
    return Attachment(name, content, **more)


@pytest.mark.parametrize(
    "name",
    [
        "factuur.pdf",
        "请求.docx",
        "فاتورة.pdf",
        "naïve résumé.txt",
        "🎄.png",
        "no ending",
        ".htaccess",
        "a" * 251 + ".txt",
    ],
)
def test_a_file_has_any_name_in_any_script(name):
    [found] = checked(attachments=[file(name, b"")]).message.attachments
    assert (found.name, found.size) == (name, 0)


@pytest.mark.parametrize(
    "name",
    ["", " ", "../a", "a/b", "a\\b", "..", "a\nb", "a\x00b", "a\u2028b", "gpj.\u202eexe", "a" * 256, None, "\ud800"],
)
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidInputError) as refused:
        checked(attachments=[file(name)])
    assert refused.value.field == "attachments"


@pytest.mark.parametrize(
    ("attachments", "html", "field"),
    [
        ([file("l.png", PNG, is_inline=True, content_id="l")], '<img src="cid:l">', None),
        ([file("l.png", PNG, is_inline=True, content_id="a@b")], "<img src='cid:a%40b'>", None),
        ([file("l.png", PNG, is_inline=True, content_id="l")], '<td style="background:url(cid:l)">', None),
        ([file("l.png", PNG, is_inline=True, content_id="l")], "<style>a{background:url('cid:l')}</style>", None),
        ([file("l.png", PNG, is_inline=True, content_id="l")], "<p>no picture</p>", "attachments"),
        ([file("l.png", PNG, is_inline=True, content_id="l")], None, "attachments"),
        ([file("l.png", PNG, is_inline=True)], '<img src="cid:l">', "attachments"),
        ([file("l.png", PNG, content_id="l")], '<img src="cid:l">', "attachments"),
        ([file("l.png", PNG, is_inline=True, content_id="<l>")], '<img src="cid:l">', "attachments"),
        ([file("l.png", PNG, is_inline=True, content_id="l")] * 2, '<img src="cid:l">', "attachments"),
        ([], '<img src="cid:l">', "html"),
        ([], "the text cid:l is no picture", None),
    ],
)
def test_inline_pictures_and_the_html_that_shows_them_are_a_pair(attachments, html, field):
    if field is None:
        checked(attachments=attachments, html=html)
        return
    with pytest.raises(InvalidInputError) as refused:
        checked(attachments=attachments, html=html)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ([("X-Order", "7")], True),
        ([("List-Id", "News <news.x.nl>"), ("Auto-Submitted", "auto-generated"), ("Precedence", "bulk")], True),
        ([("In-Reply-To", "<1@x>"), ("References", "<1@x> <2@x>")], True),
        ([("X-Naam", "Zoë")], True),
        ([("X-A", "a\r\nBcc: b@x.nl")], False),
        ([("X A", "a")], False),
        ([("X-A:", "a")], False),
        ([("", "a")], False),
        ([("X-A", "")], False),
        ([("X-A", "a"), ("x-a", "b")], False),
        ([("Subject", "a")], False),
        ([("Bcc", "a@x.nl")], False),
        ([("x-rqmail-id", "a")], False),
        ([("Content-Type", "a")], False),
        ([("X-MS-Exchange-Organization-SCL", "-1")], False),
        ([("X-A", "a" * 999)], False),
        ([("X-A", 7)], False),
        ("X-A: a", False),
        ([(f"X-{number}", "a") for number in range(51)], False),
    ],
)
def test_a_header_is_one_that_a_mail_may_carry(headers, allowed):
    if allowed:
        assert checked(headers=headers).message.extras.headers == tuple(headers)
        return
    with pytest.raises(InvalidInputError) as refused:
        checked(headers=headers)
    assert refused.value.field == "headers"


def test_one_click_unsubscribing_is_two_headers():
    assert checked(unsubscribe_url="https://x.nl/u?t=1").message.extras.headers == (
        ("List-Unsubscribe", "<https://x.nl/u?t=1>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )


@pytest.mark.parametrize(
    "url", ["http://x.nl/u", "mailto:u@x.nl", "https://", "https://x.nl/a b", "https://x.nl/>", ""]
)
def test_unsubscribing_needs_an_https_address(url):
    with pytest.raises(InvalidInputError) as refused:
        checked(unsubscribe_url=url)
    assert refused.value.field == "unsubscribeUrl"


@pytest.mark.parametrize(
    ("field", "told", "fields"),
    [
        ("replyTo", "replyTo", {"reply_to": "no address"}),
        ("from", "from", {"from_": "a@x.nl, b@x.nl"}),
        ("importance", "importance", {"importance": "urgent"}),
        ("readReceipt", "readReceipt", {"read_receipt": "yes"}),
        ("attachments", "attachments", {"attachments": "a.txt"}),
        ("attachments", "attachments", {"attachments": [file()] * 251}),
        ("attachments", "attachments", {"attachments": [file("missing.txt", "/no/such/file")]}),
        ("attachments", "attachments", {"attachments": [file(content_type="text")]}),
    ],
)
def test_a_field_that_is_wrong_is_named(field, told, fields):
    with pytest.raises(InvalidInputError) as refused:
        checked(**fields)
    assert refused.value.field == told


def test_a_message_is_bounded_as_it_is_sent_with_files_as_base64():
    rules = SenderRules(through_graph=False, max_message_bytes=4_000)
    checked(rules, attachments=[file(content=b"x" * 2_990)])
    with pytest.raises(InvalidInputError, match="4,000 bytes as it is sent"):
        checked(rules, attachments=[file(content=b"x" * 3_010)])
    with pytest.raises(InvalidInputError):
        checked(rules, attachments=[file(content=b"x" * 1_500)] * 2)


@pytest.mark.parametrize(
    ("name", "head", "content_type"),
    [
        ("a.pdf", b"", "application/pdf"),
        ("a.PDF", b"no pdf", "application/pdf"),
        ("a.docx", b"PK", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("picture", PNG, "image/png"),
        ("document", b"%PDF-1.7", "application/pdf"),
        ("unknown", b"\x01\x02", "application/octet-stream"),
        ("empty", b"", "application/octet-stream"),
        ("a.tar.gz", b"", "application/gzip"),
    ],
)
def test_the_type_follows_from_the_name_and_in_doubt_from_the_content(name, head, content_type):
    assert type_of(name, head) == content_type


@pytest.mark.parametrize(("name", "blocked"), [("a.exe", True), ("A.EXE", True), ("a.exe.txt", False), ("exe", False)])
def test_a_type_that_exchange_blocks_is_warned_of(name, blocked):
    assert bool(checked(attachments=[file(name)]).notices) is blocked
