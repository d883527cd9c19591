"""Django's mail becomes messages of ours: whole, from the right mailbox, and only once its transaction is committed."""

from __future__ import annotations

import logging
import threading
from email.message import MIMEPart
from email.mime.image import MIMEImage

import pytest

django = pytest.importorskip("django", reason="the extra django is not installed here")

from django.conf import settings as django_settings  # noqa: E402

if not django_settings.configured:
    django_settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        EMAIL_BACKEND="rqmail.contrib.django.EmailBackend",
        RQMAIL_SENDER="mailbox:news",
        DEFAULT_FROM_EMAIL="webmaster@localhost",
        USE_TZ=True,
    )
    django.setup()

from django.core import mail  # noqa: E402
from django.db import transaction  # noqa: E402

from rqmail import bootstrap, logs  # noqa: E402
from rqmail.contrib.django import EmailBackend  # noqa: E402
from rqmail.errors import InvalidInputError  # noqa: E402
from rqmail.models.attachments import attached_to  # noqa: E402
from rqmail.models.base import db  # noqa: E402
from rqmail.models.contents import load_contents  # noqa: E402
from rqmail.models.message import Message, MessageContent  # noqa: E402
from rqmail.settings import Settings  # noqa: E402

NEWS, INVOICES = "news@contoso.example", "invoices@contoso.example"


@pytest.fixture
def app(database, redis_url, clock, monkeypatch):
    built = bootstrap.build(Settings(_env_file=None, database_url=database.url, redis_url=redis_url), clock)
    built.mailboxes.add("news", NEWS)
    built.mailboxes.add("invoices", INVOICES)
    monkeypatch.setattr("rqmail.contrib.django.application", lambda **_: built)
    yield built
    built.limiter.close()
    built.redis.close()
    db.obj.close_all()


def only():
    [message] = Message.select()
    return message


def recipients(message):
    return [(one.kind, one.address, one.name) for one in message.recipients]


def test_a_mail_is_stored_whole(app):
    one = mail.EmailMultiAlternatives(
        "Rechnung für März",
        "plain",
        f"Invoices <{INVOICES}>",
        ["Zoë <zoe@example.org>"],
        cc=["c@example.org"],
        bcc=["b@example.org"],
        reply_to=["r@example.org"],
        headers={"X-Order": "7", "Importance": "high", "References": "<a@b>"},
    )
    one.attach_alternative('<p>Hi <img src="cid:logo"></p>', "text/html")
    csv = b"a;b\r\n1;2\n3;4"
    one.attach("número.csv", csv, "text/csv")
    one.attach("x.bin", bytes(range(256)), None)
    logo = MIMEImage(b"\x89PNG\r\n\x1a\n", "png")
    logo.add_header("Content-ID", "<logo>")
    logo.add_header("Content-Disposition", "inline", filename="logo.png")
    one.attach(logo)
    assert one.send() == 1
    stored = only()
    content = MessageContent.get_by_id(stored.id)
    assert (stored.sender, stored.subject) == ("mailbox:invoices", "Rechnung für März")
    assert (content.text.strip(), content.html.strip()) == ("plain", '<p>Hi <img src="cid:logo"></p>')
    assert [(kind, address) for kind, address, _ in recipients(stored)] == [
        ("to", "zoe@example.org"),
        ("cc", "c@example.org"),
        ("bcc", "b@example.org"),
    ]
    assert recipients(stored)[0][2] == "Zoë"
    for told in ('"X-Order","7"', '"References","<a@b>"', '"importance":"high"', "r@example.org"):
        assert told in content.extras
    files = attached_to([stored.id])[stored.id]
    assert [(f.name, f.content_type, f.content_id) for f in files] == [
        ("número.csv", "text/csv", None),
        ("x.bin", "application/octet-stream", None),
        ("logo.png", "image/png", "logo"),
    ]
    with app.contents.open(files[0].sha256) as kept:
        assert kept.read() == csv


def test_the_files_of_a_mail_are_as_they_were_after_it_was_sent(app):
    one = mail.EmailMessage("s", "t", NEWS, ["a@example.org"], attachments=[("a.txt", "text", "text/plain")])
    before = list(one.attachments)
    one.send()
    assert one.attachments == before


