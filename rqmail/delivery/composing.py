"""A message's row becomes the mail that a mailer is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from rqmail.campaigns.rendering import LINK_STAND_IN
from rqmail.content_store import ContentStore
from rqmail.mailers.base import Address, Mail, MailFile, Permit
from rqmail.mailers.graph.message import internet_message_id
from rqmail.models.contents import Contents
from rqmail.models.ledger import attempt_name
from rqmail.models.message import Message, RecipientKind


def with_links(mail: Mail, headers: Mapping[str, str]) -> Mail:
    """Answer the mail with headers by which its only recipient unsubscribes, and their link where its texts name it."""
    link = headers.get("List-Unsubscribe", "").strip("<>")
    text, html = (None if body is None else body.replace(LINK_STAND_IN, link) for body in (mail.text, mail.html))
    return replace(mail, text=text, html=html, headers={**mail.headers, **headers})


class UnreadableError(Exception):
    """The row cannot be made into a mail."""


def composed(message: Message, contents: Contents | None, permit: Permit, store: ContentStore) -> Mail:
    """Answer the mail; its files are opened when they are sent. Raises ``UnreadableError`` for half a message."""
    if contents is not None and contents.problem is not None:
        raise (RuntimeError if contents.by_us else UnreadableError)(contents.problem)
    if contents is None or not contents.recipients:
        raise UnreadableError("The message has no content or no recipients; it was changed by hand or half deleted.")
    by_kind: dict[RecipientKind, list[Address]] = {kind: [] for kind in RecipientKind}
    for recipient in contents.recipients:
        by_kind[recipient.kind].append(Address(recipient.address, recipient.name))
    extras = contents.extras
    files = tuple(
        MailFile(
            one.name,
            one.content_type,
            one.size,
            one.sha256,
            partial(store.open, one.sha256),
            one.is_inline,
            one.content_id,
        )
        for one in contents.attachments
    )
    if extras.raw and len(files) != 1:
        raise UnreadableError("The mail in MIME form that was handed in is not there; the message was changed by hand.")
    marked = message.marked is not False
    return Mail(
        id=message.id,
        subject=contents.subject or message.subject,
        to=tuple(by_kind[RecipientKind.TO]),
        cc=tuple(by_kind[RecipientKind.CC]),
        bcc=tuple(by_kind[RecipientKind.BCC]),
        text=contents.text,
        html=contents.html,
        headers=dict(extras.headers),
        files=() if extras.raw else files,
        raw=files[0] if extras.raw else None,
        reply_to=tuple(Address(one.address, one.name) for one in extras.reply_to),
        importance=extras.importance.value,
        read_receipt=extras.read_receipt,
        delivery_receipt=extras.delivery_receipt,
        from_=None if extras.from_ is None else Address(extras.from_.address, extras.from_.name),
        copied=message.copied is not False,
        internet_message_id=extras.message_id if marked else internet_message_id(message.id, message.mailbox_key or ""),
        date=extras.date,
        marked=marked,
        permit=permit,
        attempt=attempt_name(message.id, message.claim),
        tried_before=message.tried_before,
    )
