"""Tenants: through whom each one's mail leaves. Secrets are typed in and never shown again."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from flask import Blueprint, flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from rqmail.administration.access import Scope
from rqmail.administration.tenants import TenantField
from rqmail.errors import ConflictError, InvalidInputError
from rqmail.insight.checked import last_check, last_checks
from rqmail.models.mailbox import Provider
from rqmail.web.auth import require
from rqmail.web.context import application, changes
from rqmail.web.pages import typed
from rqmail.web.pages.checking import check_now, check_saved
from rqmail.web.pages.language import say
from rqmail.web.pages.left_behind import warn_of_what_is_left
from rqmail.web.pages.pausing import DURATIONS, pause_as_typed
from rqmail.web.pages.returning import action

blueprint = Blueprint("tenants", __name__, url_prefix="/tenants")

_FIELDS = {
    "address": "address",
    "graphTenantId": "graph_tenant_id",
    "graphClientId": "graph_client_id",
    "sendgridFrom": "sendgrid_from",
}
_LIMITS = {
    "rateLimitPerMinute": "rate_limit_per_minute",
    "rateLimitRecipientsPerDay": "rate_limit_recipients_per_day",
}
_SECRETS = {"graphClientSecret": "graph_client_secret", "sendgridApiKey": "sendgrid_api_key"}
_CHANGES_SHOWN = 20

_Shown = tuple[str, int] | Response


@blueprint.get("")
@require(Scope.READ)
def list_tenants() -> str:
    """Show every tenant."""
    return render_template("pages/tenants.html", **_rows())


@blueprint.post("")
@require(Scope.ADMIN)
def add() -> _Shown:
    """Add a tenant's mail setting."""
    wrong: typed.Wrong = {}
    try:
        fields = {name: value for name, value in _typed(wrong).items() if value is not None}
        if wrong:
            return typed.again("pages/tenants.html", wrong, **_rows())
        added = changes().add_tenant(typed.text("key"), typed.text("provider"), **fields)
    except InvalidInputError as error:
        typed.note(wrong, error)
    except ConflictError:
        wrong["key"] = say("This one exists already.")
    else:
        flash(say("%(key)s was added.", key=added.key))
        check_saved(f"tenant:{added.key}")
        return redirect(url_for("pages.tenants.list_tenants"), HTTPStatus.SEE_OTHER)
    return typed.again("pages/tenants.html", wrong, **_rows())


@blueprint.get("/<key>")
@require(Scope.READ)
def show(key: str) -> str:
    """Show one tenant's mail setting, to be changed."""
    return render_template("pages/tenant.html", **_one(key))


@blueprint.post("/<key>")
@require(Scope.ADMIN)
def set_tenant(key: str) -> _Shown:
    """Change a tenant's mail setting; an empty secret keeps the one that is stored."""
    wrong: typed.Wrong = {}
    fields = _typed(wrong)
    try:
        if not wrong:
            changes().set_tenant(key, provider=typed.text("provider"), **fields)
    except InvalidInputError as error:
        typed.note(wrong, error)
    if wrong:
        return typed.again("pages/tenant.html", wrong, form="setting", **_one(key))
    flash(say("%(key)s was saved.", key=key))
    warn_of_what_is_left(f"tenant:{key}")
    check_saved(f"tenant:{key}")
    return redirect(url_for("pages.tenants.show", key=key), HTTPStatus.SEE_OTHER)


@action(blueprint, "/<key>/check", page="pages.tenants.show")
@require(Scope.ADMIN)
def check(key: str) -> Response:
    """Ask the tenant's provider whether it would send."""
    application().tenants.get(key)
    check_now(f"tenant:{key}")
    return redirect(url_for("pages.tenants.show", key=key), HTTPStatus.SEE_OTHER)


@action(blueprint, "/<key>/pause", page="pages.tenants.show")
@require(Scope.ADMIN)
def pause(key: str) -> _Shown:
    """Send nothing of the tenant's mail for a while."""
    wrong = pause_as_typed(key, changes().pause_tenant)
    if wrong:
        return typed.again("pages/tenant.html", wrong, form="pause", **_one(key))
    flash(say("%(key)s is paused.", key=key))
    return redirect(url_for("pages.tenants.show", key=key), HTTPStatus.SEE_OTHER)


@action(blueprint, "/<key>/resume", page="pages.tenants.show")
@require(Scope.ADMIN)
def resume(key: str) -> Response:
    """End a pause."""
    changes().resume_tenant(key)
    flash(say("%(key)s sends again.", key=key))
    return redirect(url_for("pages.tenants.show", key=key), HTTPStatus.SEE_OTHER)


@action(blueprint, "/<key>/delete", page="pages.tenants.show")
@require(Scope.ADMIN)
def delete(key: str) -> Response:
    """Remove the tenant's mail setting, unless mail of it waits."""
    try:
        changes().delete_tenant(key)
    except ConflictError:
        flash(say("%(key)s cannot be deleted: mail of it waits, is being sent or needs a decision.", key=key), "error")
        return redirect(url_for("pages.tenants.show", key=key), HTTPStatus.SEE_OTHER)
    flash(say("%(key)s was deleted.", key=key))
    return redirect(url_for("pages.tenants.list_tenants"), HTTPStatus.SEE_OTHER)


def _typed(wrong: typed.Wrong) -> dict[str, TenantField]:
    """Answer the fields that were typed: an empty one clears; an empty secret keeps its value unless told otherwise."""
    fields: dict[str, TenantField] = {name: typed.text(field) or None for field, name in _FIELDS.items()}
    fields |= {name: typed.whole(field, wrong) for field, name in _LIMITS.items()}
    for field, name in _SECRETS.items():
        if request.form.get(f"{field}.clear") == "yes":
            fields[name] = None
        elif typed.text(field):
            fields[name] = typed.text(field)
    return fields


def _rows() -> dict[str, Any]:
    app = application()
    return {
        "tenants": app.tenants.all(),
        "status": app.overview.status(),
        "checks": last_checks(),
        "defaults": app.overview.defaults,
        "providers": [provider.value for provider in Provider],
    }


def _one(key: str) -> dict[str, Any]:
    app = application()
    return {
        "tenant": app.tenants.get(key),
        "standing": app.overview.tenant(key),
        "check": last_check(f"tenant:{key}"),
        "defaults": app.overview.defaults,
        "providers": [provider.value for provider in Provider],
        "durations": list(DURATIONS),
        "lines": app.audit.lines(subject=f"tenant:{key}", limit=_CHANGES_SHOWN),
    }
