"""One message: what it says, to whom, where it stands and why, and everything that happened to it."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, flash, render_template
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration import messages
from rqmail.administration.access import Scope
from rqmail.administration.changes import Changes
from rqmail.administration.messages import Decision, MessageView
from rqmail.errors import ConflictError, NotFoundError
from rqmail.insight.standing import SenderStatus
from rqmail.models.message import MessageStatus
from rqmail.web.auth import require
from rqmail.web.context import application, changes
from rqmail.web.downloads import as_download
from rqmail.web.pages import act_words
from rqmail.web.pages.framed import framed
from rqmail.web.pages.language import say
from rqmail.web.pages.returning import action, back

blueprint = Blueprint("message", __name__, url_prefix="/messages/<message_id>")

_PAGE = "pages.message.show"

#: What a person may do to a message in each status.
MAY = {
    MessageStatus.SCHEDULED: ("send-now", "cancel"),
    MessageStatus.QUEUED: ("cancel",),
    MessageStatus.SENDING: (),
    MessageStatus.SENT: (),
    MessageStatus.ERROR: ("requeue",),
    MessageStatus.UNKNOWN: ("sent", "resend", "discard"),
    MessageStatus.CANCELLED: ("requeue",),
    MessageStatus.EXPIRED: ("requeue",),
}

_ACTS: dict[str, Callable[[Changes, str], MessageView]] = {
    "cancel": Changes.cancel_message,
    "requeue": Changes.requeue_message,
    "send-now": Changes.send_message_now,
    "sent": lambda made, message_id: made.resolve_message(message_id, Decision.SENT),
    "resend": lambda made, message_id: made.resolve_message(message_id, Decision.RESEND),
    "discard": lambda made, message_id: made.resolve_message(message_id, Decision.DISCARD),
}


@blueprint.app_template_filter("may")
def may(status: MessageStatus) -> tuple[str, ...]:
    """Answer what a person may do to a message in this status."""
    return MAY[status]


@blueprint.get("")
@require(Scope.READ)
def show(message_id: str) -> str:
    """Show one message in full."""
    app = application()
    message = messages.show(message_id)
    return render_template(
        "pages/message.html",
        message=message,
        events=list(reversed(message.events)),
        most_attempts=app.settings.max_attempts,
        standing=_standing(message),
        wait=messages.wait_of(message, app.waiting),
    )


@blueprint.get("/html")
@require(Scope.READ)
def html(message_id: str) -> Response:
    """Answer a mail's own HTML, for the frame it is shown in."""
    body = messages.show(message_id).html
    if body is None:
        raise NotFoundError("HTML of message", message_id)
    return framed(body)


@blueprint.get("/attachments/<number>")
@require(Scope.READ)
def download(message_id: str, number: str) -> Response:
    """Answer one file of the message, counted from 1, to be saved."""
    return as_download(messages.attachment(message_id, number))


@action(blueprint, "/<any('cancel', 'requeue', 'send-now', 'sent', 'resend', 'discard'):verb>", page=_PAGE)
@require(Scope.ADMIN)
def act(message_id: str, verb: str) -> AnyResponse:
    """Do what was asked, if the message is still in a state that allows it."""
    try:
        _ACTS[verb](changes(), message_id)
    except ConflictError:
        flash(say("Too late: the message has moved on meanwhile."), "error")
    else:
        flash(str(act_words.ACTS_DONE[verb]))
    return back(_PAGE, message_id=message_id)


def _standing(message: MessageView) -> SenderStatus | None:
    """Answer how the sender stands, where that is what a message waits for."""
    if message.status not in {MessageStatus.SCHEDULED, MessageStatus.QUEUED}:
        return None
    kind, _, key = message.sender.partition(":")
    overview = application().overview
    try:
        if kind == "mailbox":
            return overview.mailbox(key)
        return overview.tenant(key) if kind == "tenant" else None
    except NotFoundError:
        return None
