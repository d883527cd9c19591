"""The suppression list: who gets no mail, searched, added to, taken off, imported and exported."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, flash, redirect, render_template, request, stream_with_context, url_for
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration.access import Scope
from rqmail.campaigns.suppression import Reason, place
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.web.auth import require
from rqmail.web.context import application, changes
from rqmail.web.pages import typed
from rqmail.web.pages.language import say, say_count
from rqmail.web.pages.returning import action
from rqmail.web.pages.words import SUPPRESSED
from rqmail.web.uploads import takes_file

blueprint = Blueprint("suppression", __name__, url_prefix="/suppression")

_PAGE = 50
_ERRORS_SHOWN = 20
_LIST = "pages.suppression.list_suppressions"

#: Beside which field of the form for a file it is said what cannot be used.
_FILE = "file"


@blueprint.get("")
@require(Scope.READ)
def list_suppressions() -> str:
    """Show who gets no mail, by address, and where an address or a list of them is added."""
    return render_template("pages/suppression.html", **_page())


@blueprint.post("")
@require(Scope.ADMIN)
def add() -> AnyResponse | tuple[str, int]:
    """Let an address get no mail from now on."""
    wrong: typed.Wrong = {}
    try:
        added = changes().suppress(
            typed.text("address"), tenant=typed.text("tenant") or None, reason=typed.text("reason") or Reason.MANUAL
        )
    except InvalidInputError as error:
        typed.note(wrong, error)
        return typed.again("pages/suppression.html", wrong, **_page())
    flash(say("%(address)s gets no mail any more.", address=added.address))
    return redirect(url_for(_LIST), HTTPStatus.SEE_OTHER)


@action(blueprint, "/remove", page=_LIST)
@require(Scope.ADMIN)
def remove() -> AnyResponse:
    """Let an address get mail again."""
    try:
        gone = changes().unsuppress(typed.text("address"), tenant=typed.text("tenant") or None)
    except NotFoundError:
        flash(say("It is not on the list any more."), "error")
    else:
        flash(say("%(address)s gets mail again.", address=gone.address))
    return redirect(url_for(_LIST), HTTPStatus.SEE_OTHER)


@action(blueprint, "/import", page=_LIST)
@takes_file
@require(Scope.ADMIN)
def take_file() -> AnyResponse | tuple[str, int]:
    """Let every address of a file get no mail from now on: all of them, or none."""
    wrong: typed.Wrong = {}
    file = request.files.get(_FILE)
    if file is None or not file.filename:
        wrong[_FILE] = say("Choose a file first.")
        return typed.again("pages/suppression.html", wrong, **_page())
    try:
        report = changes().import_suppressions(
            file.stream,
            file.filename,
            tenant=typed.text("tenant") or None,
            reason=typed.text("reason") or Reason.IMPORT,
            dry_run=False,
        )
    except InvalidInputError as error:
        wrong[_FILE] = str(error)
        return typed.again("pages/suppression.html", wrong, **_page())
    if report.error_count:
        wrong[_FILE] = say("Nothing was added: some rows cannot be used.")
        return typed.again("pages/suppression.html", wrong, errors=report.errors[:_ERRORS_SHOWN], **_page())
    flash(say_count(SUPPRESSED, report.added))
    return redirect(url_for(_LIST), HTTPStatus.SEE_OTHER)


@blueprint.get("/export.csv")
@require(Scope.READ)
def export() -> Response:
    """Answer the whole list as CSV, as the import reads it."""
    return Response(
        stream_with_context(application().suppressions.as_csv()),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": "attachment; filename=suppressions.csv"},
    )


def _page() -> dict[str, Any]:
    app = application()
    search, reason = request.args.get("q", "").strip(), request.args.get("reason", "")
    found = app.suppressions.find(
        search=search,
        reason=Reason(reason) if reason in set(Reason) else None,
        limit=_PAGE + 1,
        after=request.args.get("after") or None,
    )
    return {
        "found": found[:_PAGE],
        "after": place(found[_PAGE - 1]) if len(found) > _PAGE else None,
        "q": search,
        "reason": reason,
        "reasons": [one.value for one in reversed(Reason)],
        "tenants": [tenant.key for tenant in app.tenants.all()],
    }
