"""What was stored of a message is what its mailer is given."""

from __future__ import annotations

import pytest

from rqmail.content_store import ContentStore
from rqmail.delivery.composing import UnreadableError, composed
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Draft, Intake
from rqmail.mailers.base import Address
from rqmail.models.contents import load_contents
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
