"""A mail as programs write it: its fields, its files, and the draft that it becomes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from spectree.model_adapter.pydantic_adapter import BaseFile
from werkzeug.datastructures import FileStorage

from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import MAX_FILES, Attachment
from rqmail.intake.draft import Draft
from rqmail.web.api.bodies import parsed
from rqmail.web.api.schema import ApiModel, Line, Moment, PriorityName

#: The part of a form that says everything but the bytes of the files.
MESSAGE = "message"

#: One line of addresses (``a@x.nl; Jörg <j@y.de>``) or a list of such.
Addresses = Annotated[str, Field(max_length=100_000)] | Annotated[list[Line], Field(max_length=500)]
Body = Annotated[str, Field(max_length=3_000_000)]

#: What clients say of a file whose type they do not know.
_SAYS_NOTHING = frozenset({"", "application/octet-stream"})


def _base64(value: object) -> object:
    if isinstance(value, str):
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise ValueError("the bytes of the file as base64")  # what pydantic reports


class NewAttachment(ApiModel):
    """A file of a message; in a form, one without contentBytes has the bytes of the part with its name.

    isInline and contentId go together: a picture that the HTML shows by <img src="cid:contentId">.
    """

    name: Annotated[Line, Field(min_length=1)]
    content_type: Annotated[Line | None, Field(description="Left out, it is found out")] = None
    content_bytes: Annotated[
        Annotated[bytes, BeforeValidator(_base64, json_schema_input_type=str)] | None,
        Field(repr=False, description="base64"),
    ] = None
    is_inline: Annotated[bool, Field(strict=True)] = False
    content_id: Line | None = None


class NewHeader(ApiModel):
    """A header of a mail."""

    name: Line
    value: Line


Headers = Annotated[dict[str, Line], Field(max_length=50)] | Annotated[list[NewHeader], Field(max_length=50)]


class NewMail(ApiModel):
    """A message to send, from a system mailbox, a tenant, or (with neither) the default sender."""

    mailbox: Line | None = None
    tenant: Line | None = None
    to: Addresses = ""
    cc: Addresses = ""
    bcc: Addresses = ""
    subject: Line
    text: Body | None = None
    html: Body | None = None
    at: Annotated[Moment | None, Field(description="When it is to go out; left out for at once")] = None
    expires: Annotated[Moment | None, Field(description="When it is no longer worth sending")] = None
    priority: PriorityName = "normal"
    attachments: Annotated[list[NewAttachment], Field(max_length=MAX_FILES)] = []  # noqa: RUF012 - pydantic copies it
    reply_to: Addresses = ""
    importance: Annotated[
        Literal["low", "normal", "high"], Field(description="How mail programs mark it; priority is when it goes out")
    ] = "normal"
    read_receipt: Annotated[bool, Field(strict=True)] = False
    delivery_receipt: Annotated[bool, Field(strict=True)] = False
    headers: Annotated[
        Headers, Field(description='{"X-Order": "4711"}, or a list of {"name": …, "value": …}; each name once')
    ] = {}  # noqa: RUF012 - pydantic copies it
    unsubscribe_url: Annotated[
        Line | None, Field(description="List-Unsubscribe with one click (RFC 8058): an https address")
    ] = None
    ignore_unsubscribed: Annotated[
        bool,
        Field(strict=True, description="Also to who unsubscribed: what they need, as an invoice; never past a bounce"),
    ] = False
    unsubscribe: Annotated[
        bool,
        Field(strict=True, description="A link for its one recipient to unsubscribe by, and one click (RFC 8058)"),
    ] = False
    from_: Annotated[
        Line | None, Field(alias="from", description="Whom it is from, if not the mailbox; Exchange must allow it")
    ] = None

    @model_validator(mode="after")
    def _one_sender(self) -> NewMail:
        if self.mailbox is not None and self.tenant is not None:
            raise ValueError("mailbox and tenant exclude each other")
        return self


def _message(value: object) -> object:
    """Read the part that holds JSON, whether a client sends it as a field or as a file."""
    if isinstance(value, FileStorage):
        return parsed(value.stream.read(), "part message")
    if isinstance(value, str):
        return parsed(value.encode(), "part message")
    raise ValueError("one part with the JSON of the message")


def _files(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _only_files(value: list[object]) -> list[object]:
    if not all(isinstance(one, FileStorage) for one in value):
        raise ValueError("files, each sent as a part with its filename")
    return value


class MailForm(ApiModel):
    """A message with files, as multipart/form-data: the part message is JSON, every part with a filename is attached.

    Parts may have any name. An entry of the message's attachments without contentBytes says more of the part that has
    its name, as filename or as the name of the part: that it is inline, what it is called, its type.
    """

    message: Annotated[NewMail, BeforeValidator(_message)]
    attachments: Annotated[list[BaseFile], BeforeValidator(_files), AfterValidator(_only_files)] = []  # noqa: RUF012

    @model_validator(mode="before")
    @classmethod
    def _any_name(cls, parts: Any) -> Any:
        """Take files under whatever name; what is neither a file nor known stays, to be refused by its name."""
        if not isinstance(parts, Mapping):
            return parts
        return {
            name: part
            for name, part in parts.items()
            if name in {MESSAGE, "attachments"} or not all(isinstance(one, FileStorage) for one in _listed(part))
        }


def draft_of(mail: NewMail, sender: str, parts: Iterable[tuple[str, FileStorage]] = ()) -> Draft:
    """Answer the draft of a mail with the file parts that came beside it, by the name of the part."""
    return Draft(
        sender=sender,
        subject=mail.subject,
        to=mail.to,
        cc=mail.cc,
        bcc=mail.bcc,
        text=mail.text,
        html=mail.html,
        at=mail.at,
        expires=mail.expires,
        priority=mail.priority,
        attachments=_attachments(mail.attachments, list(parts)),
        reply_to=mail.reply_to,
        importance=mail.importance,
        read_receipt=mail.read_receipt,
        delivery_receipt=mail.delivery_receipt,
        headers=_pairs(mail.headers),
        unsubscribe_url=mail.unsubscribe_url,
        from_=mail.from_,
        ignore_unsubscribed=mail.ignore_unsubscribed,
        unsubscribe=mail.unsubscribe,
    )


def _attachments(described: Iterable[NewAttachment], parts: list[tuple[str, FileStorage]]) -> list[Attachment]:
    files = []
    for one in described:
        part = None
        if one.content_bytes is None:
            part = next((part for part in parts if one.name in {part[0], part[1].filename}), None)
            if part is None:
                raise InvalidInputError("attachments", one.name, "contentBytes, or in a form a part of this name")
            parts.remove(part)
        content: Any = one.content_bytes if part is None else part[1].stream
        content_type = one.content_type or (None if part is None else _type(part[1]))
        files.append(Attachment(one.name, content, content_type, is_inline=one.is_inline, content_id=one.content_id))
    files += [Attachment(part.filename or "", part.stream, _type(part)) for _, part in parts]  # type: ignore[arg-type]
    return files


def _type(part: FileStorage) -> str | None:
    return None if part.mimetype in _SAYS_NOTHING else part.mimetype


def _pairs(headers: dict[str, str] | list[NewHeader]) -> list[tuple[str, str]]:
    return list(headers.items()) if isinstance(headers, dict) else [(one.name, one.value) for one in headers]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
