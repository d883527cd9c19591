"""What a message carries beside its text is checked at intake, kept once, and read again as it was."""

from __future__ import annotations

import hashlib
import io
import os
import tracemalloc
from datetime import timedelta

import pytest

from rqmail import Attachment
from rqmail.content_store import KEPT_UNREFERENCED, ContentStore
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.intake.attachments import type_of
from rqmail.intake.draft import Draft, Intake
from rqmail.models.attachments import PIECE_BYTES, AttachmentContent, AttachmentPiece
from rqmail.models.content import Importance, Person
from rqmail.models.contents import load_contents
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message

GOOD = {"sender": "mailbox:news", "subject": "Hallo", "to": "jan@voorbeeld.nl", "text": "Dag Jan"}
LOGO = Attachment("logo.png", b"\x89PNG\r\n\x1a\n", is_inline=True, content_id="logo@news")


@pytest.fixture
def store(database, clock) -> ContentStore:
    SystemMailbox.create(key="news", address="news@voorbeeld.nl", created_on=clock(), changed_on=clock())
    return ContentStore(clock)


@pytest.fixture
def intake(store, clock) -> Intake:
    return Intake(clock, lambda: None, contents=store)


def submitted(intake: Intake, *attachments: Attachment, **fields):
    message_id = intake.submit(Draft(**(GOOD | fields), attachments=attachments))
    return load_contents([message_id])[message_id]


def test_what_is_attached_comes_out_as_it_was_put_in(intake, store, tmp_path):
    (tmp_path / "a.bin").write_bytes(os.urandom(PIECE_BYTES + 17))
    files = submitted(
        intake,
        Attachment("Überweisung 请.pdf", b"%PDF-1.7"),
        Attachment("leeg.txt", b""),
        Attachment("stream", io.BytesIO(b"GIF89a...")),
        Attachment("a", tmp_path / "a.bin", content_type="application/x-own"),
    ).attachments
    assert [(one.name, one.content_type, one.size) for one in files] == [
        ("Überweisung 请.pdf", "application/pdf", 8),
        ("leeg.txt", "text/plain", 0),
        ("stream", "image/gif", 9),
        ("a", "application/x-own", PIECE_BYTES + 17),
    ]
    read = [store.open(one.sha256).read() for one in files]
    assert read == [b"%PDF-1.7", b"", b"GIF89a...", (tmp_path / "a.bin").read_bytes()]


def test_a_content_is_read_from_any_place_in_it(intake, store):
    content = os.urandom(2 * PIECE_BYTES + 100)
    [file] = submitted(intake, Attachment("a.bin", content)).attachments
    with store.open(file.sha256) as opened:
        for start in (0, 1, PIECE_BYTES - 3, PIECE_BYTES, 2 * PIECE_BYTES + 99, 7):
            opened.seek(start)
            assert opened.read(50) == content[start : start + 50]


def test_many_mails_with_one_file_keep_it_once(intake, tmp_path):
    path = tmp_path / "prices.pdf"
    path.write_bytes(b"%PDF" + b"x" * 600_000)
    intake.submit_all([Draft(**GOOD, attachments=[Attachment("prices.pdf", path)]) for _ in range(300)])
    intake.submit(Draft(**GOOD, attachments=[Attachment("other name.pdf", path.read_bytes())]))
    assert AttachmentContent.select().count() == 1
    assert AttachmentPiece.select().count() == 3


def test_a_file_is_never_in_memory_as_a_whole(intake, store, tmp_path):
    SystemMailbox.update(max_message_bytes=200_000_000).execute()
    path = tmp_path / "large.bin"
    with path.open("wb") as opened:
        opened.truncate(100_000_000)
    tracemalloc.start()
    try:
        [file] = submitted(intake, Attachment("large.bin", path)).attachments
        with store.open(file.sha256) as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert digest == file.sha256
    assert peak < 10_000_000


