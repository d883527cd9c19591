"""Campaigns: listed, made from a list and a template, looked at, tried and steered."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, stream_with_context, url_for
from markupsafe import Markup
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration.access import Scope
from rqmail.administration.campaigns import CampaignChanges
from rqmail.campaigns.audience import ListReading
from rqmail.campaigns.campaign import Creation, NewCampaign
from rqmail.campaigns.window import parse_window
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.models.campaigns import CampaignState
from rqmail.models.progress import Wanted
from rqmail.text.scrubbing import scrubbed
from rqmail.web.auth import require
from rqmail.web.context import application, who
from rqmail.web.pages import curve, typed
from rqmail.web.pages.framed import framed
from rqmail.web.pages.language import say, say_count
from rqmail.web.pages.returning import action
from rqmail.web.pages.words import PEOPLE, PERSON_STATES
from rqmail.web.uploads import takes_file

blueprint = Blueprint("campaigns", __name__, url_prefix="/campaigns")

_PAGE = 50
_ERRORS_SHOWN = 50
_SHOW = "pages.campaigns.show"
_FILE = "file"

#: What can be done in which state.
_ACTS: dict[CampaignState, tuple[str, ...]] = {
    CampaignState.DRAFT: ("start", "test", "clone", "delete"),
    CampaignState.RUNNING: ("pause", "cancel", "test", "clone"),
    CampaignState.PAUSED: ("resume", "cancel", "test", "clone"),
    CampaignState.DONE: ("clone",),
    CampaignState.CANCELLED: ("clone",),
}


@blueprint.get("")
@require(Scope.READ)
def list_campaigns() -> str:
    """Show the campaigns, the newest first."""
    after = request.args.get("after", "")
    found = application().campaign_progress.all(limit=_PAGE + 1, after=int(after) if _is_number(after) else None)
    following = found[_PAGE - 1].id if len(found) > _PAGE else None
    return render_template("pages/campaigns.html", found=found[:_PAGE], after=following)


@blueprint.get("/new")
@require(Scope.ADMIN)
def new() -> str:
    """Show an empty form."""
    return render_template("pages/campaign_new.html", typed={}, chosen=[], **_form())


@blueprint.post("/new")
@takes_file
@require(Scope.ADMIN)
def create() -> AnyResponse | tuple[str, int]:
    """Make a draft, or show the form again with what is wrong beside each field and in which rows."""
    wrong: typed.Wrong = {}
    made: Creation | None = None
    file = request.files.get(_FILE)
    if file is None or not file.filename:
        wrong[_FILE] = say("Choose a file first.")
    else:
        try:
            made = _changes().create(
                _wanted(),
                file.stream,
                ListReading(typed.text("column") or "to"),
                skip_invalid=bool(request.form.get("skipInvalid")),
            )
        except (InvalidInputError, NotFoundError) as error:
            _note(wrong, error)
    if made is None or made.id is None:
        if made is not None:
            wrong[_FILE] = say("Nothing was stored: some rows cannot be used.")
        chosen = request.form.getlist("mailboxes")
        rows = made.errors[:_ERRORS_SHOWN] if made is not None else ()
        return typed.again("pages/campaign_new.html", wrong, chosen=chosen, errors=rows, made=made, **_form())
    flash(
        say("The campaign is a draft for %(people)s; nothing is sent yet.", people=say_count(PEOPLE, made.recipients))
    )
    return redirect(url_for(_SHOW, campaign_id=made.id), HTTPStatus.SEE_OTHER)


@blueprint.get("/<campaign_id>")
@require(Scope.READ)
def show(campaign_id: str) -> str:
    """Show how a campaign stands, who got it, and what one person gets."""
    return render_template("pages/campaign.html", **_shown(campaign_id))


@blueprint.get("/<campaign_id>/html")
@require(Scope.READ)
def html(campaign_id: str) -> Response:
    """Answer what one person sees, for the frame it is shown in."""
    preview = application().campaigns.preview(campaign_id, _row())
    if preview.html is None:
        abort(HTTPStatus.NOT_FOUND)
    return framed(preview.html)


@blueprint.get("/<campaign_id>/export.csv")
@require(Scope.READ)
def export(campaign_id: str) -> Response:
    """Answer what became of everybody, as CSV."""
    lines = application().campaign_progress.as_csv(campaign_id, _people_wanted())
    return Response(
        stream_with_context(lines),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": "attachment; filename=campaign.csv"},
    )


@action(blueprint, "/<campaign_id>/start", page=_SHOW)
@require(Scope.ADMIN)
def start(campaign_id: str) -> AnyResponse:
    """Let it go out."""
    return _steer(campaign_id, lambda: _changes().start(campaign_id), say("It goes out, as the budgets allow."))


@action(blueprint, "/<campaign_id>/pause", page=_SHOW)
@require(Scope.ADMIN)
def pause(campaign_id: str) -> AnyResponse:
    """Send nothing more."""
    return _steer(campaign_id, lambda: _changes().pause(campaign_id), say("It is paused; what is in flight ends."))


@action(blueprint, "/<campaign_id>/resume", page=_SHOW)
@require(Scope.ADMIN)
def resume(campaign_id: str) -> AnyResponse:
    """Go on."""
    return _steer(campaign_id, lambda: _changes().resume(campaign_id), say("It goes on."))


@action(blueprint, "/<campaign_id>/cancel", page=_SHOW)
@require(Scope.ADMIN)
def cancel(campaign_id: str) -> AnyResponse:
    """End it for good."""
    return _steer(campaign_id, lambda: _changes().cancel(campaign_id), say("It is cancelled; nobody else gets it."))


@action(blueprint, "/<campaign_id>/retry-failed", page=_SHOW)
@require(Scope.ADMIN)
def retry_failed(campaign_id: str) -> AnyResponse:
    """Send again what failed."""
    return _steer(campaign_id, lambda: _changes().retry_failed(campaign_id), say("What failed is sent again."))


@action(blueprint, "/<campaign_id>/test", page=_SHOW)
@require(Scope.ADMIN)
def test(campaign_id: str) -> AnyResponse:
    """Send one person's mail to somebody else."""
    to, row = typed.text("to"), typed.text("row")
    return _steer(
        campaign_id,
        lambda: _changes().test(campaign_id, to, int(row) if _is_number(row) else 1),
        say("The test mail was handed in."),
    )


