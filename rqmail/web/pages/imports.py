"""Files of messages: uploaded, looked at as they were read, then queued; and what was imported lately."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, Response, flash, redirect, render_template, request, stream_with_context, url_for
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration.access import Scope
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.intake.bad_rows import as_csv
from rqmail.intake.columns import COLUMNS, Naming
from rqmail.intake.files import Reading, format_of
from rqmail.intake.moments import local_time
from rqmail.web.auth import require
from rqmail.web.context import application, changes, may_send_from, who
from rqmail.web.errors import ForbiddenSenderError
from rqmail.web.pages import typed
from rqmail.web.pages.framed import framed
from rqmail.web.pages.language import say, say_count
from rqmail.web.pages.returning import action
from rqmail.web.pages.words import IMPORT_UNDONE
from rqmail.web.uploads import MAX_UPLOAD_BYTES, takes_file

blueprint = Blueprint("imports", __name__, url_prefix="/imports")

_RECENT = 25
_SHOWN_AS_THEY_WILL_LOOK = 5
_ROWS_SHOWN = 100

#: What may stand between the cells of a CSV file, by the name the form has for it.
DELIMITERS: Final = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}

#: Encodings that the form offers; others are for the command line.
_ENCODINGS = ("utf-8", "windows-1252", "utf-16", "iso-8859-15")

#: Beside which field of the form it is said what cannot be used: what is not named here is said beside the file.
_FIELDS = {
    **{name: name for name in ("encoding", "delimiter", "sheet", "column", "timezone", "date-format", "sender")},
    "mailbox": "sender",
    "tenant": "sender",
}

_Shown = str | tuple[str, int] | AnyResponse


@blueprint.get("")
@require(Scope.READ)
def list_imports() -> str:
    """Show where a file is uploaded, and what was imported lately."""
    return render_template("pages/imports.html", **_page())


@blueprint.post("")
@takes_file
@require(Scope.ADMIN)
def check() -> _Shown:
    """Check an uploaded file; nothing of it becomes a message before somebody has looked and said so."""
    app = application()
    wrong: typed.Wrong = {}
    sender = typed.text("sender")
    if not may_send_from(sender):
        raise ForbiddenSenderError
    file = request.files.get("file")
    if file is None or not file.filename:
        wrong["file"] = say("Choose a file first.")
        return typed.again("pages/imports.html", wrong, **_page())
    try:
        report = app.imports.by(who()).check(
            file.stream,
            sender,
            _reading(file.filename),
            name=file.filename,
            skip_duplicates=request.form.get("skipDuplicates") == "yes",
            ignore_unsubscribed=request.form.get("ignoreUnsubscribed") == "yes",
        )
    except InvalidInputError as error:
        wrong[_FIELDS.get(error.field, "file")] = str(error)
        return typed.again("pages/imports.html", wrong, **_page())
    return redirect(url_for("pages.imports.show", import_id=report.import_id), HTTPStatus.SEE_OTHER)


@blueprint.get("/<import_id>")
@require(Scope.READ)
def show(import_id: str) -> str:
    """Show how a file was read, what is wrong with it, its first rows as they will look, or how far it is."""
    imports = application().imports
    found = imports.find(import_id)
    return render_template(
        "pages/import.html",
        found=found,
        errors=found.report.errors[:_ROWS_SHOWN],
        duplicates=found.report.duplicate_rows[:_ROWS_SHOWN],
        notices=found.report.notice_rows[:_ROWS_SHOWN],
        first=imports.first_messages(import_id, _SHOWN_AS_THEY_WILL_LOOK) if found.state == "CHECKED" else (),
        delimiter=next((name for name, sign in DELIMITERS.items() if sign == found.report.delimiter), None),
    )


@blueprint.get("/<import_id>/rows/<number>")
@require(Scope.READ)
def html(import_id: str, number: str) -> Response:
    """Answer the HTML of one of the first messages of a checked file."""
    first = application().imports.first_messages(import_id, _SHOWN_AS_THEY_WILL_LOOK)
    body = next((one.html for place, one in enumerate(first) if str(place) == number), None)
    if body is None:
        raise NotFoundError("HTML of row", number)
    return framed(body)


@blueprint.get("/<import_id>/errors.csv")
@require(Scope.READ)
def errors(import_id: str) -> Response:
    """Answer every bad row with what is wrong in it, ready to be mended and uploaded again."""
    imports = application().imports
    imports.find(import_id)
    return Response(
        stream_with_context(as_csv(imports.bad_rows(import_id))),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": "attachment; filename=errors.csv"},
    )


@action(blueprint, "/<import_id>/queue", page="pages.imports.show")
@require(Scope.ADMIN)
def queue(import_id: str) -> AnyResponse:
    """Make the rows of a checked file messages, in the background."""
    try:
        application().imports.by(who()).store_in_background(import_id)
    except ConflictError:
        flash(say("It was queued before, or undone; nothing was done twice."), "error")
    else:
        flash(say("The messages are being queued and leave as the budgets allow."))
    return redirect(url_for("pages.imports.show", import_id=import_id), HTTPStatus.SEE_OTHER)


@action(blueprint, "/<import_id>/undo", page="pages.imports.show")
@require(Scope.ADMIN)
def undo(import_id: str) -> AnyResponse:
    """Cancel all messages of an import, while nothing of it was sent."""
    try:
        cancelled = changes().undo_import(import_id)
    except ConflictError:
        flash(say("It cannot be undone any more: sending has begun. What still waits can be cancelled."), "error")
    else:
        flash(say_count(IMPORT_UNDONE, cancelled))
    return redirect(url_for("pages.imports.show", import_id=import_id), HTTPStatus.SEE_OTHER)


def _reading(file_name: str) -> Reading:
    """Answer how the form says the file is to be read; what is left open is found out."""
    theirs = {name: typed.text(f"column.{name}") for name in COLUMNS}
    delimiter = typed.text("delimiter")
    if delimiter and delimiter not in DELIMITERS:
        raise InvalidInputError("delimiter", delimiter, "one of " + ", ".join(DELIMITERS))
    return Reading(
        format_of(file_name),
        typed.text("encoding") or None,
        typed.text("sheet") or None,
        Naming({ours: name for ours, name in theirs.items() if name}, request.form.get("ignoreOtherColumns") == "yes"),
        local_time(typed.text("timezone") or application().settings.timezone, typed.text("dateFormat") or None),
        DELIMITERS.get(delimiter),
    )


def _page() -> dict[str, Any]:
    app = application()
    senders = (
        *(f"mailbox:{mailbox.key}" for mailbox in app.mailboxes.all()),
        *(f"tenant:{tenant.key}" for tenant in app.tenants.all()),
        "default",
    )
    return {
        "imports": app.imports.recent(limit=_RECENT),
        "senders": [sender for sender in senders if may_send_from(sender)],
        "columns": [name for name in COLUMNS if name != "attachments"],
        "encodings": _ENCODINGS,
        "delimiters": tuple(DELIMITERS),
        "timezone": app.settings.timezone or "",
        "most": MAX_UPLOAD_BYTES // 1024 // 1024,
    }