def test_a_from_email_that_is_no_mailbox_leaves_from_the_configured_sender_under_its_own_address(app):
    mail.send_mail("s", "t", None, ["a@example.org"])
    assert only().sender == "mailbox:news"
    assert load_contents([only().id])[only().id].extras.from_ is None


def test_a_from_header_that_is_given_by_name_stays(app):
    mail.EmailMessage("s", "t", None, ["a@example.org"], headers={"From": "boss@contoso.example"}).send()
    assert "boss@contoso.example" in MessageContent.get_by_id(only().id).extras


def test_a_mail_that_fits_no_sender_says_which_setting_is_missing(app):
    with pytest.raises(InvalidInputError, match="RQMAIL_SENDER"):
        EmailBackend(sender="").send_messages([mail.EmailMessage("s", "t", "x@y.example", ["a@example.org"])])


def test_of_several_all_are_stored_or_none_and_silently_the_good_ones(app):
    good = mail.EmailMessage("s", "t", NEWS, ["a@example.org"])
    wrong = mail.EmailMessage("s", "t", NEWS, ["nobody"])
    nobody = mail.EmailMessage("s", "t", NEWS, [])
    with pytest.raises(InvalidInputError):
        EmailBackend().send_messages([good, wrong])
    assert Message.select().count() == 0
    assert EmailBackend(fail_silently=True).send_messages([good, wrong, nobody]) == 1
    assert Message.select().count() == 1
    assert EmailBackend().send_messages([]) == 0


def test_a_header_with_a_line_break_is_refused_silently_or_not(app):
    bad = mail.EmailMessage("s\nBcc: x@example.org", "t", NEWS, ["a@example.org"])
    with pytest.raises(ValueError, match=r"newline|linefeed"):
        EmailBackend(fail_silently=True).send_messages([bad])


def test_in_a_transaction_a_mail_is_stored_on_commit_and_never_after_a_rollback(app):
    with transaction.atomic():
        assert mail.send_mail("kept", "t", NEWS, ["a@example.org"]) == 1
        assert Message.select().count() == 0
    assert only().subject == "kept"
    with pytest.raises(RuntimeError), transaction.atomic():
        mail.send_mail("lost", "t", NEWS, ["a@example.org"])
        raise RuntimeError
    assert Message.select().count() == 1


def test_in_a_transaction_a_wrong_mail_is_refused_at_once(app):
    with pytest.raises(InvalidInputError), transaction.atomic():
        mail.send_mail("s", "t", NEWS, ["nobody"])


def test_on_commit_can_be_switched_off(app):
    with transaction.atomic():
        EmailBackend(on_commit=False).send_messages([mail.EmailMessage("s", "t", NEWS, ["a@example.org"])])
        assert Message.select().count() == 1


def test_threads_share_one_connection(app):
    with EmailBackend() as backend:
        one = [mail.EmailMessage(str(n), "t", NEWS, ["a@example.org"]) for n in range(8)]
        threads = [threading.Thread(target=backend.send_messages, args=([each],)) for each in one]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {row.subject for row in Message.select()} == {str(n) for n in range(8)}


def test_a_part_without_a_name_is_attached_too(app):
    part = MIMEPart()
    part.set_content(b"%PDF-1.4", "application", "pdf")
    one = mail.EmailMessage("s", "t", NEWS, ["a@example.org"], attachments=[(None, b"%PDF-1.4", "application/pdf")])
    one.send()
    assert [f.content_type for f in attached_to([only().id])[only().id]] == ["application/pdf"]


def test_the_process_that_rqmail_is_embedded_in_keeps_its_logging(monkeypatch, sqlite_database, redis_url):
    called = []
    monkeypatch.setattr(logs, "configure", called.append)
    monkeypatch.setattr(bootstrap, "_process", None)
    monkeypatch.setenv("RQMAIL_DATABASE_URL", sqlite_database.url)
    monkeypatch.setenv("RQMAIL_REDIS_URL", redis_url)
    before = logging.getLogRecordFactory()
    bootstrap.application(embedded=True)
    assert (called, logging.getLogRecordFactory()) == ([], before)
    db.obj.close_all()
    monkeypatch.setattr(bootstrap, "_process", None)