def test_what_few_messages_have_is_kept(intake):
    extras = submitted(
        intake,
        reply_to=["Jörg <j@x.de>", "k@x.de"],
        importance="high",
        read_receipt=True,
        delivery_receipt=True,
        headers=[("X-Order", "7 é"), ("Auto-Submitted", "auto-generated")],
        unsubscribe_url="https://voorbeeld.nl/uit?7",
        from_="sales@voorbeeld.nl",
    ).extras
    assert extras.reply_to == (Person("j@x.de", "Jörg"), Person("k@x.de"))
    assert (extras.importance, extras.read_receipt, extras.delivery_receipt) == (Importance.HIGH, True, True)
    assert extras.from_ == Person("sales@voorbeeld.nl")
    assert dict(extras.headers) == {
        "X-Order": "7 é",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe": "<https://voorbeeld.nl/uit?7>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def test_an_inline_picture_is_kept_with_the_name_the_html_calls_it_by(intake):
    [file] = submitted(intake, LOGO, html='<td background="cid:logo%40news">').attachments
    assert (file.is_inline, file.content_id) == (True, "logo@news")


NAMES = ["", "  ", "a/b.pdf", "a\\b.pdf", "..", "a\nb.pdf", "a\x00", "invoice\u202efdp.exe", "\ud800.txt", "x" * 256, 7]
BAD = {
    **{f"the name {name!r:.20}": ({"attachments": [Attachment(name, b"x")]}, "attachments") for name in NAMES},
    "no attachment": ({"attachments": ["a.pdf"]}, "attachments"),
    "a file that is not there": ({"attachments": [Attachment("a", "/nowhere/a")]}, "attachments"),
    "a folder": ({"attachments": [Attachment("a", "/")]}, "attachments"),
    "text for bytes": ({"attachments": [Attachment("a", io.StringIO("a"))]}, "attachments"),
    "a number for bytes": ({"attachments": [Attachment("a", 7)]}, "attachments"),
    "a content type that is none": ({"attachments": [Attachment("a", b"", "pdf")]}, "attachments"),
    "a line break in a content type": ({"attachments": [Attachment("a", b"", "a/b\r\nX: y")]}, "attachments"),
    "inline without an id": ({"attachments": [Attachment("a", b"", is_inline=True)]}, "attachments"),
    "an id without inline": ({"attachments": [Attachment("a", b"", content_id="a")]}, "attachments"),
    "an id with brackets": ({"attachments": [Attachment("a", b"", None, True, "<a>")]}, "attachments"),
    "a picture nobody shows": ({"attachments": [LOGO], "html": "cid:logo@news"}, "attachments"),
    "a picture in text only": ({"attachments": [LOGO]}, "attachments"),
    "two pictures of one id": ({"attachments": [LOGO, LOGO], "html": "<img src=cid:logo@news>"}, "attachments"),
    "a picture that is not there": ({"html": '<img src="cid:none">'}, "html"),
    "a picture not there in a style": ({"html": "<style>a{background:url(cid:none)}</style>"}, "html"),
    "more than a message may have": ({"attachments": [Attachment("a", b"x" * 28_000_000)]}, "attachments"),
    "a picture that fits no request": (
        {
            "attachments": [Attachment("a", b"x" * 3_200_000, is_inline=True, content_id="a")],
            "html": '<img src="cid:a">',
        },
        "attachments",
    ),
    "a header of ours": ({"headers": [("X-RQMail-Id", "1")]}, "headers"),
    "a header a field says": ({"headers": [("Reply-To", "a@b.nl")]}, "headers"),
    "a header the provider writes": ({"headers": [("Message-ID", "<a@b>")]}, "headers"),
    "a header Exchange removes": ({"headers": [("X-MS-Exchange-Organization-SCL", "-1")]}, "headers"),
    "a colon in a header's name": ({"headers": [("X:A", "1")]}, "headers"),
    "a line break in a header": ({"headers": [("X-A", "1\r\nBcc: a@b.nl")]}, "headers"),
    "a header twice": ({"headers": [("X-A", "1"), ("x-a", "2")]}, "headers"),
    "a header without a value": ({"headers": [("X-A", " ")]}, "headers"),
    "headers that are no pairs": ({"headers": ["X-A: 1"]}, "headers"),
    "unsubscribing without https": ({"unsubscribe_url": "http://a.nl/u"}, "unsubscribeUrl"),
    "unsubscribing with a line break": ({"unsubscribe_url": "https://a.nl/\r\nX: y"}, "unsubscribeUrl"),
    "unsubscribing twice": (
        {"unsubscribe_url": "https://a.nl/u", "headers": [("list-unsubscribe", "<https://a.nl/v>")]},
        "headers",
    ),
    "an importance that is none": ({"importance": "urgent"}, "importance"),
    "a receipt that is none": ({"read_receipt": "yes"}, "readReceipt"),
    "a reply-to that is none": ({"reply_to": "jan"}, "replyTo"),
    "from two": ({"from_": "a@b.nl, c@d.nl"}, "from"),
}


@pytest.mark.parametrize(("change", "field"), BAD.values(), ids=BAD)
def test_bad_content_names_its_field_and_keeps_nothing(sqlite_database, clock, change, field):
    SystemMailbox.create(key="news", address="news@voorbeeld.nl", created_on=clock(), changed_on=clock())
    with pytest.raises(InvalidInputError) as refused:
        Intake(clock, lambda: None).submit_all([Draft(**GOOD), Draft(**(GOOD | change))])
    assert refused.value.field == field
    assert (Message.select().count(), AttachmentContent.select().count()) == (0, 0)


def test_a_mail_larger_than_one_request_is_taken_up_to_the_limit_of_a_message(intake, store):
    [file] = submitted(intake, Attachment("a.bin", b"x" * 5_000_000)).attachments
    assert file.size == 5_000_000


def test_a_mailbox_may_have_a_limit_of_its_own(intake, store):
    SystemMailbox.update(max_message_bytes=20_000).execute()
    with pytest.raises(InvalidInputError, match="20,000"):
        submitted(intake, Attachment("a", b"x" * 15_000))
    assert submitted(intake, Attachment("a", b"x" * 14_000)).attachments


def test_a_file_that_exchange_may_keep_back_is_taken_with_a_notice(intake, store):
    [taken] = intake.take([Draft(**GOOD, attachments=[Attachment("setup.EXE", b"MZ"), Attachment("exe", b"")])])
    assert [("setup.EXE" in notice.text, notice.field) for notice in taken.notices] == [(True, "attachments")]


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.PDF", b"", "application/pdf"),
        (".docx", b"PK", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("backup.tar.gz", b"", "application/gzip"),
        ("data:,a.png", b"", "image/png"),
        ("scan", b"%PDF-1.4\n", "application/pdf"),
        ("scan.0001", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "image/jpeg"),
        ("nothing", b"", "application/octet-stream"),
    ],
)
def test_the_type_follows_from_the_name_and_in_doubt_from_the_content(name, head, expected):
    assert type_of(name, head) == expected


