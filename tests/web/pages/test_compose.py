"""The page Send a mail: one mail is written, checked as every other, and shown as a message."""

from __future__ import annotations

import io
import re

import pytest

from rqmail.models.base import pooled_connection
from rqmail.models.contents import load_contents
from rqmail.models.message import Message
from web.asking import ADMIN_TOKEN
from web.pages.conftest import Person

PAGE = "/ui/compose"
GOOD = {"sender": "mailbox:news", "to": "jan@x.nl", "subject": "Proef", "text": "Dag Jan"}

pytestmark = pytest.mark.usefixtures("news")


def stored():
    with pooled_connection():
        return [one.id for one in Message.select().order_by(Message.id)]


def sent(person, **fields):
    """Send the form as a browser does: the file fields are there, empty or not."""
    empty = {"attachments": (io.BytesIO(b""), ""), "pictures": (io.BytesIO(b""), "")}
    return person.send(PAGE, GOOD | empty | fields, page=PAGE)


def test_a_whole_mail_is_written_and_leads_to_its_message_with_what_one_should_know(admin, application):
    answer = sent(
        admin,
        to="Jan <jan@x.nl>, piet@x.nl",
        cc="JAN@x.nl",
        bcc="stil@x.nl",
        text="Eén\r\nTwee\r\n",
        html='<img src="cid:logo.png"> <b>Dag</b>',
        attachments=[(io.BytesIO(b"%PDF"), "请 factuur.pdf"), (io.BytesIO(b""), "run.exe")],
        pictures=[(io.BytesIO(b"\x89PNG\r\n\x1a\n"), "logo.png")],
        replyTo="ann@x.nl; bob@x.nl",
        importance="high",
        readReceipt="yes",
        headers="X-Order: 4711\r\n\r\nAuto-Submitted: auto-generated\r\n",
        unsubscribeUrl="https://x.nl/u/1",
    )
    [message_id] = stored()
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"/ui/messages/{message_id}"
    found = load_contents([message_id])[message_id]
    assert [(to.kind.value, to.name, to.address) for to in found.recipients] == [
        ("to", "Jan", "jan@x.nl"),
        ("to", "", "piet@x.nl"),
        ("bcc", "", "stil@x.nl"),
    ]
    assert found.text == "Eén\nTwee\n"
    assert [(one.name, one.content_type, one.content_id) for one in found.attachments] == [
        ("请 factuur.pdf", "application/pdf", None),
        ("run.exe", "application/x-msdos-program", None),
        ("logo.png", "image/png", "logo.png"),
    ]
    assert application.contents.open(found.attachments[0].sha256).read() == b"%PDF"
    extras = found.extras
    assert [one.address for one in extras.reply_to] == ["ann@x.nl", "bob@x.nl"]
    assert (extras.importance, extras.read_receipt, extras.delivery_receipt) == ("high", True, False)
    assert extras.headers[:2] == (("X-Order", "4711"), ("Auto-Submitted", "auto-generated"))
    page = admin.look(answer.headers["Location"])
    assert "The mail was handed in" in page
    assert "jan@x.nl was named twice: kept in To, left out of Cc." in page
    assert "Exchange or Outlook may keep run.exe from who receives it" in page


WRONG = {
    "to": ("", "At least one mail address", "at least one recipient"),
    "cc": ("nobody", "Mail addresses, with commas", "a mail address such as"),
    "subject": ("", "One line of text", "some text"),
    "replyTo": ("x@", "Mail addresses, with commas", "a mail address such as"),
    "headers": ("Subject: x", "One header a line", "the field subject says it"),
    "unsubscribeUrl": ("http://x.nl", "An address that begins with https", "an https address"),
    "from": ("a@x.nl, b@x.nl", "One mail address", "one address"),
    "html": ('<img src="cid:gone">', "HTML that shows no picture", "an inline attachment for every cid"),
}


def test_all_that_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(admin, beheerder):
    typed = {name: value for name, (value, _, _) in WRONG.items()}
    answer = sent(admin, **typed, text="Blijft <staan>", attachments=[(io.BytesIO(b"x"), "a.txt")], readReceipt="yes")
    assert answer.status_code == 400
    assert stored() == []
    page = answer.text
    for name, (value, in_words, exactly) in WRONG.items():
        [said] = re.findall(rf'<p class="wrong" id="{name}-wrong">(.*?)</p>', page, re.S)
        assert in_words in said
        assert exactly in said
        assert f'name="{name}"' in page
        if value and "<" not in value:
            assert value in page
    assert "Blijft &lt;staan&gt;" in page
    assert 'name="readReceipt" value="yes" checked' in page
    assert "<details open>" in page
    assert "Choose the files again" in page
    assert "Minstens één mailadres" in sent(beheerder, to="").text


