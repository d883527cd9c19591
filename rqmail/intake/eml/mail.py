"""What a mail in MIME form says: who, about what, both bodies, its files, and whether that is all of it."""

from __future__ import annotations

import html
import mimetypes
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, BinaryIO

from rqmail.errors import InvalidInputError
from rqmail.intake.eml.headers import Address, Headers, decoded_as
from rqmail.intake.eml.parts import Part, read_parts

#: Bodies are text that people read; more than this is none.
_MAX_TEXT_BYTES = 20_000_000

#: Headers that the draft has fields for, that belong to the way a mail came, or that are made anew when it leaves.
_NOT_CARRIED = frozenset({
    "apparently-to", "arc-authentication-results", "arc-message-signature", "arc-seal", "authentication-results", "bcc",
    "cc", "date", "delivered-to", "disposition-notification-to", "dkim-signature", "domainkey-signature", "from",
    "importance", "message-id", "mime-version", "priority", "received", "received-spf", "reply-to",
    "return-path", "return-receipt-to", "sender", "subject", "to", "x-delivered-to", "x-envelope-from", "x-envelope-to",
    "x-msmail-priority", "x-original-to", "x-priority",
})  # fmt: skip
_NOT_CARRIED_PREFIXES = ("content-", "resent-", "x-rqmail-")

#: Parts that JSON cannot say: a signature breaks, a meeting becomes a file, a report a mail.
_ONLY_AS_MIME = {
    "multipart/signed": "it is signed",
    "multipart/encrypted": "it is encrypted",
    "multipart/report": "it is a report",
    "application/pkcs7-mime": "it is signed or encrypted",
    "application/x-pkcs7-mime": "it is signed or encrypted",
    "text/calendar": "it has a calendar part",
}

