"""A mail as Graph's JSON says it: the message itself, its headers as JSON can carry them, and its files."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from rqmail.mailers.base import Address, Mail, MailFile, as_base64, wire_address

#: The extended property that carries our id in the mailbox. Never change it: mails are found again by it.
ID_PROPERTY = "String {6f0d5c1e-9a43-4f0e-8d3b-52c7b1f4a9e6} Name rqmail-id"

#: The extended property that a draft of ours has from its making on: it was made to be uploaded to, and is not sent.
UPLOAD_PROPERTY = "String {6f0d5c1e-9a43-4f0e-8d3b-52c7b1f4a9e6} Name rqmail-upload"

#: The header that carries our id out of the mailbox.
ID_HEADER = "x-rqmail-id"

#: The Message-ID of a mail that carries no property.
_OUR_MESSAGE_ID = re.compile(r"<?([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})(?:\.upload)?@")

#: Headers that JSON takes in one message, ours among them: one more and Graph refuses it.
_MOST_HEADERS = 5

#: JSON's own headers must begin with ``x-``. Any other, and any beyond those it takes, becomes one as a property of
#: this set (MS-OXCMAIL 2.1.3.2.4).
INTERNET_HEADERS = "String {00020386-0000-0000-C000-000000000046} Name "

#: Headers that have a property of their own (PidTagListUnsubscribe, PidTagInReplyToId, PidTagInternetReferences, …).
_OWN_PROPERTIES = {
    "list-unsubscribe": "String 0x1045",
    "in-reply-to": "String 0x1042",
    "references": "String 0x1039",
    "list-help": "String 0x1043",
    "list-subscribe": "String 0x1044",
}

_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_message(mail: Mail) -> bytes:
    """Write ``mail`` with its files as a ``sendMail`` request."""
    message = message_of(mail)
    if mail.files:
        message["attachments"] = [attachment_of(one) for one in mail.files]
    return encoded({"message": message, "saveToSentItems": mail.copied})


def request_size(mail: Mail) -> int:
    """Answer how many bytes :func:`encode_message` writes; no file is read for it."""
    size = len(encoded({"message": message_of(mail), "saveToSentItems": mail.copied}))
    if mail.files:
        size += len(b',"attachments":[]') + len(mail.files) - 1
        size += sum(attachment_size(one) for one in mail.files)
    return size


def attachment_size(file: MailFile) -> int:
    """Answer how many bytes :func:`attachment_of` becomes; the file is not read."""
    return len(encoded(_described(file, ""))) + as_base64(file.size)


def message_of(mail: Mail) -> dict[str, Any]:
    """Say ``mail`` without its files as Graph's ``message``."""
    message: dict[str, Any] = {
        "subject": mail.subject,
        "body": {"contentType": "html", "content": mail.html}
        if mail.html is not None
        else {"contentType": "text", "content": mail.text or ""},
        "toRecipients": _recipients(mail.to),
    }
    message |= {name: people for name, people in envelope_of(mail).items() if people}
    if mail.reply_to:
        message["replyTo"] = _recipients(mail.reply_to)
    if mail.from_ is not None:
        [message["from"]] = _recipients((mail.from_,))
    if mail.importance != "normal":
        message["importance"] = mail.importance
    if mail.read_receipt:
        message["isReadReceiptRequested"] = True
    if mail.delivery_receipt:
        message["isDeliveryReceiptRequested"] = True
    if mail.internet_message_id is not None:
        message["internetMessageId"] = mail.internet_message_id
    headers, properties = _headers_and_properties(mail)
    message["internetMessageHeaders"] = headers
    message["singleValueExtendedProperties"] = properties
    return message


def envelope_of(mail: Mail) -> dict[str, Any]:
    """Say whom a mail is for; a list without anybody stands there empty."""
    return {
        "toRecipients": _recipients(mail.to),
        "ccRecipients": _recipients(mail.cc),
        "bccRecipients": _recipients(mail.bcc),
    }


def _headers_and_properties(mail: Mail) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Answer the headers as JSON can carry them: some as headers, the others as properties; ours among them."""
    headers, properties = [{"name": ID_HEADER, "value": mail.id}], []
    if mail.marked:
        properties.append({"id": ID_PROPERTY, "value": mail.id})
    for name, value in mail.headers.items():
        lower = name.lower()
        if lower == ID_HEADER:
            continue
        if lower.startswith("x-") and len(headers) < _MOST_HEADERS:
            headers.append({"name": name, "value": value})
        else:
            properties.append({"id": _OWN_PROPERTIES.get(lower, INTERNET_HEADERS + name), "value": value})
    return headers, properties


def internet_message_id(message_id: str, mailbox_address: str, *, upload: bool = False) -> str:
    """Answer the Message-ID by which a mail is found where it carries no property; one that is uploaded tells so."""
    domain = wire_address(mailbox_address.strip().lower()).rpartition("@")[2]
    return f"<{message_id}{'.upload' if upload else ''}@{domain}>"


def named_in(message_id: str) -> str | None:
    """Answer which mail of ours a Message-ID names, the other way round; ``None`` for anybody else's."""
    found = _OUR_MESSAGE_ID.match(message_id.strip().lower())
    return found[1] if found else None


def encoded(document: dict[str, Any]) -> bytes:
    """Write a request's JSON."""
    # A lone surrogate cannot be written in UTF-8; a question mark in its place still delivers the mail.
    return _as_json(document).encode("utf-8", errors="replace")


def attachment_of(file: MailFile) -> dict[str, Any]:
    """Say a file, its bytes and all, as Graph's ``fileAttachment``."""
    return _described(file, base64.b64encode(file.read()).decode("ascii"))


def _described(file: MailFile, content: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "@odata.type": "#microsoft.graph.fileAttachment",
        "name": file.name,
        "contentType": file.content_type,
        "contentBytes": content,
    }
    if file.content_id is not None:
        told |= {"isInline": True, "contentId": file.content_id}
    return told


def _recipients(addresses: tuple[Address, ...]) -> list[dict[str, dict[str, str]]]:
    return [
        {"emailAddress": {"address": wire_address(a.address)} | ({"name": a.name} if a.name else {})} for a in addresses
    ]