@action(blueprint, "/<campaign_id>/clone", page=_SHOW)
@require(Scope.ADMIN)
def clone(campaign_id: str) -> AnyResponse:
    """Make a draft for the same people."""
    try:
        cloned = _changes().clone(campaign_id, typed.text("name"))
    except InvalidInputError as error:
        flash(scrubbed(str(error)), "error")
        return redirect(url_for(_SHOW, campaign_id=campaign_id), HTTPStatus.SEE_OTHER)
    flash(say("The clone is a draft; nothing is sent yet."))
    return redirect(url_for(_SHOW, campaign_id=cloned.id), HTTPStatus.SEE_OTHER)


@action(blueprint, "/<campaign_id>/delete", page=_SHOW)
@require(Scope.ADMIN)
def delete(campaign_id: str) -> AnyResponse:
    """Delete a draft."""
    try:
        _changes().delete(campaign_id)
    except ConflictError as conflict:
        flash(str(conflict), "error")
        return redirect(url_for(_SHOW, campaign_id=campaign_id), HTTPStatus.SEE_OTHER)
    flash(say("The draft is deleted."))
    return redirect(url_for("pages.campaigns.list_campaigns"), HTTPStatus.SEE_OTHER)


def _steer(campaign_id: str, act: Callable[[], object], said: str) -> AnyResponse:
    try:
        act()
    except (ConflictError, InvalidInputError) as error:
        flash(scrubbed(str(error)), "error")
    else:
        flash(said)
    return redirect(url_for(_SHOW, campaign_id=campaign_id), HTTPStatus.SEE_OTHER)


def _shown(campaign_id: str) -> dict[str, Any]:
    app = application()
    shown = app.campaign_progress.show(campaign_id)
    wanted, after = _people_wanted(), request.args.get("after", "")
    people = app.campaign_progress.outcomes(
        campaign_id, wanted, limit=_PAGE + 1, after=int(after) if _is_number(after) else 0
    )
    row = min(_row(), max(1, shown.recipients + shown.suppressed))
    try:
        preview, unrendered = app.campaigns.preview(campaign_id, row), None
    except (InvalidInputError, NotFoundError) as error:
        preview, unrendered = None, str(error)
    now = app.clock()
    return {
        "campaign": shown,
        "acts": _ACTS[shown.state],
        "people": people[:_PAGE],
        "after": people[_PAGE - 1].number if len(people) > _PAGE else None,
        "wanted": wanted,
        "states": PERSON_STATES,
        "preview": preview,
        "unrendered": unrendered,
        "row": row,
        "curve": curve.draw(app.campaign_progress.sent_over_time(campaign_id), shown.recipients, now, shown.done_on),
        "now": now,
    }


def _people_wanted() -> Wanted:
    status = request.args.get("status", "")
    return Wanted(
        status if status in PERSON_STATES else None, request.args.get("q", "").strip(), request.args.get("error")
    )


def _row() -> int:
    row = request.args.get("row", "")
    return max(1, int(row)) if _is_number(row) else 1


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _wanted() -> NewCampaign:
    hours = typed.text("notWithinHours")
    if hours and not _is_number(hours):
        raise InvalidInputError("notWithinHours", hours, "hours from 1 to 8,784")
    between, weekdays = typed.text("between") or None, typed.text("weekdays") or None
    return NewCampaign(
        name=typed.text("name"),
        mailboxes=request.form.getlist("mailboxes"),
        subject=typed.text("subject"),
        html=request.form.get("html", "").replace("\r\n", "\n").strip() or None,
        text=request.form.get("text", "").replace("\r\n", "\n").strip() or None,
        language=typed.text("language") or "en",
        priority=typed.text("priority") or "low",
        at=typed.text("at") or None,
        expires=typed.text("expires") or None,
        window=parse_window(
            between,
            weekdays,
            (typed.text("timezone") or None) if between or weekdays else None,
            usual_zone=application().settings.timezone,
        ),
        not_within_hours=int(hours) if hours else None,
        sticky=bool(request.form.get("sticky")),
        unsubscribe=bool(request.form.get("unsubscribe")),
        reply_to=(typed.text("replyTo"),) if typed.text("replyTo") else (),
    )


def _note(wrong: typed.Wrong, error: InvalidInputError | NotFoundError) -> None:
    """Say beside the field, in the words every door has, what exactly is wrong."""
    field = getattr(error, "field", "mailboxes")
    places = {"mailbox": "mailboxes", "recipients": _FILE, "header": _FILE, "encoding": _FILE, "sheet": _FILE}
    places |= {"not-within": "notWithinHours", "template": "html"}
    wrong[places.get(field, field)] = Markup('<span lang="en">{}</span>').format(scrubbed(str(error)))


def _form() -> dict[str, Any]:
    app = application()
    return {"mailboxes": [one.key for one in app.mailboxes.all()], "zone": app.settings.timezone or ""}


def _changes() -> CampaignChanges:
    return application().campaign_changes.by(who())
