"""What JSON cannot say goes as the mail it is: a draft made from MIME, addressed and marked by us, and sent."""

from __future__ import annotations

import base64
import email
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mailers.graph.uploads.sending import SENDER, drafts, file
from rqmail.errors import MailboxNotWritableError, MailRejectedError, MailTransientError, NoNamedPropertyError
from rqmail.mailers.base import Address, Permit
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.message import internet_message_id
from rqmail.mailers.graph.raw import MOST_WRITTEN, as_request, written_size
from rqmail.mailers.graph.size import LARGEST_REQUEST

SIGNED = (
    b"Subject: Getekend\nFrom: noreply@contoso.example\nTo: listed@x.nl\nBcc: secret@x.nl,\n more@x.nl\n"
    b"x-rqmail-id: forged\nMessage-ID: <original@x.nl>\nMIME-Version: 1.0\n"
    b'Content-Type: multipart/signed; protocol="application/pgp-signature"; micalg=pgp-sha512; boundary=b\n\n'
    b"--b\nContent-Type: text/plain; charset=utf-8\n\nCaf\xc3\xa9  \n\n--b\n"
    b"Content-Type: application/pgp-signature; name=signature.asc\n\n-----BEGIN PGP SIGNATURE-----\n--b--\n"
)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (b"Subject: a\n\nb\n", b"x-rqmail-id: m\r\nSubject: a\r\n\r\nb\r\n"),
        (b"Subject: a\r\n\r\nb\r\n", b"x-rqmail-id: m\r\nSubject: a\r\n\r\nb\r\n"),
        (b"From x@y Thu Dec  3\nSubject: a\n\nb", b"x-rqmail-id: m\r\nSubject: a\r\n\r\nb"),
        (
            b"BCC : a@x.nl\n\tb@x.nl\nSubject: a\n more\n\nBcc: b",
            b"x-rqmail-id: m\r\nSubject: a\r\n more\r\n\r\nBcc: b",
        ),
        (b"Subject: \xe9\nX-Rqmail-Id: z\n\nb", b"x-rqmail-id: m\r\nSubject: \xe9\r\n\r\nb"),
        (b"Subject: a\nno header\nb", b"x-rqmail-id: m\r\nSubject: a\r\n\r\nno header\r\nb"),
        (b"Subject: a", b"x-rqmail-id: m\r\nSubject: a\r\n"),
        (b"Subject: a\n\na\rb", b"x-rqmail-id: m\r\nSubject: a\r\n\r\na\r\nb"),
    ],
)
def test_a_mail_in_mime_form_keeps_all_but_its_bcc_and_has_the_line_ends_of_mail(given, sent):
    assert base64.b64decode(as_request(given, "m")) == sent


