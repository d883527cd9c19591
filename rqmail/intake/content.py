"""What a message carries beside its text, checked as a whole: files and pictures, headers, who it is from, its size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import parse_addresses
from rqmail.intake.attachments import MAX_FILE_BYTES, MAX_FILES, Attachment, Most, Reader
from rqmail.intake.headers import LIST_UNSUBSCRIBE, checked_headers, is_message_id
from rqmail.intake.pictures import check_pictures
from rqmail.intake.sender_rules import SenderRules
from rqmail.mailers.base import as_base64
from rqmail.mailers.graph.raw import MOST_WRITTEN, written_size
from rqmail.mailers.graph.size import LARGEST_REQUEST
from rqmail.models.content import AttachedFile, Extras, Importance, Person
from rqmail.models.message import NewRecipient, RecipientKind

MAX_REPLY_TO = 50

_SENDGRID = "this sender's mail leaves through SendGrid"
_SENDGRIDS_OWN = frozenset({"x-sg-id", "x-sg-eid"})

#: What Graph's JSON puts around a file, at most and without what it is called.
AROUND_A_FILE = 700


def checked_extras(
    *,
    reply_to: str | Sequence[str],
    importance: Importance | str,
    read_receipt: bool,
    delivery_receipt: bool,
    headers: object,
    unsubscribe_url: str | None,
    from_: str | None,
    ignore_unsubscribed: bool = False,
    unsubscribe: bool = False,
    message_id: str | None = None,
    date: datetime | None = None,
) -> Extras:
    """Answer the fields that few messages have; raises ``InvalidInputError`` naming the one that is wrong."""
    truths = {
        "readReceipt": read_receipt,
        "deliveryReceipt": delivery_receipt,
        "ignoreUnsubscribed": ignore_unsubscribed,
        "unsubscribe": unsubscribe,
    }
    for field, value in truths.items():
        if not isinstance(value, bool):
            raise InvalidInputError(field, value, "true or false")
    senders = _persons("from", from_ or "")
    if len(senders) > 1:
        raise InvalidInputError("from", from_, "one address")
    with_headers = checked_headers(headers, unsubscribe_url)
    if unsubscribe and any(name.lower() == LIST_UNSUBSCRIBE.lower() for name, _ in with_headers):
        raise InvalidInputError("unsubscribe", unsubscribe, "either this or an address or header of your own")
    if message_id is not None and not is_message_id(message_id):
        raise InvalidInputError(
            "messageId", message_id, "a Message-ID as <left@right>, at most 255 characters of ASCII"
        )
    if date is not None and (not isinstance(date, datetime) or date.tzinfo is None):
        raise InvalidInputError("date", date, "a datetime with its time zone")
    return Extras(
        reply_to=_persons("replyTo", reply_to),
        importance=_importance(importance),
        read_receipt=read_receipt,
        delivery_receipt=delivery_receipt,
        headers=with_headers,
        from_=senders[0] if senders else None,
        ignore_unsubscribed=ignore_unsubscribed,
        unsubscribe=unsubscribe,
        message_id=message_id,
        date=date,
    )


def checked_files(
    attachments: object, *, text: str | None, html: str | None, most_bytes: int, reader: Reader
) -> tuple[AttachedFile, ...]:
    """Answer the files of a message, read once for size and hash; raises ``InvalidInputError``.

    ``most_bytes`` is what the whole message may have as it is sent, attachments as base64.
    """
    if isinstance(attachments, str | bytes) or not isinstance(attachments, Sequence):
        raise InvalidInputError("attachments", type(attachments).__name__, "a list of files")
    if len(attachments) > MAX_FILES:
        raise InvalidInputError("attachments", len(attachments), f"at most {MAX_FILES} files")
    left = most_bytes - sum(len(body.encode()) for body in (text, html) if body is not None)
    files = []
    for one in attachments:
        room = max(0, left // 4 * 3)
        whole = Most(room, f"the whole message may have {most_bytes:,} bytes as it is sent, files as base64")
        file = reader.read(one, min(whole, Most(), key=lambda most: most.size))
        left -= as_base64(file.size)
        files.append(file)
    check_pictures(html, files)
    return tuple(files)


def checked_raw(raw: object, attachments: object, rules: SenderRules, reader: Reader) -> tuple[AttachedFile, ...]:
    """Answer a mail in MIME form as the only file of its message; raises ``InvalidInputError``."""
    if not rules.through_graph:
        raise InvalidInputError("eml", "a mail to be sent as it is", "a sender that sends through Microsoft Graph")
    if attachments:
        raise InvalidInputError("attachments", "files", "none beside a mail that is sent as it is")
    file = reader.read(Attachment("mail.eml", raw, "message/rfc822"))  # type: ignore[arg-type]
    if file.size > rules.max_message_bytes:
        raise InvalidInputError(
            "eml", f"{file.size:,} bytes", f"at most {rules.max_message_bytes:,} bytes, as any mail of this sender"
        )
    if file.size > MOST_WRITTEN or written_size(_content_of(file)) > MOST_WRITTEN:
        raise InvalidInputError(
            "eml",
            f"{file.size:,} bytes",
            f"at most {MOST_WRITTEN:,} bytes, lines ended by CRLF, of a mail that JSON cannot say (signed, encrypted,"
            f" a meeting, a report): Microsoft Graph takes it in one request of {LARGEST_REQUEST:,} bytes, as base64",
        )
    return (file,)


def _content_of(file: AttachedFile) -> bytes:
    """Read a small file that was just measured."""
    assert file.source is not None  # noqa: S101 - it has just been read
    with file.source() as opened:
        return opened.read()


def refuse_what_no_upload_takes(files: Sequence[AttachedFile]) -> None:
    """Raise ``InvalidInputError`` where files cannot come into a mail through Graph, not even one after another."""
    for one in files:
        # An upload in parts would lose what makes it a picture of the HTML.
        if one.content_id is not None and as_base64(one.size) + AROUND_A_FILE + 6 * len(one.name) > LARGEST_REQUEST:
            raise InvalidInputError(
                "attachments", one.name, f"an inline picture that fits one request to Graph, {LARGEST_REQUEST:,} bytes"
            )
    if (size := sum(one.size for one in files)) > MAX_FILE_BYTES:
        raise InvalidInputError(
            "attachments", f"{size:,} bytes", f"files of at most {MAX_FILE_BYTES:,} bytes together: Graph takes no more"
        )


def refuse_what_sendgrid_refuses(recipients: Sequence[NewRecipient], headers: Sequence[tuple[str, str]]) -> None:
    """Raise ``InvalidInputError`` for what SendGrid's ``mail/send`` takes in no mail."""
    if all(one.kind is RecipientKind.BCC for one in recipients):
        raise InvalidInputError("to", "", f"an address in to or cc too: {_SENDGRID}, which sends no mail to bcc alone")
    for name, _ in headers:
        if name.lower() in _SENDGRIDS_OWN:
            raise InvalidInputError("headers", name, f"no {name}: {_SENDGRID}, which writes it")


def _persons(field: str, lines: str | Sequence[str]) -> tuple[Person, ...]:
    lines = (lines,) if isinstance(lines, str) else lines
    if not isinstance(lines, Sequence) or not all(isinstance(line, str) for line in lines):
        raise InvalidInputError(field, lines, "mail addresses as text")
    found = [Person(one.address, one.name) for line in lines for one in parse_addresses(line, field)]
    if len(found) > MAX_REPLY_TO:
        raise InvalidInputError(field, len(found), f"at most {MAX_REPLY_TO} addresses")
    return tuple(found)


def _importance(value: Importance | str) -> Importance:
    try:
        return Importance(value.strip().lower())
    except (ValueError, AttributeError):
        raise InvalidInputError("importance", value, "low, normal or high") from None
