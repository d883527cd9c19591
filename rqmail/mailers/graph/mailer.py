"""Sends a mail from one mailbox through Microsoft Graph."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailRejectedError
from rqmail.mailers.base import Address, Mail, Receipt, wire_address
from rqmail.mailers.graph.errors import error_for_answer
from rqmail.mailers.graph.http import GraphHttp

#: The extended property that carries our id in the mailbox. Never change it: mails are found again by it.
ID_PROPERTY = "String {6f0d5c1e-9a43-4f0e-8d3b-52c7b1f4a9e6} Name rqmail-id"

#: The header that carries our id out of the mailbox.
ID_HEADER = "x-rqmail-id"

#: The most Graph takes in one write request.
LARGEST_REQUEST = 4 * 1024 * 1024

_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class MicrosoftGraphMailer:
    """Hands mails to Graph's ``sendMail`` as JSON.

    A JSON message has one body: with both an HTML and a text body the HTML goes out, and Exchange makes the text part
    from it. The MIME form could carry both but not :data:`ID_PROPERTY`, and finding a mail again is worth more.
    """

    def __init__(self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock = utc_now) -> None:
        self._http = http
        self._url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}/sendMail"
        self._clock = clock

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; 202 is success whatever else the answer says."""
        body = encode_message(mail)
        if len(body) > LARGEST_REQUEST:
            raise MailRejectedError(
                f"The mail is too large: {len(body):,} bytes as a request, Microsoft Graph takes {LARGEST_REQUEST:,}"
            )
        answer = self._http.request(
            "POST", self._url, {"Content-Type": "application/json"}, body, before_writing=mail.before_writing
        )
        if answer.status != 202:
            raise error_for_answer(answer.status, answer.headers, answer.body, self._clock())
        return Receipt(
            status=202,
            request_id=answer.headers.get("request-id"),
            client_request_id=answer.headers.get("client-request-id"),
        )


def encode_message(mail: Mail) -> bytes:
    """Write ``mail`` as a ``sendMail`` request; raises ``MailRejectedError`` for what Graph cannot carry."""
    message: dict[str, Any] = {
        "subject": mail.subject,
        "body": {"contentType": "html", "content": mail.html}
        if mail.html is not None
        else {"contentType": "text", "content": mail.text or ""},
        "toRecipients": _recipients(mail.to),
    }
    if mail.cc:
        message["ccRecipients"] = _recipients(mail.cc)
    if mail.bcc:
        message["bccRecipients"] = _recipients(mail.bcc)
    message["internetMessageHeaders"] = [{"name": ID_HEADER, "value": mail.id}, *_extra_headers(mail)]
    message["singleValueExtendedProperties"] = [{"id": ID_PROPERTY, "value": mail.id}]
    document = {"message": message, "saveToSentItems": True}
    # A lone surrogate cannot be written in UTF-8; a question mark in its place still delivers the mail.
    return _as_json(document).encode("utf-8", errors="replace")


def _recipients(addresses: tuple[Address, ...]) -> list[dict[str, dict[str, str]]]:
    return [
        {"emailAddress": {"address": wire_address(a.address)} | ({"name": a.name} if a.name else {})} for a in addresses
    ]


def _extra_headers(mail: Mail) -> list[dict[str, str]]:
    for name in mail.headers:
        if not name.lower().startswith("x-"):
            raise MailRejectedError(f"The header {name[:60]!r} cannot be sent: Microsoft Graph takes only x- headers")
    return [{"name": name, "value": value} for name, value in mail.headers.items() if name.lower() != ID_HEADER]
