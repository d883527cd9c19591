"""System mailboxes: what each may send and has sent, and the switches for it."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Any

from flask import Blueprint, flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from rqmail.administration.access import Scope
from rqmail.errors import ConflictError, InvalidInputError
from rqmail.insight.bouncing import bouncing
from rqmail.insight.checked import last_check, last_checks
from rqmail.insight.standing import told_state
from rqmail.models.mailbox import SentItems
from rqmail.ratelimit.limits import EXCHANGE, mailbox_key
from rqmail.web.auth import require
from rqmail.web.context import application, changes
from rqmail.web.pages import typed
from rqmail.web.pages.checking import check_now, check_saved
from rqmail.web.pages.language import say, write_number
from rqmail.web.pages.left_behind import warn_of_what_is_left
from rqmail.web.pages.pausing import DURATIONS, pause_as_typed
from rqmail.web.pages.returning import action, asked, back

blueprint = Blueprint("mailboxes", __name__, url_prefix="/mailboxes")

_PAGE = 50
_CHANGES_SHOWN = 20

STATES = ("ok", "full-speed", "near", "limited", "paused", "unknown")

_LIST = "pages.mailboxes.list_mailboxes"
_ONE = "pages.mailboxes.show"

_PER_MINUTE = "rateLimitPerMinute"
_PER_DAY = "rateLimitRecipientsPerDay"

_Shown = str | tuple[str, int] | Response


@blueprint.get("")
@require(Scope.READ)
def list_mailboxes() -> str:
    """Show one row for each mailbox."""
    return render_template("pages/mailboxes.html", **_rows())


@blueprint.post("")
@require(Scope.ADMIN)
def add() -> _Shown:
    """Add a mailbox."""
    wrong: typed.Wrong = {}
    limits = _limits(wrong)
    if not wrong:
        try:
            added = changes().add_mailbox(typed.text("key"), typed.text("address"), **limits)
        except InvalidInputError as error:
            typed.note(wrong, error)
        except ConflictError:
            wrong["key"] = say("This one exists already.")
        else:
            flash(say("%(key)s was added.", key=added.key))
            _warn_above_exchange(limits)
            check_saved(f"mailbox:{added.key}")
            return redirect(url_for(_LIST), HTTPStatus.SEE_OTHER)
    return typed.again("pages/mailboxes.html", wrong, form="add", **_rows())


@blueprint.get("/<key>")
@require(Scope.READ)
def show(key: str) -> str:
    """Show one mailbox with everything that can be done to it."""
    return render_template("pages/mailbox.html", **_one(key))


@action(blueprint, "/<key>/limits", page=_ONE)
@require(Scope.ADMIN)
def set_limits(key: str) -> _Shown:
    """Change the two limits; an empty field goes back to the default."""
    wrong: typed.Wrong = {}
    limits: dict[str, Any] = {**_limits(wrong), **_until(wrong)}
    if not wrong:
        try:
            changes().set_mailbox(key, **limits)
        except InvalidInputError as error:
            typed.note(wrong, error)
        else:
            flash(say("The limits of %(key)s were saved; the next dispatch uses them.", key=key))
            _warn_above_exchange(limits)
            return back(_ONE, key=key)
    if request.form.get("from") == "mailbox":
        return typed.again("pages/mailbox.html", wrong, form="limits", **_one(key))
    return typed.again("pages/mailboxes.html", wrong, form=key, **_rows(and_this=key))


@action(blueprint, "/<key>/address", page=_ONE)
@require(Scope.ADMIN)
def set_address(key: str) -> _Shown:
    """Change the address mail is sent from."""
    try:
        changes().set_mailbox(key, address=typed.text("address"))
    except InvalidInputError as error:
        wrong: typed.Wrong = {}
        typed.note(wrong, error)
        return typed.again("pages/mailbox.html", wrong, form="address", **_one(key))
    flash(say("The address of %(key)s was saved.", key=key))
    warn_of_what_is_left(f"mailbox:{key}")
    check_saved(f"mailbox:{key}")
    return back(_ONE, key=key)


@action(blueprint, "/<key>/sent-items", page=_ONE)
@require(Scope.ADMIN)
def set_sent_items(key: str) -> _Shown:
    """Change what becomes of the copies in Sent Items."""
    wrong: typed.Wrong = {}
    days = typed.whole("pruneAfterDays", wrong)
    if not wrong:
        try:
            changes().set_mailbox(key, sent_items=typed.text("sentItems") or None, prune_after_days=days)
        except InvalidInputError as error:
            typed.note(wrong, error)
        else:
            flash(say("What %(key)s keeps in Sent Items was saved.", key=key))
            return back(_ONE, key=key)
    return typed.again("pages/mailbox.html", wrong, form="sent-items", **_one(key))


@action(blueprint, "/<key>/message-size", page=_ONE)
@require(Scope.ADMIN)
def set_message_size(key: str) -> _Shown:
    """Change how large one message may be; an empty field goes back to the default."""
    wrong: typed.Wrong = {}
    size = typed.whole("maxMessageBytes", wrong)
    if not wrong:
        try:
            changes().set_mailbox(key, max_message_bytes=size)
        except InvalidInputError as error:
            typed.note(wrong, error)
        else:
            flash(say("How large a message of %(key)s may be was saved.", key=key))
            return back(_ONE, key=key)
    return typed.again("pages/mailbox.html", wrong, form="message-size", **_one(key))


@action(blueprint, "/<key>/check", page=_ONE)
@require(Scope.ADMIN)
def check(key: str) -> Response:
    """Ask Microsoft whether the mailbox exists and what we may do with it."""
    application().mailboxes.get(key)
    check_now(f"mailbox:{key}")
    return back(_ONE, key=key)


@action(blueprint, "/<key>/pause", page=_ONE)
@require(Scope.ADMIN)
def pause(key: str) -> _Shown:
    """Send nothing from the mailbox for a while."""
    wrong = pause_as_typed(key, changes().pause_mailbox)
    if wrong:
        return typed.again("pages/mailbox.html", wrong, form="pause", **_one(key))
    flash(say("%(key)s is paused.", key=key))
    return back(_ONE, key=key)


@action(blueprint, "/<key>/resume", page=_ONE)
@require(Scope.ADMIN)
def resume(key: str) -> Response:
    """End a pause."""
    changes().resume_mailbox(key)
    flash(say("%(key)s sends again.", key=key))
    return back(_ONE, key=key)


@action(blueprint, "/<key>/reset", page=_ONE)
@require(Scope.ADMIN)
def reset(key: str) -> Response:
    """Forget what was counted against the budget."""
    try:
        changes().reset_mailbox(key)
    except ConflictError:
        flash(say("%(key)s was not reset: Redis, where it is counted, cannot be reached.", key=key), "error")
    else:
        flash(say("The windows of %(key)s begin empty.", key=key))
    return back(_ONE, key=key)


@action(blueprint, "/<key>/delete", page=_ONE)
@require(Scope.ADMIN)
def delete(key: str) -> Response:
    """Remove the mailbox, unless mail of it waits."""
    try:
        changes().delete_mailbox(key)
    except ConflictError:
        flash(say("%(key)s cannot be deleted: mail of it waits, is being sent or needs a decision.", key=key), "error")
        return back(_ONE, key=key)
    flash(say("%(key)s was deleted.", key=key))
    return redirect(url_for(_LIST), HTTPStatus.SEE_OTHER)


def _limits(wrong: typed.Wrong) -> dict[str, int | None]:
    return {
        "rate_limit_per_minute": _positive(_PER_MINUTE, wrong),
        "rate_limit_recipients_per_day": _positive(_PER_DAY, wrong),
    }


def _until(wrong: typed.Wrong) -> dict[str, datetime | None]:
    """Answer how long the limits are to hold; the rows of the list do not ask, and change nothing about it."""
    zone = typed.text("zone")
    match typed.text("holds"):
        case "good":
            return {"limits_until": None}
        case "tonight":
            return {"limits_until": typed.day(typed.today(application().clock(), zone), zone, after=1)}
        case "date":
            until = typed.day(typed.text("limitsUntil"), zone, after=1)
            if until is None:
                typed.note(wrong, InvalidInputError("limitsUntil", typed.text("limitsUntil"), ""))
            return {"limits_until": until}
        case _:
            return {}


def _warn_above_exchange(limits: dict[str, Any]) -> None:
    """Say that Exchange Online allows less, where a limit is above what it allows any mailbox."""
    if (limits["rate_limit_per_minute"] or 0) > EXCHANGE.per_minute:
        most = write_number(EXCHANGE.per_minute)
        flash(
            say("Exchange Online allows a mailbox %(most)s messages a minute, and refuses more.", most=most), "warning"
        )
    if (limits["rate_limit_recipients_per_day"] or 0) > EXCHANGE.recipients_per_day:
        most = write_number(EXCHANGE.recipients_per_day)
        flash(
            say("Exchange Online allows a mailbox %(most)s recipients a day, and refuses more.", most=most), "warning"
        )


def _positive(field: str, wrong: typed.Wrong) -> int | None:
    """Complain about both fields at once: the use case would name the first one only."""
    value = typed.whole(field, wrong)
    if value == 0:
        typed.note(wrong, InvalidInputError(field, value, ""))
    return value


def _rows(and_this: str | None = None) -> dict[str, Any]:
    """Gather the page of mailboxes that was asked for; ``and_this`` one is shown whatever was asked."""
    app = application()
    given = asked()
    wanted, state = given.get("q", "").strip().lower(), given.get("state", "")
    status = app.overview.status()
    found = [
        mailbox
        for mailbox in app.mailboxes.all()
        if mailbox.key in status.mailboxes
        and (wanted in mailbox.key.lower() or wanted in mailbox.address.lower() or mailbox.key == and_this)
        and (state not in STATES or told_state(status.mailboxes[mailbox.key]) == state or mailbox.key == and_this)
    ]
    page = _page_number(given.get("page", "0"))
    place = next((at for at, mailbox in enumerate(found) if mailbox.key == and_this), None)
    if place is not None and place // _PAGE != page:
        page = place // _PAGE
    first = _PAGE * page
    return {
        "status": status,
        "checks": last_checks(),
        "mailboxes": found[first : first + _PAGE],
        "total": len(found),
        "first": first,
        "page_size": _PAGE,
        "asked": {"q": wanted, "state": state},
        "here": url_for(_LIST, q=wanted or None, state=state or None, page=page or None),
        "states": STATES,
        "defaults": app.overview.defaults,
        "durations": list(DURATIONS),
    }


def _page_number(number: str) -> int:
    return int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 0


def _one(key: str) -> dict[str, Any]:
    app = application()
    mailbox = app.mailboxes.get(key)
    address = mailbox_key(mailbox.address)
    return {
        "mailbox": mailbox,
        "standing": app.overview.mailbox(key),
        "check": last_check(f"mailbox:{key}"),
        "unmarked": app.mailboxes.takes_no_property(key),
        "pruning": app.mailboxes.pruning(key),
        "bouncing": bouncing([address], app.clock())[address],
        "most_bytes": app.settings.max_message_bytes,
        "sent_items": [mode.value for mode in SentItems],
        "defaults": app.overview.defaults,
        "exchange": EXCHANGE,
        "durations": list(DURATIONS),
        "lines": app.audit.lines(subject=f"mailbox:{key}", limit=_CHANGES_SHOWN),
    }
