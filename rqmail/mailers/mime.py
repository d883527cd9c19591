"""A mail in MIME form, as a file of it is opened in a mail program."""

from __future__ import annotations

from email.headerregistry import Address as HeaderAddress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from rqmail.mailers.base import Address, Mail, MailFile, plain_text, wire_address


def as_mime(mail: Mail, sender: Address) -> bytes:
    """Write ``mail`` as ``sender`` sends it, Bcc and all: whoever looks at it wants to see whom it was for.

    One in MIME form is written as it came.
    """
    if mail.raw is not None:
        return mail.raw.read()
    message = EmailMessage(policy=SMTP)
    message["From"] = _person(mail.from_ or sender)
    for name, people in (("To", mail.to), ("Cc", mail.cc), ("Bcc", mail.bcc), ("Reply-To", mail.reply_to)):
        if people:
            message[name] = [_person(one) for one in people]
    message["Subject"] = mail.subject
    message["x-rqmail-id"] = mail.id
    reader = wire_address((mail.from_ or sender).address)
    for name, value in (
        ("Date", mail.date and format_datetime(mail.date)),
        ("Message-ID", mail.internet_message_id),
        ("Importance", mail.importance != "normal" and mail.importance),
        ("Disposition-Notification-To", mail.read_receipt and reader),
        ("Return-Receipt-To", mail.delivery_receipt and reader),
    ):
        if value:
            message[name] = value
    for name, value in mail.headers.items():
        message[name] = value
    if mail.html is None:
        message.set_content(mail.text or "")
    else:
        _set_html(message, mail.html, mail)
    for file in mail.files:
        if file.content_id is None:
            message.add_attachment(file.read(), *_kind(file), filename=file.name)
    return message.as_bytes()


def _set_html(message: EmailMessage, html: str, mail: Mail) -> None:
    message.set_content(plain_text(mail))
    message.add_alternative(html, subtype="html")
    body = message.get_body(("html",)) or message
    for file in mail.files:
        if file.content_id is not None:
            body.add_related(file.read(), *_kind(file), cid=f"<{file.content_id}>", filename=file.name)


def _kind(file: MailFile) -> tuple[str, str]:
    main, _, sub = file.content_type.partition("/")
    # A multipart or a nested mail is more than bytes to Python's package, and bytes is what we have.
    return (main, sub) if main not in {"multipart", "message"} else ("application", "octet-stream")


def _person(address: Address) -> HeaderAddress:
    return HeaderAddress(display_name=address.name, addr_spec=wire_address(address.address))
