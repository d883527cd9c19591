"""Messages are found and shown, and a person decides what becomes of them."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from flask import Blueprint
from pydantic import ConfigDict, Field, model_validator

from rqmail.administration import messages
from rqmail.administration.access import Scope
from rqmail.administration.messages import BulkActionName, Decision, Filter, MessageView
from rqmail.errors import NotFoundError
from rqmail.insight.jsonable import as_json
from rqmail.models.message import MessageStatus, Priority
from rqmail.web.api.document import operation
from rqmail.web.api.paging import page
from rqmail.web.api.schema import ApiModel, Line, Moment, Paging, PriorityName, sender_named
from rqmail.web.auth import keeps_to_mailboxes
from rqmail.web.context import application, changes, may_send_from
from rqmail.web.downloads import as_download
from rqmail.web.errors import ForbiddenSenderError

blueprint = Blueprint("messages", __name__, url_prefix="/messages")

_TAG = "Messages"


# --- finding -------------------------------------------------------------------------------------------------------


class MessageInList(ApiModel):
    """One message in a list; firstRecipient is the address of the first of its recipientCount recipients."""

    id: str
    sender: str
    status: MessageStatus
    priority: PriorityName
    subject: str
    first_recipient: str | None
    recipient_count: int
    created_on: datetime
    requested_on: datetime
    scheduled_on: datetime
    expires_on: datetime | None
    attempted_on: datetime | None
    sent_on: datetime | None
    attempts: int
    deferrals: int
    waiting_for: str | None
    last_error: str | None


class DeliveryOf(ApiModel):
    """What Exchange's message trace says of a mail at one recipient: pending may still change.

    receivedOn is when Exchange took it, notedOn when this was read. It is probable where several mails of ours to that
    recipient are alike. expanded went on to the members of a list.
    """

    address: str
    status: Literal["pending", "delivered", "expanded", "failed", "quarantined", "spam"]
    received_on: datetime
    noted_on: datetime
    probable: bool


class RecipientOf(ApiModel):
    """One recipient; delivery is null where the message trace is not read, or tells nothing of it."""

    kind: Literal["to", "cc", "bcc"]
    address: str
    name: str
    delivery: DeliveryOf | None


class ResultOf(ApiModel):
    """What became of one recipient: suppressed (code is why, nothing was sent to it) or bounced (code is the status).

    A bounce is probable where its report was matched by address, time and subject alone.
    """

    address: str
    result: Literal["suppressed", "bounced"]
    code: str | None
    detail: str | None
    at: datetime
    probable: bool


class AttachmentOf(ApiModel):
    """One file of a message; its bytes are at /messages/ID/attachments/NUMBER."""

    number: int
    name: str
    content_type: str
    size: int
    sha256: str
    is_inline: bool
    content_id: str | None


class PersonOf(ApiModel):
    """An address that is no recipient, with the name shown beside it."""

    address: str
    name: str


class HeaderOf(ApiModel):
    """One header that was asked for."""

    name: str
    value: str


class AttemptOf(ApiModel):
    """One call to a provider and how it ended, with what its support asks for."""

    model_config = ConfigDict(extra="allow")

    at: str
    outcome: str
    duration_ms: int


class HappeningOf(ApiModel):
    """One thing that happened to a message, and by whom, where it was not done by itself; a wait tells for what."""

    at: datetime
    what: str
    by: str | None
    detail: str | None
    waiting_for: str | None
    seconds: float | None
    attempt: AttemptOf | None


class MessageInFull(MessageInList):
    """One message with its content, its recipients, every attempt, and all that happened to it, oldest first.

    from is null where it is from the mailbox itself; unsubscribeUrl is what one click unsubscribes at, told where the
    headers say so; with unsubscribe a link of its recipient's own is added when it is sent.
    """

    mailbox_key: str | None
    recipients: list[RecipientOf]
    results: list[ResultOf]
    text: str | None
    html: str | None
    attachments: list[AttachmentOf]
    reply_to: list[PersonOf]
    importance: Literal["low", "normal", "high"]
    read_receipt: bool
    delivery_receipt: bool
    headers: list[HeaderOf]
    unsubscribe_url: str | None
    unsubscribe: bool
    ignore_unsubscribed: bool
    from_: Annotated[PersonOf | None, Field(alias="from")]
    history: list[AttemptOf]
    events: list[HappeningOf]


class MessageAndWait(MessageInFull):
    """One message in full, and why it waits while it is SCHEDULED: derived now, from its place in line and the budget.

    waitsFor is ``time``, ``minute``, ``day``, ``line``, ``paused``, ``nobody``, ``redis``, ``mailbox``, ``too-large``,
    ``dispatch``, or why it was put off; before is how many messages go before it, 10000 when there are more;
    expectedOn is null when it cannot be told.
    """

    waits_for: str | None
    expected_on: datetime | None
    before: int | None
    waits_because: str | None


class MessagePage(ApiModel):
    """Messages, newest first; nextCursor is null on the last page."""

    messages: list[MessageInList]
    next_cursor: str | None


class WhichMessages(ApiModel):
    """Which messages: every criterion given must hold. ``from`` and ``to`` are when they were handed in."""

    q: Annotated[
        Line | None,
        Field(
            description="As typed into a search box: an address or part of one, a domain, a recipient's name,"
            " a part of the subject, a message id, or a provider's request-id"
        ),
    ] = None
    status: MessageStatus | None = None
    mailbox: Line | None = None
    tenant: Line | None = None
    recipient: Annotated[Line | None, Field(description="A whole address")] = None
    subject: Annotated[Line | None, Field(description="A part of the subject")] = None
    priority: PriorityName | None = None
    import_id: Annotated[
        Line | None, Field(alias="import", description="The id of the import the messages came with")
    ] = None
    created_from: Annotated[Moment | None, Field(alias="from")] = None
    created_to: Annotated[Moment | None, Field(alias="to")] = None

    @model_validator(mode="after")
    def _one_sender(self) -> WhichMessages:
        if self.mailbox is not None and self.tenant is not None:
            raise ValueError("mailbox and tenant exclude each other")
        return self


class MessageQuery(WhichMessages, Paging):
    """Which messages, and which part of the list."""


@blueprint.get("")
@keeps_to_mailboxes
@operation(Scope.READ, _TAG, MessagePage)
def list_messages(query: MessageQuery) -> Any:
    """List messages, newest first; whose token is bound to mailboxes names one of them."""
    wanted = _filter(query)
    if not may_send_from(wanted.sender or ""):
        raise ForbiddenSenderError
    found = messages.find(wanted, limit=query.limit + 1, after=query.cursor)
    return page("messages", as_json(found), query.limit)


@blueprint.get("/<message_id>")
@keeps_to_mailboxes
@operation(Scope.READ, _TAG, MessageAndWait, 404)
def show_message(message_id: str) -> Any:
    """Show one message in full: where it stands, and what happened to it so far."""
    view = _reached(message_id)
    return as_json(view) | as_json(messages.wait_of(view, application().waiting))


@blueprint.get("/<message_id>/attachments/<number>")
@keeps_to_mailboxes
@operation(Scope.READ, _TAG, None, 404)
def download(message_id: str, number: str) -> Any:
    """Answer the bytes of one file of a message, counted from 1, to be saved and never shown by a browser."""
    _reached(message_id)
    answer = as_download(messages.attachment(message_id, number))
    return answer.response, HTTPStatus.OK, answer.headers


def _reached(message_id: str) -> MessageView:
    """Answer a message; one that the token does not reach is not found."""
    view = messages.show(message_id)
    if not may_send_from(view.sender):
        raise NotFoundError("message", message_id)
    return view


def _filter(which: WhichMessages, ids: tuple[str, ...] | None = None) -> Filter:
    return Filter(
        status=which.status,
        sender=sender_named(which.mailbox, which.tenant),
        recipient=which.recipient,
        subject=which.subject,
        priority=None if which.priority is None else Priority[which.priority.upper()],
        created_from=which.created_from,
        created_to=which.created_to,
        ids=ids,
        import_id=which.import_id,
        search=which.q,
    )


# --- acting --------------------------------------------------------------------------------------------------------


class Resolution(ApiModel):
    """What a person says about a message of which it is unknown whether it was sent."""

    decision: Decision


class BulkFilter(WhichMessages):
    """Which messages an action is for; at least one criterion."""

    ids: Annotated[list[Line], Field(min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def _something(self) -> BulkFilter:
        if not any(getattr(self, name) is not None for name in self.model_fields_set):
            raise ValueError("at least one criterion is needed")
        return self


class BulkAction(ApiModel):
    """An action on every message that matches and is in a state that allows it; with dryRun only counted."""

    action: BulkActionName
    filter: BulkFilter
    dry_run: Annotated[bool, Field(strict=True)] = False


class BulkResult(ApiModel):
    """How many messages match the filter, and how many of them the action moved (or, with dryRun, would move)."""

    matched: int
    affected: int
    dry_run: bool


@blueprint.post("/<message_id>/cancel")
@operation(Scope.ADMIN, _TAG, MessageInFull, 404, 409)
def cancel(message_id: str) -> Any:
    """Cancel a message that has not begun, or discard one that is UNKNOWN."""
    return as_json(changes().cancel_message(message_id))


@blueprint.post("/<message_id>/requeue")
@operation(Scope.ADMIN, _TAG, MessageInFull, 404, 409)
def requeue(message_id: str) -> Any:
    """Send again, from the first attempt on, a message that ended in ERROR, CANCELLED or EXPIRED."""
    return as_json(changes().requeue_message(message_id))


@blueprint.post("/<message_id>/send-now")
@operation(Scope.ADMIN, _TAG, MessageInFull, 404, 409)
def send_now(message_id: str) -> Any:
    """Make a waiting message due at once; the budget still holds."""
    return as_json(changes().send_message_now(message_id))


@blueprint.post("/<message_id>/resolve")
@operation(Scope.ADMIN, _TAG, MessageInFull, 404, 409)
def resolve(message_id: str, json: Resolution) -> Any:
    """Decide about an UNKNOWN message: it was sent, it is to be sent again, or it is discarded."""
    return as_json(changes().resolve_message(message_id, json.decision))


@blueprint.post("/bulk")
@operation(Scope.ADMIN, _TAG, BulkResult)
def act_on_all(json: BulkAction) -> Any:
    """Do the same to every message that matches, or count them first with dryRun."""
    wanted = _filter(json.filter, None if json.filter.ids is None else tuple(json.filter.ids))
    matched = messages.count(wanted)
    if json.dry_run:
        affected = changes().count_bulk(json.action, wanted)
    else:
        affected = changes().bulk(json.action, wanted, json.filter.model_dump(mode="json", exclude_unset=True))
    return {"matched": matched, "affected": affected, "dryRun": json.dry_run}
