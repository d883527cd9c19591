"""Messages are handed in, one or several at once, and a repeated request once."""

from __future__ import annotations

import hashlib
import json as jsonlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, Literal, cast

from flask import Blueprint, request
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    StringConstraints,
    Tag,
    model_validator,
)
from werkzeug.datastructures import FileStorage

from rqmail.administration.access import Scope
from rqmail.errors import InvalidInputError
from rqmail.insight.jsonable import as_json
from rqmail.intake.addresses import parse_addresses
from rqmail.intake.draft import Checked, Draft
from rqmail.intake.idempotency import Repeatable
from rqmail.intake.relayed import relayed
from rqmail.intake.senders import may_write_as
from rqmail.web.api.document import operation
from rqmail.web.api.mail import MESSAGE, MailForm, NewMail, draft_of
from rqmail.web.api.schema import ApiModel, Line, Moment, PriorityName, listed, sender_named
from rqmail.web.auth import keeps_to_mailboxes
from rqmail.web.context import application, may_send_from, who
from rqmail.web.errors import FieldsError, ForbiddenSenderError
from rqmail.web.uploads import FORM, MIME, takes_mail

blueprint = Blueprint("submitting", __name__, url_prefix="/messages")

#: Messages one request may hand in.
MAX_BATCH = 1000

#: Bytes of a mail in MIME form that stay in memory; the rest is on disk.
_IN_MEMORY = 256 * 1024


class NewMails(ApiModel):
    """Several messages at once: all are taken in, or none."""

    messages: Annotated[list[NewMail], Field(min_length=1, max_length=MAX_BATCH)]


def _kind(body: object) -> str:
    return "many messages" if isinstance(body, dict) and "messages" in body else "one message"


class Submission(
    RootModel[
        Annotated[
            Annotated[NewMail, Tag("one message")] | Annotated[NewMails, Tag("many messages")], Discriminator(_kind)
        ]
    ]
):
    """One message, or several under ``messages``."""


class SubmissionHeaders(ApiModel):
    """What makes a repeated request recognisable."""

    model_config = ConfigDict(alias_generator=None, extra="ignore")

    idempotency_key: Annotated[
        Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,255}$")] | None,
        Field(
            alias="Idempotency-Key",
            description="The same key with the same body is answered the same and sends nothing twice, for 24 hours",
        ),
    ] = None


class MimeQuery(ApiModel):
    """What is said beside a mail in MIME form (message/rfc822): whose it is, to whom it goes, when.

    Without ``to`` it goes to whom its headers name.
    """

    mailbox: Line | None = None
    tenant: Line | None = None
    to: Annotated[list[Line], BeforeValidator(listed), Field(max_length=500, description="Who receives it")] = []  # noqa: RUF012
    at: Moment | None = None
    expires: Moment | None = None
    priority: PriorityName = "normal"
    ignore_unsubscribed: Annotated[bool, Field(description="Also to who unsubscribed")] = False

    @model_validator(mode="after")
    def _one_sender(self) -> MimeQuery:
        if self.mailbox is not None and self.tenant is not None:
            raise ValueError("mailbox and tenant exclude each other")
        return self


class FoldedOf(ApiModel):
    """An address that a message (counted from 0) named more than once: where it was kept, where it was left out."""

    message: int
    address: str
    kept: Literal["to", "cc", "bcc"]
    left_out: Literal["to", "cc", "bcc"]


class NoticeOf(ApiModel):
    """Something about a message (counted from 0) that was taken in all the same, but that one should know."""

    message: int
    field: str
    text: str


class SuppressedOf(ApiModel):
    """A recipient of a message (counted from 0) who gets nothing: suppressed for this reason, since then."""

    message: int
    address: str
    reason: Literal["hard-bounce", "complaint", "manual", "import", "unsubscribe"]
    since: datetime


class Submitted(ApiModel):
    """The ids of the messages taken in, in the request's order; replayed when an earlier request had brought them.

    Everyone receives a message once: folded names the addresses that were named more than once in it; suppressed those
    that get nothing, and why. A message for nobody else is refused. What else one should know of a message, such as a
    file that Exchange keeps from its recipients, is told under notices.
    """

    ids: list[str]
    replayed: bool
    folded: list[FoldedOf]
    suppressed: list[SuppressedOf]
    notices: list[NoticeOf]


@dataclass(slots=True)
class _Request:
    """The drafts of a request, each with what stands before its fields' names; and what makes the request itself."""

    drafts: list[tuple[str, Draft]]
    fingerprint: Callable[[], str]


