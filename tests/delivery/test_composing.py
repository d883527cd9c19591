"""What was stored of a message is what its mailer is given."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO

import pytest

from rqmail.content_store import ContentStore
from rqmail.delivery.composing import UnreadableError, composed
from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Draft, Intake
from rqmail.intake.relayed import relayed
from rqmail.mailers.base import Address
from rqmail.models.attachments import MessageAttachment
from rqmail.models.contents import is_raw, load_contents
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, Recipient


@pytest.fixture
def store(database, clock):
    SystemMailbox.create(key="news", address="news@x.nl", created_on=clock(), changed_on=clock())
    return ContentStore(clock)


def mail_of(message_id, store):
    message = Message.get_by_id(message_id)
    return composed(message, load_contents([message_id]).get(message_id), None, store)


def test_everything_that_was_handed_in_reaches_the_mailer(store, clock):
    draft = Draft(
        "mailbox:news",
        "Hallo",
        to="Zo\u00eb <zoe@x.nl>, b@x.nl",
        cc="c@x.nl",
        bcc="d@x.nl",
        text="dag",
        html='<img src="cid:logo">',
        attachments=[
            Attachment("a.pdf", b"%PDF"),
            Attachment("l.png", b"\x89PNG", is_inline=True, content_id="logo"),
        ],
        reply_to="R <r@x.nl>",
        importance="high",
        read_receipt=True,
        delivery_receipt=True,
        headers=[("X-Order", "7"), ("References", "<1@x>")],
        unsubscribe_url="https://x.nl/u",
        from_="Team <team@x.nl>",
    )
    mail = mail_of(Intake(clock, lambda: None, contents=store).submit(draft), store)
    assert (mail.to, mail.cc, mail.bcc) == (
        (Address("zoe@x.nl", "Zo\u00eb"), Address("b@x.nl")),
        (Address("c@x.nl"),),
        (Address("d@x.nl"),),
    )
    assert (mail.subject, mail.text, mail.html) == ("Hallo", "dag", '<img src="cid:logo">')
    assert dict(mail.headers) == {
        "X-Order": "7",
        "References": "<1@x>",
        "List-Unsubscribe": "<https://x.nl/u>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
    assert (mail.reply_to, mail.from_) == ((Address("r@x.nl", "R"),), Address("team@x.nl", "Team"))
    assert (mail.importance, mail.read_receipt, mail.delivery_receipt) == ("high", True, True)
    assert [(one.name, one.content_type, one.is_inline, one.content_id, one.read()) for one in mail.files] == [
        ("a.pdf", "application/pdf", False, None, b"%PDF"),
        ("l.png", "image/png", True, "logo", b"\x89PNG"),
    ]


def test_half_a_message_is_no_mail(store, clock):
    message_id = Intake(clock, lambda: None).submit(Draft("mailbox:news", "s", to="a@x.nl", text="t"))
    Recipient.delete().execute()
    with pytest.raises(UnreadableError):
        mail_of(message_id, store)


MEETING = (
    b"Subject: Overleg\nFrom: news@x.nl\nTo: listed@x.nl\nMIME-Version: 1.0\n"
    b"Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>dag</p>\n"
    b"--b\nContent-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nEND:VCALENDAR\n--b--\n"
)


class Once(BytesIO):
    """A mail that can be read once, as it comes from a pipe."""

    def seekable(self):
        return False


@pytest.mark.parametrize("opened", [BytesIO, Once])
def test_a_mail_that_json_cannot_say_is_kept_and_reaches_the_mailer_as_it_came(store, clock, opened):
    intake = Intake(clock, lambda: None, contents=store)
    with relayed(opened(MEETING), "mailbox:news", ["a@x.nl", "listed@x.nl"]) as found:
        [checked] = intake.take([found.draft])
    assert [one.code.value for one in checked.notices] == ["needs-read-write"]
    assert "a mail in MIME form is sent as a draft" in checked.notices[0].text

    mail = mail_of(checked.message.id, store)
    assert (mail.raw.read(), mail.files, mail.subject) == (MEETING, (), "Overleg")
    assert ([one.address for one in mail.to], [one.address for one in mail.bcc]) == (["listed@x.nl"], ["a@x.nl"])
    assert mail.html == "<p>dag</p>"
    assert is_raw(checked.message.id)
    assert Message.get_by_id(checked.message.id).upload_bytes is None


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"raw": bytes(4_000_000)}, "^eml: '4,000,000 bytes' .* at most 3,144,704 bytes.* in one request of 4,194,304"),
        ({"raw": b"\n" * 1_600_000}, "^eml: '1,600,000 bytes' .* at most 3,144,704 bytes, lines ended by CRLF"),
        ({"raw": MEETING, "attachments": [Attachment("a.pdf", b"%PDF")]}, "none beside a mail that is sent as it is"),
        ({"raw": MEETING, "sender": "default"}, "a sender that sends through Microsoft Graph"),
    ],
)
def test_what_cannot_be_sent_as_it_is_is_refused_when_it_is_handed_in(store, clock, fields, told):
    with pytest.raises(InvalidInputError, match=told):
        Intake(clock, lambda: None).submit(
            Draft(**({"sender": "mailbox:news"} | fields), subject="x", to="a@x.nl", text="x")
        )


def test_a_mail_that_is_sent_as_it_is_keeps_to_its_mailbox_own_bound_too(store, clock):
    SystemMailbox.update(max_message_bytes=100).execute()
    with pytest.raises(InvalidInputError, match=r"^eml: '\d+ bytes' .* at most 100 bytes, as any mail of this sender"):
        Intake(clock, lambda: None).submit(Draft("mailbox:news", "x", to="a@x.nl", text="x", raw=MEETING))


def test_a_message_whose_mail_was_taken_away_by_hand_is_not_sent_empty(store, clock):
    message_id = Intake(clock, lambda: None, contents=store).submit(
        Draft("mailbox:news", "x", to="a@x.nl", text="x", raw=MEETING)
    )
    MessageAttachment.delete().execute()
    with pytest.raises(UnreadableError, match="MIME form"):
        mail_of(message_id, store)


PASSED_ON = b"From: a@x.nl\r\nTo: b@x.nl\r\nSubject: s\r\nDate: %s\r\nMessage-ID: %s\r\n\r\nx\r\n"


@pytest.mark.parametrize(
    ("message_id", "date", "kept"),
    [
        (b"<7.x=1@erp.example>", b"Wed, 2 Dec 2026 20:00:00 +0100", ("<7.x=1@erp.example>", "2026-12-02T20:00+01:00")),
        (b"<7@[127.0.0.1]>", b"Wed, 2 Dec 2026 20:00:00 -0000", ("<7@[127.0.0.1]>", "2026-12-02T20:00+00:00")),
        (b"7@erp.example", b"yesterday", (None, None)),
        (b"<7 8@erp.example>", b"", (None, None)),
        (b"<%s@erp.example>" % (b"x" * 255), b"Wed, 2 Dec 2026 20:00:00 +9999", (None, None)),
    ],
)  # fmt: skip
def test_a_mail_that_is_passed_on_keeps_its_date_and_message_id(store, clock, message_id, date, kept):
    with relayed(BytesIO(PASSED_ON % (date, message_id)), "mailbox:news") as found:
        assert found.message_id == message_id.decode()
        stored = Intake(clock, lambda: None, contents=store).submit(found.draft)
    mail = mail_of(stored, store)
    assert (mail.internet_message_id, mail.date and mail.date.isoformat(timespec="minutes"), mail.marked) == (
        *kept,
        True,
    )


def test_in_a_mailbox_that_takes_no_property_a_mail_has_the_message_id_it_is_found_by(store, clock):
    stored = Intake(clock, lambda: None, contents=store).submit(
        Draft("mailbox:news", "s", to="b@x.nl", text="x", message_id="<7@erp.example>")
    )
    Message.update(marked=False, mailbox_key="news@x.nl").where(Message.id == stored).execute()
    mail = mail_of(stored, store)
    assert (mail.internet_message_id, mail.marked) == (f"<{stored}@x.nl>", False)


@pytest.mark.parametrize("wrong", [{"message_id": "7"}, {"message_id": "<a@b>\n"}, {"date": datetime(2026, 1, 1)}])  # noqa: DTZ001
def test_a_message_id_or_a_date_that_no_mail_can_have_is_refused(store, clock, wrong):
    with pytest.raises(InvalidInputError, match=r"messageId|date"):
        Intake(clock, lambda: None, contents=store).submit(Draft("mailbox:news", "s", to="b@x.nl", text="x", **wrong))