_BY_URGENCY = {"high": "high", "urgent": "high", "1": "high", "2": "high", "low": "low", "non-urgent": "low",
               "4": "low", "5": "low"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    """A file of a mail; ``content`` is read from its beginning, ``content_id`` is set where the HTML shows it."""

    name: str
    content_type: str
    size: int
    content: IO[bytes]
    content_id: str | None = None


@dataclass(slots=True)
class Mail:
    """A mail as it was read; its addresses and names have not been checked.

    ``only_as_mime`` says why nothing but the mail itself can be sent, and is empty for most. With
    ``ignore_unsubscribed`` it asks, in a header that goes no further, to go to who unsubscribed, too: SMTP has no other
    place for that.
    """

    subject: str
    sender: Address | None
    to: list[Address]
    cc: list[Address]
    bcc: list[Address]
    reply_to: list[Address]
    message_id: str
    date: datetime | None
    importance: str
    read_receipt: bool
    delivery_receipt: bool
    headers: list[tuple[str, str]]
    text: str | None = None
    html: str | None = None
    files: list[File] = field(default_factory=list)
    only_as_mime: str = ""
    ignore_unsubscribed: bool = False


@contextmanager
def read_mail(source: BinaryIO) -> Iterator[Mail]:
    """Read a mail from its first byte on; raises ``InvalidInputError`` for what is none.

    Memory does not grow with its files: they are on disk where they are large, and open as long as the mail is.
    """
    with ExitStack() as open_files:
        yield _read(read_parts(source, open_files))


def _read(root: Part) -> Mail:
    if not any(name in root.headers for name in ("from", "to", "subject", "date", "message-id", "cc", "bcc")):
        raise InvalidInputError("eml", "no header of a mail", "a mail: headers, an empty line, its content")
    mail = _addressed(root.headers)
    mail.only_as_mime = next((why for part in _all(root) if (why := _reason(part.headers))), "")
    bodies: list[_Body] = []
    _sort(root, bodies, mail.files)
    mail.text, mail.html = _joined(bodies)
    shown = mail.html or ""
    mail.files = [_as_shown(file, shown) for file in mail.files]
    return mail


@dataclass(slots=True)
class _Body:
    text: str | None = None
    html: str | None = None


def _addressed(headers: Headers) -> Mail:
    senders = headers.addresses("from") or headers.addresses("sender")
    return Mail(
        subject=headers.text("subject"),
        sender=senders[0] if senders else None,
        to=headers.addresses("to"),
        cc=headers.addresses("cc"),
        bcc=headers.addresses("bcc"),
        reply_to=headers.addresses("reply-to"),
        message_id=headers.text("message-id"),
        date=_moment(headers.text("date")),
        importance=_importance(headers),
        read_receipt="disposition-notification-to" in headers,
        delivery_receipt="return-receipt-to" in headers,
        ignore_unsubscribed=headers.text("x-rqmail-ignore-unsubscribed").strip().lower() == "yes",
        headers=[(name, value) for name, value in headers.items(_is_carried) if value],
    )


def _is_carried(name: str) -> bool:
    return name not in _NOT_CARRIED and not name.startswith(_NOT_CARRIED_PREFIXES)


def _importance(headers: Headers) -> str:
    for name in ("importance", "x-priority", "priority", "x-msmail-priority"):
        word = headers.text(name).lower().split(" ")[0].strip("()")
        if word in _BY_URGENCY:
            return _BY_URGENCY[word]
    return "normal"


def _moment(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _reason(headers: Headers) -> str:
    if headers.content_type == "text/calendar" and headers.is_attachment:
        return ""
    return _ONLY_AS_MIME.get(headers.content_type, "")


def _all(part: Part) -> Iterator[Part]:
    yield part
    for inner in part.parts or ():
        yield from _all(inner)


def _sort(part: Part, bodies: list[_Body], files: list[File]) -> None:
    """Tell bodies from files: of alternatives the last of each kind, of related parts the first is the body."""
    kind = part.headers.content_type
    if part.parts is None:
        if _is_body(part):
            bodies.append(_body(part))
        elif part.size or part.headers.filename or part.headers.is_attachment:
            files.append(_file(part, len(files) + 1))
    elif kind == "multipart/alternative":
        choices: list[_Body] = []
        for inner in part.parts:
            _sort(inner, choices, files)
        bodies.append(
            _Body(
                next((one.text for one in reversed(choices) if one.text is not None), None),
                next((one.html for one in reversed(choices) if one.html is not None), None),
            )
        )
    else:
        for inner in part.parts:
            _sort(inner, bodies, files)


def _is_body(part: Part) -> bool:
    return (
        part.headers.content_type in {"text/plain", "text/html"}
        and not part.headers.is_attachment
        and not part.headers.filename
    )


def _body(part: Part) -> _Body:
    if part.size > _MAX_TEXT_BYTES:
        raise InvalidInputError("eml", f"{part.size:,} bytes of text", f"at most {_MAX_TEXT_BYTES:,} that are no file")
    text = decoded_as(part.content.read(), part.headers.parameter("charset")).replace("\r\n", "\n").replace("\0", "")
    return _Body(html=text) if part.headers.content_type == "text/html" else _Body(text)


def _file(part: Part, number: int) -> File:
    headers = part.headers
    return File(_name(part, number), headers.content_type, part.size, part.content, headers.content_id or None)


def _name(part: Part, number: int) -> str:
    """Answer the file's own name without a path, else one that tells what it is."""
    name = re.split(r"[/\\]", part.headers.filename)[-1].strip().strip(".") if part.headers.filename else ""
    if name:
        return name[:255]
    if part.headers.content_type == "message/rfc822":
        inner = Headers(part.content.read(64 * 1024).partition(b"\n\r\n")[0].partition(b"\n\n")[0])
        part.content.seek(0)
        return (re.sub(r'[/\\:*?"<>|]', "_", inner.text("subject"))[:100] or f"message-{number}") + ".eml"
    return f"file-{number}{mimetypes.guess_extension(part.headers.content_type) or '.bin'}"


def _joined(bodies: list[_Body]) -> tuple[str | None, str | None]:
    """Put bodies that follow each other together: text before and after a file is one text for its reader."""
    texts = [one.text for one in bodies if one.text is not None]
    text = "\n".join(texts) if texts else None
    if not any(one.html is not None for one in bodies):
        return text, None
    return text, "\n".join(one.html if one.html is not None else _as_html(one.text or "") for one in bodies)


def _as_html(text: str) -> str:
    return f'<div style="white-space: pre-wrap">{html.escape(text)}</div>' if text.strip() else ""


def _as_shown(file: File, shown: str) -> File:
    """Answer the file as an inline one only where the HTML refers to it: elsewhere nobody would see it."""
    if file.content_id and f"cid:{file.content_id}" in shown:
        return file
    return File(file.name, file.content_type, file.size, file.content)