@blueprint.post("")
@keeps_to_mailboxes
@takes_mail
@operation(Scope.SEND, "Messages", Submitted, 409, status=201)
def submit(json: Submission, form: MailForm, query: MimeQuery, headers: SubmissionHeaders) -> Any:
    """Hand in one message or a batch as JSON, one with its files as a form, or one in MIME form: all of it, or nothing.

    A form and a mail in MIME form (Content-Type: message/rfc822, its sender and envelope in the query) may be as large
    as RQMAIL_MAX_MESSAGE_BYTES or the mailbox's own limit allows, JSON at most 40 MiB. Memory does not grow with files.
    """
    app = application()
    with ExitStack() as open_files:
        asked = _asked(json, form, query, open_files)
        repeatable = None
        if headers.idempotency_key is not None:
            repeatable = Repeatable(who(), headers.idempotency_key, asked.fingerprint())
            earlier = app.submission.earlier(repeatable)
            if earlier is not None:  # also when a moment that it named has passed since
                return {"ids": list(earlier.ids), "replayed": True, "folded": [], "suppressed": [], "notices": []}, 201
        checked = _checked(asked.drafts)
        submitted = app.submission.submit([one.message for one in checked], repeatable, by=who())
    folded = [as_json(fold) | {"message": number} for number, one in enumerate(checked) for fold in one.folded]
    notices = [{"message": number} | told.told() for number, one in enumerate(checked) for told in one.notices]
    left_out = [
        as_json(out) | {"message": number} for number, one in enumerate(checked) for out in one.message.left_out
    ]
    told = {"ids": list(submitted.ids), "replayed": submitted.replayed, "folded": folded, "suppressed": left_out}
    return told | {"notices": notices}, 201


def _asked(json: Submission, form: MailForm, query: MimeQuery, open_files: ExitStack) -> _Request:
    if request.mimetype == MIME:
        return _in_mime_form(query, open_files)
    if query.model_fields_set:
        only = "only for a mail in MIME form: elsewhere the body says it"
        raise FieldsError(dict.fromkeys(sorted(query.model_fields_set), only))
    if request.mimetype == FORM:
        mail = form.message
        parts = [(name, part) for name, part in request.files.items(multi=True) if name != MESSAGE]
        drafts = [_draft(mail, parts)]
        return _Request(drafts, lambda: _fingerprint_of_form(mail, parts))
    if isinstance(json.root, NewMails):
        many = [_draft(mail, before=f"messages[{number}].") for number, mail in enumerate(json.root.messages)]
        return _Request(many, _fingerprint)
    return _Request([_draft(json.root)], _fingerprint)


def _in_mime_form(query: MimeQuery, open_files: ExitStack) -> _Request:
    sender = _sender(query)
    digest = hashlib.sha256(query.model_dump_json(exclude_unset=True).encode())
    mail = open_files.enter_context(SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115 - closed with the request
    while piece := request.stream.read(_IN_MEMORY):
        digest.update(piece)
        mail.write(piece)
    mail.seek(0)
    recipients = [one.address for line in query.to for one in parse_addresses(line, "to")]
    found = open_files.enter_context(relayed(cast(BinaryIO, mail), sender, recipients or None))
    if not may_write_as(found.draft.from_, may_send_from):
        raise ForbiddenSenderError
    draft = replace(
        found.draft,
        at=query.at,
        expires=query.expires,
        priority=query.priority,
        ignore_unsubscribed=query.ignore_unsubscribed,
    )
    return _Request([("", draft)], digest.hexdigest)


def _draft(mail: NewMail, parts: Sequence[tuple[str, FileStorage]] = (), *, before: str = "") -> tuple[str, Draft]:
    try:
        draft = draft_of(mail, _sender(mail), parts)
    except InvalidInputError as error:
        raise FieldsError({before + error.field: _said(error)}) from None
    if not may_write_as(draft.from_, may_send_from):
        raise ForbiddenSenderError
    return before, draft


def _sender(mail: NewMail | MimeQuery) -> str:
    sender = sender_named(mail.mailbox, mail.tenant) or "default"
    if not may_send_from(sender):
        raise ForbiddenSenderError
    return sender


def _fingerprint() -> str:
    return str(_digest(request.get_json()).hexdigest())


def _fingerprint_of_form(mail: NewMail, parts: Sequence[tuple[str, FileStorage]]) -> str:
    digest = _digest(mail.model_dump(mode="json", exclude={"attachments": {"__all__": {"content_bytes"}}}))
    for one in mail.attachments:
        digest.update(hashlib.sha256(one.content_bytes or b"").digest())
    for name, part in parts:
        digest.update(f"{name}\n{part.filename}\n{part.mimetype}\n".encode(errors="replace"))
        digest.update(hashlib.file_digest(part.stream, "sha256").digest())  # type: ignore[arg-type]
        part.stream.seek(0)
    return str(digest.hexdigest())


def _digest(body: object) -> Any:
    digest = hashlib.sha256()
    for piece in jsonlib.JSONEncoder(sort_keys=True, separators=(",", ":")).iterencode(body):
        digest.update(piece.encode())
    return digest


def _checked(drafts: Iterable[tuple[str, Draft]]) -> list[Checked]:
    wrong: dict[str, str] = {}
    named = list(drafts)
    checked = []
    for (before, _), one in zip(
        named, application().intake.checks().check_all([draft for _, draft in named]), strict=True
    ):
        if isinstance(one, InvalidInputError):
            wrong[before + one.field] = _said(one)
        else:
            checked.append(one)
    if wrong:
        raise FieldsError(wrong)
    return checked


def _said(error: InvalidInputError) -> str:
    """Say which of several is wrong, too: a field alone does not tell which file or header."""
    if error.field in {"attachments", "headers"} and isinstance(error.value, str):
        return f"{error.value[:100]!r}: {error.allowed}"
    return error.allowed
