"""Signing in with a token, and out again."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from flask import Blueprint, has_request_context, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from rqmail.administration.attempts import TooManyAttemptsError
from rqmail.logs import event_log
from rqmail.web import auth
from rqmail.web.context import application, attempts

log = event_log(__name__)

blueprint = Blueprint("sessions", __name__)

_HOME = "/ui/"


@blueprint.get("/login")
@auth.open_to_all
def login_form() -> str:
    """Show the sign-in page."""
    return _page(wrong=None)


@blueprint.post("/login")
@auth.open_to_all
def login() -> Response | tuple[str, int, dict[str, str]]:
    """Begin a session for the holder of a token; an address that has guessed wrong is slowed."""
    try:
        found = attempts().authenticate(
            application().access, request.form.get("token", "").strip(), request.remote_addr
        )
    except TooManyAttemptsError as error:
        log.warning("web.signIn.tooManyFailures", address=request.remote_addr)
        return _page(wrong="too-many"), HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(error.retry_after)}
    if found is None:
        log.warning("web.signIn.refused", address=request.remote_addr)
        return _page(wrong="unknown"), HTTPStatus.UNAUTHORIZED, {}
    auth.sign_in(found)
    log.info("web.signIn", who=found.name)
    return redirect(local_path(request.form.get("next")), HTTPStatus.SEE_OTHER)


@blueprint.post("/logout")
@auth.open_to_all
def logout() -> Response:
    """End the session."""
    auth.sign_out()
    return redirect(url_for("sessions.login_form"), HTTPStatus.SEE_OTHER)


@blueprint.get("/logout")
@auth.open_to_all
def logout_asked() -> Response:
    """Lead to the pages: reloading after a sign-out that failed asks for its address."""
    return redirect(local_path(None), HTTPStatus.SEE_OTHER)


def local_path(wanted: str | None) -> str:
    """Answer ``wanted`` if it is a path on this very server, else the first page: nobody is sent elsewhere.

    The answer is under the path we are served under, whether ``wanted`` was already or not.
    """
    root = request.script_root if has_request_context() else ""
    path = _path_here(wanted)
    return path if root and path.startswith(root + "/") else root + path


def _path_here(wanted: str | None) -> str:
    if not wanted or not wanted.startswith("/") or not wanted.isprintable() or "\\" in wanted:
        return _HOME
    parts = urlsplit(wanted)
    if parts.scheme or parts.netloc or wanted.startswith("//"):
        return _HOME
    return wanted


def _page(wrong: str | None) -> str:
    return render_template("login.html", wrong=wrong, next=local_path(request.values.get("next")))
