"""A mail in MIME form and its envelope become a draft: what its headers say, to whom its envelope says."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import check_address
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Draft
from rqmail.intake.eml.headers import Address
from rqmail.intake.eml.mail import File, Mail, read_mail
from rqmail.intake.headers import MAX_HEADERS, checked_headers, is_message_id
from rqmail.text.addresses import same_person

_NO_SUBJECT = "(no subject)"

#: Less than this of a mail that comes as a stream stays in memory.
_IN_MEMORY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Relayed:
    """A draft, whose files are open as long as its mail is, and the Message-ID it came with; empty without one."""

    draft: Draft
    message_id: str


@contextmanager
def relayed(
    source: BinaryIO, sender: str, recipients: Sequence[str] | None = None, *, address: str | None = None
) -> Iterator[Relayed]:
    """Read a mail of ``sender`` for ``recipients``, checked addresses; ``None`` for those that its headers name.

    ``address`` is that of the mailbox: where it is known, a From that is another one stays. Headers' To and Cc that
    are among the recipients stay as they are; everybody else is a Bcc. A mail that JSON cannot say (signed, encrypted,
    a meeting, a report) is kept and sent as it is. Raises ``InvalidInputError`` for what is no mail.
    """
    with _again_readable(source) as kept:
        begin = kept.tell()
        with read_mail(kept) as mail:
            draft = _draft(mail, sender, recipients, address)
            if mail.only_as_mime:
                kept.seek(begin)
                draft = _as_it_is(draft, kept)
            yield Relayed(draft, mail.message_id)


@contextmanager
def _again_readable(source: BinaryIO) -> Iterator[BinaryIO]:
    """Answer a mail that can be read a second time: on disk where it is large and comes as a stream."""
    if source.seekable():
        yield source
        return
    with SpooledTemporaryFile(_IN_MEMORY) as copy:
        shutil.copyfileobj(source, copy)
        copy.seek(0)
        yield cast(BinaryIO, copy)


def _as_it_is(draft: Draft, mail: BinaryIO) -> Draft:
    """Answer the draft of a mail that goes as it came; what was read of it is only shown."""
    shown = draft.html if draft.html is None or "cid:" not in draft.html.lower() else None
    text = draft.text if draft.text is not None or shown is not None else "\n"
    return replace(draft, raw=mail, attachments=(), text=text, html=shown, headers=())


def _draft(mail: Mail, sender: str, recipients: Sequence[str] | None, address: str | None) -> Draft:
    if recipients is None:
        to, cc, bcc = mail.to, mail.cc, mail.bcc
    else:
        wanted = {same_person(one) for one in recipients}
        to, cc = _among(mail.to, wanted), _among(mail.cc, wanted)
        named = {same_person(one.address) for one in (*to, *cc)}
        bcc = [Address(one) for one in recipients if same_person(one) not in named]
    return Draft(
        sender=sender,
        subject=mail.subject or _NO_SUBJECT,
        to=_lines(to),
        cc=_lines(cc),
        bcc=_lines(bcc),
        text=mail.text if mail.text or mail.html else "\n",
        html=mail.html,
        attachments=[_attachment(file) for file in mail.files],
        reply_to=_lines(_usable(mail.reply_to)),
        importance=mail.importance,
        read_receipt=mail.read_receipt,
        delivery_receipt=mail.delivery_receipt,
        headers=_carried(mail.headers),
        from_=_other_sender(mail, address),
        ignore_unsubscribed=mail.ignore_unsubscribed,
        message_id=mail.message_id if is_message_id(mail.message_id) else None,
        date=mail.date,
    )


def _carried(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leave out what no mail of ours may carry, and a name that comes again: no reason to refuse a mail."""
    carried: dict[str, tuple[str, str]] = {}
    for one in headers:
        try:
            [found] = checked_headers([one])
        except InvalidInputError:
            continue
        carried.setdefault(found[0].lower(), found)
    return list(carried.values())[:MAX_HEADERS]


def _other_sender(mail: Mail, address: str | None) -> str | None:
    """Answer whom the mail says it is from, where that is somebody else than the mailbox that sends it."""
    if mail.sender is None or address is None or same_person(mail.sender.address) == same_person(address):
        return None
    return next(iter(_lines(_usable([mail.sender]))), None)


def _usable(addresses: Iterable[Address]) -> Iterator[Address]:
    """Pass over what is no mail address: a printer writes its name there."""
    for one in addresses:
        with suppress(InvalidInputError):
            check_address(one.address, "from")
            yield one


def _among(addresses: Iterable[Address], wanted: set[str]) -> list[Address]:
    return [one for one in addresses if same_person(one.address) in wanted]


def _lines(addresses: Iterable[Address]) -> list[str]:
    return [_line(one) for one in addresses]


def _line(one: Address) -> str:
    if not one.name:
        return one.address
    name = one.name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}" <{one.address}>'


def _attachment(file: File) -> Attachment:
    return Attachment(
        file.name,
        file.content,  # type: ignore[arg-type]
        file.content_type,
        is_inline=file.content_id is not None,
        content_id=file.content_id,
    )
