"""One mail, written by a person to see how it arrives: checked as every other, and shown as a message."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from flask import Blueprint, flash, redirect, render_template, request, url_for
from markupsafe import Markup
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration.access import Scope
from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Checked, Draft
from rqmail.intake.faults import checked_or_faults
from rqmail.intake.idempotency import Repeatable
from rqmail.intake.senders import may_write_as
from rqmail.models.content import Importance
from rqmail.text.scrubbing import scrubbed
from rqmail.web.auth import keeps_to_mailboxes, require
from rqmail.web.context import application, may_send_from, principal, who
from rqmail.web.errors import ForbiddenSenderError
from rqmail.web.pages import field_words, typed
from rqmail.web.pages.language import say
from rqmail.web.pages.noticing import tell_notices
from rqmail.web.uploads import takes_mail_form

blueprint = Blueprint("compose", __name__, url_prefix="/compose")

#: What browsers say of a file whose type they do not know.
_SAYS_NOTHING = frozenset({"", "application/octet-stream"})

_CHECKED = "yes"


@blueprint.get("")
@keeps_to_mailboxes
@require(Scope.SEND)
def compose() -> str:
    """Show an empty form; ``sender`` may be named in the address."""
    return render_template("pages/compose.html", typed={"sender": request.args.get("sender", "")}, **_page())


@blueprint.post("")
@keeps_to_mailboxes
@takes_mail_form
@require(Scope.SEND)
def send() -> tuple[str, int] | AnyResponse:
    """Hand the mail in, or show the form again with what is wrong beside each field."""
    app = application()
    draft = _draft()
    if not may_send_from(draft.sender) or not may_write_as(draft.from_, may_send_from):
        raise ForbiddenSenderError
    checked = checked_or_faults(draft, app.intake.checks())
    if not isinstance(checked, Checked):
        return typed.again("pages/compose.html", _wrong(checked), chosen=_chosen(), **_page())
    submitted = app.submission.submit([checked.message], _once(checked), by=who())
    [message_id] = submitted.ids
    flash(say("The mail was handed in; it leaves as the budget allows."))
    tell_notices(checked)
    asking = principal()
    if asking is None or not asking.may(Scope.READ):
        return redirect(url_for("pages.compose.compose", sender=draft.sender), HTTPStatus.SEE_OTHER)
    return redirect(url_for("pages.message.show", message_id=message_id), HTTPStatus.SEE_OTHER)


def _draft() -> Draft:
    return Draft(
        sender=typed.text("sender"),
        subject=typed.text("subject"),
        to=typed.text("to"),
        cc=typed.text("cc"),
        bcc=typed.text("bcc"),
        text=_body("text"),
        html=_body("html"),
        attachments=[*_files("attachments"), *_pictures("pictures")],
        reply_to=typed.text("replyTo"),
        importance=typed.text("importance") or Importance.NORMAL,
        read_receipt=request.form.get("readReceipt") == _CHECKED,
        delivery_receipt=request.form.get("deliveryReceipt") == _CHECKED,
        headers=[(name.strip(), value) for name, _, value in map(_cut, typed.text("headers").splitlines()) if name],
        unsubscribe_url=typed.text("unsubscribeUrl") or None,
        from_=typed.text("from") or None,
        unsubscribe=request.form.get("unsubscribe") == _CHECKED,
        ignore_unsubscribed=request.form.get("ignoreUnsubscribed") == _CHECKED,
    )


def _cut(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _body(name: str) -> str | None:
    """Answer a body as it was typed, with the line ends of a text; ``None`` for one of blanks alone."""
    body = request.form.get(name, "").replace("\r\n", "\n")
    return body if body.strip() else None


def _files(part: str) -> Iterable[Attachment]:
    for one in _sent(part):
        content_type = None if one.mimetype in _SAYS_NOTHING else one.mimetype
        yield Attachment(one.filename or "", one.stream, content_type)  # type: ignore[arg-type]


def _pictures(part: str) -> Iterable[Attachment]:
    """Answer the pictures that the HTML shows: each by the name of its file."""
    for one in _sent(part):
        name = one.filename or ""
        yield Attachment(name, one.stream, is_inline=True, content_id=name)  # type: ignore[arg-type]


def _sent(part: str) -> list[FileStorage]:
    """Answer the files that were chosen; a field without any comes as a file without a name."""
    return [one for one in request.files.getlist(part) if one.filename]


def _chosen() -> bool:
    return bool(_sent("attachments") or _sent("pictures"))


def _wrong(found: Iterable[InvalidInputError]) -> typed.Wrong:
    """Say beside each field what it must be, and in the words every door has what exactly is wrong."""
    wrong: typed.Wrong = {}
    for error in found:
        field = "sender" if error.field in {"mailbox", "tenant"} else error.field
        exactly = scrubbed(str(error))
        wrong[field] = Markup('{} <small lang="en">{}</small>').format(
            field_words.WRONG_IN_MAIL.get(field, ""), exactly
        )
    return wrong


def _once(checked: Checked) -> Repeatable | None:
    """Recognise the same mail from the same form: a button pressed twice sends once."""
    form = request.form.get("form", "")[:64]
    if not form:
        return None
    content = repr(checked.message).replace(checked.message.id, "")
    return Repeatable(who(), f"page {form} {hashlib.sha256(content.encode()).hexdigest()}", "")


def _page() -> dict[str, Any]:
    app = application()
    senders = (
        *(f"mailbox:{mailbox.key}" for mailbox in app.mailboxes.all()),
        *(f"tenant:{tenant.key}" for tenant in app.tenants.all()),
        "default",
    )
    return {
        "senders": [sender for sender in senders if may_send_from(sender)],
        "importances": [one.value for one in Importance],
        "form": secrets.token_urlsafe(12),
        "most": app.settings.max_message_bytes,
    }