@pytest.mark.parametrize("line", [b"a\n", b"a\r", b"a\r\n", b"\n"])
def test_the_largest_mail_that_is_taken_is_one_request_whatever_ends_its_lines(line):
    content = b"Subject: a\n\n"
    content += line * ((MOST_WRITTEN - written_size(content)) // written_size(line))
    assert MOST_WRITTEN - 3 < written_size(content) <= MOST_WRITTEN
    assert LARGEST_REQUEST - 2048 < len(as_request(content, "0" * 26)) <= LARGEST_REQUEST


def test_no_byte_that_a_signature_covers_is_touched():
    sent = base64.b64decode(as_request(SIGNED, "m-1"))
    mail = email.message_from_bytes(sent)
    assert (mail["subject"], mail["message-id"], mail.get_all("x-rqmail-id")) == (
        "Getekend",
        "<original@x.nl>",
        ["m-1"],
    )
    assert b"secret@x.nl" not in sent
    assert sent.partition(b"\r\n\r\n")[2] == SIGNED.partition(b"\n\n")[2].replace(b"\n", b"\r\n")
    assert mail.get_content_type() == "multipart/signed"


@pytest.fixture
def signed(mail):
    raw = file("mail.eml", SIGNED, "message/rfc822")
    return replace(mail, raw=raw, cc=(), bcc=(Address("blind@x.nl"),), permit=Permit(lambda: None), attempt="m:1")


@pytest.fixture
def look(sandbox, transport, token, clock):
    class Tokens:
        def token(self):
            return token

    mailbox = GraphMailbox(GraphHttp(transport, Tokens()), sandbox.base_url, SENDER, clock=clock, marked=False)
    return mailbox, lambda message_id: mailbox.find_sent(message_id, datetime(2020, 1, 1, tzinfo=UTC))


def test_it_goes_to_the_recipients_of_its_envelope_alone_and_carries_our_marks(
    control,
    mailer,
    transport,
    signed,
    sandbox,
    token,
    look,
):
    mailer.send(signed)
    control.configure(sent_items_delay_seconds=0)

    [taken] = control.accepted()
    assert (taken["via"], taken["rqmailId"], taken["subject"]) == ("draft", signed.id, "Getekend")
    assert (taken["to"], taken["cc"], taken["bcc"]) == ([one.address for one in signed.to], [], ["blind@x.nl"])
    assert taken["internetMessageId"] == "<original@x.nl>"
    assert transport.steps == ["POST messages", "PATCH", "POST send"]
    assert [kind.get("Content-Type") for _, _, kind, _ in transport.asked][:2] == ["text/plain", "application/json"]
    assert drafts(sandbox, token) == []
    _, find = look
    assert (find(signed.id).folder, find(signed.id).is_upload) == ("sentitems", False)


@pytest.mark.parametrize("holds", [2, 3])
def test_a_draft_of_it_that_a_kill_left_is_found_for_what_it_is_and_removed_marked_or_not(
    mailer,
    signed,
    look,
    control,
    holds,
):
    class KilledError(BaseException):
        pass

    def killed(_seconds):
        if not left.pop():
            raise KilledError

    left = [False, *[True] * holds]
    with pytest.raises(KilledError):
        mailer.send(replace(signed, permit=Permit(lambda: None, holds=[killed])))
    mailbox, find = look
    assert (find(signed.id).folder, find(signed.id).is_upload) == ("drafts", True)
    assert mailbox.remove_uploads(signed.id)
    assert find(signed.id) is None

    left[:] = [False, *[True] * holds]
    with pytest.raises(KilledError):
        mailer.send(replace(signed, permit=Permit(lambda: None, holds=[killed])))
    mailer.send(replace(signed, tried_before=True, permit=Permit(lambda: None)))
    assert len(control.accepted()) == 1
    assert find(signed.id).folder == "sentitems"


def test_a_mailbox_without_names_gets_it_without_our_property(control, mailer, signed, look):
    control.configure(limits={"refuse_named_properties": True}, sent_items_delay_seconds=0)
    with pytest.raises(NoNamedPropertyError):
        mailer.send(signed)
    mailer.send(replace(signed, internet_message_id=internet_message_id(signed.id, SENDER), marked=False))
    assert [one["rqmailId"] for one in control.accepted()] == [signed.id]
    assert look[1](signed.id).folder == "sentitems"


def test_what_fails_before_it_is_sent_is_certain_and_leaves_no_draft(control, mailer, signed, sandbox, token):
    for operation, status, error in (
        ("createDraft", 504, MailTransientError),
        ("updateMessage", 504, MailTransientError),
        ("updateMessage", 400, MailRejectedError),
    ):
        control.faults("status", status=status, operation=operation)
        with pytest.raises(error):
            mailer.send(replace(signed, permit=Permit(lambda: None)))
    control.configure(directory={"may_write_mail": False})
    with pytest.raises(MailboxNotWritableError):
        mailer.send(signed)
    assert control.accepted() == []
    control.configure(directory={"may_write_mail": True})
    assert drafts(sandbox, token) == []


def test_one_that_does_not_fit_one_request_is_refused(mailer, signed, transport):
    large = file("mail.eml", b"Subject: a\n\n" + bytes(LARGEST_REQUEST), "message/rfc822")
    with pytest.raises(MailRejectedError, match="too large"):
        mailer.send(replace(signed, raw=large))
    assert transport.asked == []


def test_our_property_is_on_it_as_on_every_mail(control, mailer, signed, sandbox, transport, token, clock):
    mailer.send(signed)
    control.configure(sent_items_delay_seconds=0)

    class Tokens:
        def token(self):
            return token

    mailbox = GraphMailbox(GraphHttp(transport, Tokens()), sandbox.base_url, SENDER, clock=clock)
    assert mailbox.find_sent(signed.id, datetime(2020, 1, 1, tzinfo=UTC)).folder == "sentitems"
