"""Messages: found by what is known about them, acted on one by one or all at once, taken along as CSV."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, get_args

from flask import Blueprint, Response, flash, redirect, render_template, request, stream_with_context, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as AnyResponse

from rqmail.administration import messages
from rqmail.administration.access import Scope
from rqmail.administration.export import as_csv
from rqmail.administration.messages import BulkActionName, Filter, MessageLine
from rqmail.errors import NotFoundError
from rqmail.insight.spreadsheet import delimiter_named
from rqmail.models.message import MessageStatus, Priority
from rqmail.web.auth import require
from rqmail.web.context import application, changes
from rqmail.web.pages import act_words, typed
from rqmail.web.pages.language import say, say_count
from rqmail.web.pages.returning import action
from rqmail.web.sessions import local_path

blueprint = Blueprint("messages", __name__, url_prefix="/messages")

_PAGE = 50
_SAMPLE = 8
_CHOSEN_AT_ONCE = 1000

CRITERIA = ("q", "status", "sender", "recipient", "subject", "priority", "import", "from", "to", "zone")
ACTIONS: tuple[BulkActionName, ...] = get_args(BulkActionName)


@blueprint.get("")
@require(Scope.READ)
def list_messages() -> str:
    """Show a page of messages, newest first, with how many there are in each status."""
    asked = _asked(request.args)
    wanted = _filter(asked)
    lines = messages.find(wanted, limit=_PAGE + 1, after=request.args.get("after") or None)
    counts = messages.count_by_status(_filter(asked | {"status": ""}))
    app = application()
    return render_template(
        "pages/messages.html",
        lines=lines[:_PAGE],
        after=lines[_PAGE - 1].id if len(lines) > _PAGE else None,
        asked=asked,
        counts=counts,
        all_of_them=sum(counts.values()),
        matching=counts[wanted.status] if wanted.status else sum(counts.values()),
        senders=[
            *(f"mailbox:{mailbox.key}" for mailbox in app.mailboxes.all()),
            *(f"tenant:{tenant.key}" for tenant in app.tenants.all()),
            "default",
        ],
        priorities=[priority.name.lower() for priority in Priority],
        actions=ACTIONS,
        from_file=_file_of(wanted),
    )


@blueprint.get("/export.csv")
@require(Scope.READ)
def export() -> Response:
    """Answer every message that matches as CSV, a line at a time; ``delimiter`` says what stands between cells."""
    delimiter = delimiter_named(request.args.get("delimiter") or ",")
    return Response(
        stream_with_context(as_csv(_filter(_asked(request.args)), delimiter)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": "attachment; filename=messages.csv"},
    )


@action(blueprint, "/bulk", page="pages.messages.list_messages")
@require(Scope.ADMIN)
def bulk() -> str | tuple[str, int] | AnyResponse:
    """Ask whether it is meant, with how many messages it is for; asked and answered, do it."""
    asked = _asked(request.form)
    ids = tuple(request.form.getlist("ids"))[:_CHOSEN_AT_ONCE]
    everything = request.form.get("scope") == "all"
    wanted = _filter(asked) if everything else Filter(ids=ids)
    sure = request.form.get("sure")
    chosen = next((one for one in ACTIONS if one == (request.form.get("action") or sure)), None)
    came_from = request.values.get("next")
    here = local_path(came_from) if came_from else url_for("pages.messages.list_messages", **_given(asked))
    if chosen is None or (not everything and not ids):
        flash(say("Choose messages first."), "error")
        return redirect(here, HTTPStatus.SEE_OTHER)
    if sure in {"yes", chosen}:
        moved = changes().bulk(chosen, wanted, _shown(asked, ids, everything=everything))
        flash(say_count(act_words.BULK_DONE[chosen], moved))
        return redirect(here, HTTPStatus.SEE_OTHER)
    by_status = changes().count_bulk_of_each(chosen, wanted)
    return render_template(
        "pages/confirm.html",
        action=chosen,
        by_status=by_status,
        affected=sum(by_status.values()),
        matched=messages.count(wanted),
        sample=_sample(chosen, wanted),
        asked=asked,
        ids=() if everything else ids,
        everything=everything,
        here=here,
    )


def _file_of(wanted: Filter) -> str | None:
    """Answer the name of the file that the messages of one import came with."""
    if wanted.import_id is None:
        return None
    try:
        return application().imports.find(wanted.import_id).file_name
    except NotFoundError:
        return None


def _sample(chosen: BulkActionName, wanted: Filter) -> list[MessageLine]:
    """Answer a few of the messages that the action is for."""
    found: list[MessageLine] = []
    for status in messages.moves(chosen, wanted):
        found += messages.find(replace(wanted, status=status), limit=_SAMPLE)
    return found[:_SAMPLE]


@blueprint.app_context_processor
def _links() -> dict[str, Any]:
    return {"without_empty": _given}


def _given(asked: dict[str, str]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if value}


def _asked(given: MultiDict[str, str]) -> dict[str, str]:
    return {name: given.get(name, "").strip() for name in CRITERIA}


def _filter(asked: dict[str, str]) -> Filter:
    """Turn what was asked into a filter; what is no status, priority or date does not narrow anything."""
    status, priority = asked["status"], asked["priority"].upper()
    return Filter(
        status=MessageStatus(status) if status in MessageStatus.__members__ else None,
        sender=asked["sender"] or None,
        recipient=asked["recipient"] or None,
        subject=asked["subject"] or None,
        priority=Priority[priority] if priority in Priority.__members__ else None,
        created_from=_day(asked, "from"),
        created_to=_day(asked, "to", after=1),
        search=asked["q"] or None,
        import_id=asked["import"] or None,
    )


def _day(asked: dict[str, str], name: str, *, after: int = 0) -> datetime | None:
    return typed.day(asked[name], asked["zone"], after=after) if asked[name] else None


def _shown(asked: dict[str, str], ids: tuple[str, ...], *, everything: bool) -> dict[str, Any]:
    return _given(asked) if everything else {"ids": list(ids)}
