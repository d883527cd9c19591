"""Signing in with a token, and out again."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

import structlog
from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response

from rqmail.web import auth
from rqmail.web.context import application, attempts

log = structlog.get_logger(__name__)

blueprint = Blueprint("sessions", __name__)

_HOME = "/ui/"


@blueprint.get("/login")
def login_form() -> str:
    """Show the sign-in page."""
    return _page(wrong=None)


@blueprint.post("/login")
def login() -> Response | tuple[str, int, dict[str, str]]:
    """Begin a session for the holder of a token; after too many failures an address has to wait."""
    if attempts().are_used_up(request.remote_addr):
        log.warning("web.signIn.tooManyFailures", address=request.remote_addr)
        return _page(wrong="too-many"), HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "600"}
    found = application().access.authenticate(request.form.get("token", "").strip())
    if found is None:
        attempts().failed(request.remote_addr)
        log.warning("web.signIn.refused", address=request.remote_addr)
        return _page(wrong="unknown"), HTTPStatus.UNAUTHORIZED, {}
    auth.sign_in(found)
    log.info("web.signIn", who=found.name)
    return redirect(local_path(request.form.get("next")), HTTPStatus.SEE_OTHER)


@blueprint.post("/logout")
def logout() -> Response:
    """End the session."""
    auth.sign_out()
    return redirect("/login", HTTPStatus.SEE_OTHER)


def local_path(wanted: str | None) -> str:
    """Answer ``wanted`` if it is a path on this very server, else the first page: nobody is sent elsewhere."""
    if not wanted or not wanted.startswith("/") or not wanted.isprintable() or "\\" in wanted:
        return _HOME
    parts = urlsplit(wanted)
    if parts.scheme or parts.netloc or wanted.startswith("//"):
        return _HOME
    return wanted


def _page(wrong: str | None) -> str:
    return render_template("login.html", wrong=wrong, next=local_path(request.values.get("next")))
