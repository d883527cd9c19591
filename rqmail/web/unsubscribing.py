"""Where the links to unsubscribe lead: a page that asks first, and the one click of mail programs (RFC 8058)."""

from __future__ import annotations

from http import HTTPStatus

from flask import Blueprint, render_template, request

from rqmail.campaigns.unsubscribing import PATH
from rqmail.errors import NotFoundError
from rqmail.web import auth
from rqmail.web.context import application

blueprint = Blueprint("unsubscribing", __name__, url_prefix=PATH)

#: What a mail program sends when somebody clicks on its own button, and what our page sends.
_ONE_CLICK = ("List-Unsubscribe", "One-Click")
_CONFIRMED = ("unsubscribe", "yes")

_HEADERS = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex"}

_Answer = tuple[str, int, dict[str, str]]


@blueprint.get("/<token>")
@auth.open_to_all
def ask(token: str) -> _Answer:
    """Ask whether it is meant: programs that scan mail follow links too."""
    try:
        found = application().unsubscribing.read(token)
    except NotFoundError:
        return _page(HTTPStatus.NOT_FOUND, "unknown")
    return _page(HTTPStatus.OK, "ask", _masked(found.address))


@blueprint.post("/<token>")
@auth.from_anywhere
@auth.open_to_all
def unsubscribe(token: str) -> _Answer:
    """Unsubscribe at once, without a cookie, a redirect or a further question."""
    if _ONE_CLICK not in request.form.items(multi=True) and _CONFIRMED not in request.form.items(multi=True):
        return _page(HTTPStatus.BAD_REQUEST, "unknown")
    try:
        found = application().unsubscribing.read(token)
    except NotFoundError:
        return _page(HTTPStatus.NOT_FOUND, "unknown")
    application().changes.unsubscribe(found)
    return _page(HTTPStatus.OK, "done", _masked(found.address))


def _page(status: HTTPStatus, state: str, address: str = "") -> _Answer:
    return render_template("unsubscribe.html", state=state, address=address), status, _HEADERS


def _masked(address: str) -> str:
    """Show an address to who knows it anyway: a mail that is passed on takes its link along."""
    local, _, domain = address.rpartition("@")
    return f"{local[:1]}…@{domain}"
