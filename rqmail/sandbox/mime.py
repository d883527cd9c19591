"""Reading a whole mail in MIME form into the same shape as a JSON message."""

from __future__ import annotations

import base64
import binascii
from email import message_from_bytes, policy
from email.headerregistry import AddressHeader
from email.message import EmailMessage
from typing import Any

from rqmail.sandbox.answers import GraphRefusal


def message_from_mime(payload: bytes) -> dict[str, Any]:
    """Turn a base64 MIME mail into a Graph message."""
    try:
        raw = base64.b64decode(b"".join(payload.split()), validate=True)
    except (ValueError, binascii.Error):
        raise GraphRefusal(
            400, "ErrorMimeContentInvalidBase64String", "Invalid base64 string for MIME content."
        ) from None
    mail = message_from_bytes(raw, policy=policy.default)
    if not isinstance(mail, EmailMessage) or not mail.keys():
        raise GraphRefusal(400, "ErrorMimeContentInvalid", "The MIME content is not valid.")
    message: dict[str, Any] = {
        "subject": str(mail["subject"] or ""),
        "body": _body(mail),
        "toRecipients": _recipients(mail, "to"),
        "ccRecipients": _recipients(mail, "cc"),
        "bccRecipients": _recipients(mail, "bcc"),
        "internetMessageHeaders": [
            {"name": name, "value": str(value)} for name, value in mail.items() if name.lower().startswith("x-")
        ],
        "attachments": [_attachment(part) for part in mail.iter_attachments()],
    }
    if sender := _recipients(mail, "from"):
        message["from"] = sender[0]
    if mail["message-id"]:
        message["internetMessageId"] = str(mail["message-id"])
    return message


def _recipients(mail: EmailMessage, name: str) -> list[dict[str, Any]]:
    return [
        {"emailAddress": {"address": address.addr_spec, "name": address.display_name or address.addr_spec}}
        for header in mail.get_all(name, [])
        if isinstance(header, AddressHeader)
        for address in header.addresses
    ]


def _body(mail: EmailMessage) -> dict[str, str]:
    part = mail.get_body(preferencelist=("html", "plain"))
    if part is None:
        return {"contentType": "text", "content": ""}
    try:
        content = part.get_content()
    except (LookupError, ValueError):
        raise GraphRefusal(400, "ErrorMimeContentInvalid", "The MIME body cannot be decoded.") from None
    return {"contentType": "html" if part.get_content_subtype() == "html" else "text", "content": str(content)}


def _attachment(part: Any) -> dict[str, Any]:
    content = part.get_payload(decode=True) or b""
    return {
        "@odata.type": "#microsoft.graph.fileAttachment",
        "name": part.get_filename() or "attachment",
        "contentType": part.get_content_type(),
        "contentId": str(part["content-id"] or "").strip("<>"),
        "isInline": part.get_content_disposition() == "inline",
        "contentBytes": base64.b64encode(content).decode(),
    }