def test_a_mail_gets_a_link_to_unsubscribe_by_or_goes_to_who_unsubscribed_and_its_page_says_so(
    admin, application, monkeypatch
):
    refused = sent(admin, unsubscribe="yes", ignoreUnsubscribed="yes")
    assert refused.status_code == 400
    assert "only with RQMAIL_WEB_URL set" in refused.text
    for name in ("unsubscribe", "ignoreUnsubscribed"):
        assert re.search(rf'name="{name}" value="yes" checked', refused.text)
    monkeypatch.setattr(type(application.unsubscribing), "missing", lambda _self: None)
    refused = sent(admin, unsubscribe="yes", cc="b@x.nl", subject="")
    for told in ("one recipient: the link is theirs alone", "One line of text"):
        assert told in refused.text
    shown = sent(admin, unsubscribe="yes", ignoreUnsubscribed="yes").headers["Location"]
    [message_id] = stored()
    extras = load_contents([message_id])[message_id].extras
    assert (extras.unsubscribe, extras.ignore_unsubscribed) == (True, True)
    page = admin.look(shown)
    for told in ("a link of its recipient's own", "sent to them too"):
        assert told in page


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": " \r\n"}, "a text or an html body"),
        ({"sender": "mailbox:gone"}, "a mailbox that exists"),
        ({"importance": "urgent"}, "low, normal or high"),
        ({"attachments": [(io.BytesIO(b"x"), "a\u202efdp.exe")]}, "printable characters"),
        ({"pictures": [(io.BytesIO(b"x"), "logo.png")]}, "an HTML body that shows it"),
        ({"pictures": [(io.BytesIO(b"x"), "mijn logo.png")], "html": "x"}, "visible characters of ASCII"),
    ],
)
def test_what_cannot_be_sent_is_said_beside_its_field(admin, fields, said):
    answer = sent(admin, **fields)
    assert answer.status_code == 400
    assert said in "".join(re.findall(r'<p class="wrong"[^>]*-wrong">(.*?)</p>', answer.text, re.S))
    assert stored() == []


def test_a_button_pressed_twice_sends_once_and_another_mail_from_the_same_form_is_another(admin):
    [form] = re.findall(r'name="form" value="([^"]+)"', admin.look(PAGE))
    first, again = sent(admin, form=form), sent(admin, form=form)
    assert first.headers["Location"] == again.headers["Location"]
    assert len(stored()) == 1
    assert sent(admin, form=form, subject="Nog eens").status_code == 303
    assert len(stored()) == 2


def test_a_mail_may_be_as_large_as_its_mailbox_allows_and_is_refused_beside_the_files_when_larger(admin, application):
    whole = b"x" * 200_000
    assert sent(admin, attachments=[(io.BytesIO(whole), "a.bin")]).status_code == 303
    application.changes.by("test").set_mailbox("news", max_message_bytes=100_000)
    refused = sent(admin, attachments=[(io.BytesIO(whole), "a.bin")])
    assert refused.status_code == 400
    assert "the whole message may have 100,000 bytes" in refused.text


def test_who_hands_mail_in_alone_writes_from_their_mailboxes_and_stays_on_the_page(web, application, reader):
    application.mailboxes.add("other", "other@x.nl")
    _, token = application.access.create("shop", ["send"], by="test", mailboxes=["news"])
    shop = Person(web.test_client(), token)
    page = shop.look(PAGE)
    assert "<option >mailbox:news</option>" in page
    assert "mailbox:other" not in page
    answer = sent(shop)
    assert answer.headers["Location"] == f"{PAGE}?sender=mailbox:news"
    assert "The mail was handed in" in shop.look(answer.headers["Location"])
    assert sent(shop, sender="mailbox:other").status_code == 403
    assert reader.client.get(PAGE).status_code == 403
    assert "Send a mail" not in reader.look("/ui/messages")
    assert len(stored()) == 1


def test_a_mail_without_proof_that_it_is_ours_is_not_sent(admin):
    assert admin.client.post(PAGE, data=GOOD).status_code == 403
    assert stored() == []


def test_the_page_is_led_to_with_its_sender_from_a_mailbox(admin, web):
    [link] = re.findall(r'href="(/ui/compose\?[^"]+)"', admin.look("/ui/mailboxes/news"))
    assert "<option selected>mailbox:news</option>" in admin.look(link)
    assert 'href="/ui/compose"' in admin.look("/ui/")
    assert Person(web.test_client(), ADMIN_TOKEN, "nl").look(PAGE).count("Mail versturen") >= 2