# --- forgetting ----------------------------------------------------------------------------------------------------


def test_what_no_message_refers_to_is_forgotten_when_nobody_can_be_about_to_store_it(intake, store, clock):
    [file] = submitted(intake, Attachment("a.bin", b"x" * PIECE_BYTES + b"y")).attachments
    clock.advance(KEPT_UNREFERENCED + timedelta(minutes=1))
    assert store.purge() == 0
    Message.delete().execute()
    intake.keep_files([intake.checks().check(Draft(**GOOD, attachments=[Attachment("b", b"fresh")])).message])
    assert store.purge() == 1
    assert (AttachmentContent.select().count(), AttachmentPiece.select().count()) == (1, 1)
    with pytest.raises(NotFoundError):
        store.open(file.sha256)


def test_a_content_that_comes_in_again_outlives_a_purge_that_had_already_chosen_it(intake, store, clock):
    submitted(intake, Attachment("a", b"again"))
    Message.delete().execute()
    clock.advance(KEPT_UNREFERENCED + timedelta(minutes=1))
    checked = intake.checks().check(Draft(**GOOD, attachments=[Attachment("a", b"again")])).message
    intake.keep_files([checked])
    assert store.purge() == 0
    Message.submit([checked], clock())
    assert store.purge() == 0


def test_a_file_that_changes_between_check_and_storing_is_refused_and_nothing_is_stored(intake, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one")
    checked = intake.checks().check(Draft(**GOOD, attachments=[Attachment("a.txt", path)])).message
    path.write_bytes(b"two")
    with pytest.raises(InvalidInputError, match="does not change"):
        intake.store([checked])
    assert (Message.select().count(), AttachmentContent.select().count()) == (0, 0)


# --- in another place ----------------------------------------------------------------------------------------------


def test_contents_may_lie_in_a_folder_and_are_read_there_whatever_the_setting_says_by_now(store, clock, tmp_path):
    there = ContentStore(clock, f"file://{tmp_path}/files")
    intake = Intake(clock, lambda: None, contents=there)
    [file] = submitted(intake, Attachment("a.bin", b"x" * 300_000)).attachments
    submitted(intake, Attachment("b.bin", b"x" * 300_000))
    assert AttachmentPiece.select().count() == 0
    assert [one.stat().st_size for one in (tmp_path / "files").rglob("*") if one.is_file()] == [300_000]
    with store.open(file.sha256) as opened:
        opened.seek(299_990)
        assert opened.read() == b"x" * 10
    Message.delete().execute()
    clock.advance(KEPT_UNREFERENCED + timedelta(minutes=1))
    assert store.purge() == 1
    assert not [one for one in (tmp_path / "files").rglob("*") if one.is_file()]
