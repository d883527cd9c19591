"""Messages are handed in, one or several at once, and a repeated request once."""

from __future__ import annotations

import hashlib
import json as jsonlib
from typing import Annotated, Any, Literal

from flask import Blueprint, request
from pydantic import ConfigDict, Discriminator, Field, RootModel, StringConstraints, Tag, model_validator

from rqmail.administration.access import Scope
from rqmail.errors import InvalidInputError
from rqmail.insight.jsonable import as_json
from rqmail.intake.draft import Checked, Draft
from rqmail.intake.idempotency import Repeatable
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Line, Moment, PriorityName, sender_named
from rqmail.web.context import application, may_send_from, who
from rqmail.web.errors import FieldsError, ForbiddenSenderError

blueprint = Blueprint("submitting", __name__, url_prefix="/messages")

#: Messages one request may hand in.
MAX_BATCH = 1000

#: One line of addresses (``a@x.nl; Jörg <j@y.de>``) or a list of such.
Addresses = Annotated[str, Field(max_length=100_000)] | Annotated[list[Line], Field(max_length=500)]
Body = Annotated[str, Field(max_length=3_000_000)]


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

    @model_validator(mode="after")
    def _one_sender(self) -> NewMail:
        if self.mailbox is not None and self.tenant is not None:
            raise ValueError("mailbox and tenant exclude each other")
        return self


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


class FoldedOf(ApiModel):
    """An address that a message (counted from 0) named more than once: where it was kept, where it was left out."""

    message: int
    address: str
    kept: Literal["to", "cc", "bcc"]
    left_out: Literal["to", "cc", "bcc"]


class Submitted(ApiModel):
    """The ids of the messages taken in, in the request's order; replayed when an earlier request had brought them.

    Everyone receives a message once: folded names the addresses that were named more than once in it.
    """

    ids: list[str]
    replayed: bool
    folded: list[FoldedOf]


@blueprint.post("")
@operation(Scope.SEND, "Messages", Submitted, 409, status=201)
def submit(json: Submission, headers: SubmissionHeaders) -> Any:
    """Hand in one message or a batch; all of it is taken in, or nothing."""
    app = application()
    batch = json.root.messages if isinstance(json.root, NewMails) else [json.root]
    repeatable = None
    if headers.idempotency_key is not None:
        repeatable = Repeatable(who(), headers.idempotency_key, _fingerprint())
        earlier = app.submission.earlier(repeatable)
        if earlier is not None:  # also when a moment that it named has passed since
            return {"ids": list(earlier.ids), "replayed": True, "folded": []}, 201
    checked = _checked(batch, many=isinstance(json.root, NewMails))
    submitted = app.submission.submit([one.message for one in checked], repeatable, by=who())
    folded = [as_json(fold) | {"message": number} for number, one in enumerate(checked) for fold in one.folded]
    return {"ids": list(submitted.ids), "replayed": submitted.replayed, "folded": folded}, 201


def _fingerprint() -> str:
    canonical = jsonlib.dumps(request.get_json(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _checked(batch: list[NewMail], *, many: bool) -> list[Checked]:
    wrong: dict[str, str] = {}
    checks = application().intake.checks()
    checked = []
    for number, mail in enumerate(batch):
        sender = sender_named(mail.mailbox, mail.tenant) or "default"
        if not may_send_from(sender):
            raise ForbiddenSenderError
        try:
            checked.append(checks.check(_draft(mail, sender)))
        except InvalidInputError as error:
            field = f"messages[{number}].{error.field}" if many else error.field
            wrong[field] = error.allowed
    if wrong:
        raise FieldsError(wrong)
    return checked


def _draft(mail: NewMail, sender: str) -> Draft:
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
    )
