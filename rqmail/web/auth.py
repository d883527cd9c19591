"""Who is asking, and whether that is enough: decided for every request before anything that was sent is read."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flask import Flask, current_app, g, request, session
from flask_wtf.csrf import CSRFProtect

from rqmail.administration.access import Principal, Scope
from rqmail.administration.attempts import TooManyAttemptsError
from rqmail.web import uploads
from rqmail.web.context import application, attempts, for_programs, principal
from rqmail.web.errors import BoundError, ForbiddenError, RefusedError, UnauthenticatedError

_V = TypeVar("_V", bound=Callable[..., Any])

_csrf = CSRFProtect()
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

#: Where a view's scope is written down: on the view itself, so that it cannot be registered without.
_SCOPE = "rqmail_scope"

#: Where it is written down that a view keeps to the mailboxes a token is bound to: on the view itself.
_KEEPS_TO_MAILBOXES = "rqmail_keeps_to_mailboxes"

#: Where a view says that it looks at no cookie and may be sent to from anywhere.
_FROM_ANYWHERE = "rqmail_from_anywhere"

#: A body at most from one whom nobody knows yet: a sign-in form.
_MAX_UNKNOWN_BYTES = 16 * 1024


def install(app: Flask) -> None:
    """Find out who is asking before any view runs, and refuse what another site made a browser send."""
    _csrf.init_app(app)
    app.before_request(_authorise)
    app.before_request(_refuse_foreign_requests)


def require(scope: Scope) -> Callable[[_V], _V]:
    """Let a view run only for one whose token has ``scope`` (or is an admin's)."""

    def decorate(view: _V) -> _V:
        setattr(view, _SCOPE, scope)
        return view

    return decorate


def open_to_all(view: _V) -> _V:
    """Mark a view that needs no authorisation: to sign in, to read the documentation, to see that the process lives."""
    setattr(view, _SCOPE, None)
    return view


def keeps_to_mailboxes(view: _V) -> _V:
    """Let a view run for tokens that are bound to mailboxes, too: it asks of every sender whether it is reached."""
    setattr(view, _KEEPS_TO_MAILBOXES, True)
    return view


def from_anywhere(view: _V) -> _V:
    """Mark a view that other sites and programs may ask to change something: what it was sent is proof enough."""
    setattr(view, _FROM_ANYWHERE, True)
    return view


def open_as(other: Callable[..., Any]) -> Callable[[_V], _V]:
    """Let a view run for whoever may run ``other``."""

    def decorate(view: _V) -> _V:
        setattr(view, _SCOPE, getattr(other, _SCOPE))
        return view

    return decorate


def check_every_view(app: Flask) -> None:
    """Make sure that every view says who may ask; a forgotten one would be open to all."""
    for endpoint, view in app.view_functions.items():
        if endpoint != "static" and not hasattr(view, _SCOPE):
            raise TypeError(f"the view {endpoint} says neither require(…) nor open_to_all")


def scope_of(endpoint: str) -> Scope | None:
    """Answer what a view asks for; ``None`` where it is open to all."""
    scope: Scope | None = getattr(current_app.view_functions[endpoint], _SCOPE, None)
    return scope


def _keeps_to_mailboxes(endpoint: str) -> bool:
    return getattr(current_app.view_functions[endpoint], _KEEPS_TO_MAILBOXES, False)


def sign_in(asking: Principal) -> None:
    """Begin a session; everything an earlier one left is gone."""
    session.clear()
    session.permanent = True
    session["id"] = secrets.token_urlsafe(16)
    session["name"] = asking.name
    session["mark"] = asking.mark


def sign_out() -> None:
    """End the session, for every copy of its cookie."""
    if "id" in session:
        application().access.end_session(str(session["id"]))
    session.clear()


def _authorise() -> None:
    """Find out who is asking, and refuse whoever may not."""
    g.principal = None
    g.by_token = False
    if request.endpoint in {None, "static"}:
        return
    scope = scope_of(request.endpoint)
    if scope is None:
        request.max_content_length = _MAX_UNKNOWN_BYTES
        g.principal = _from_session()
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        g.by_token = True
        g.principal = _from_token(token.strip())
    else:
        g.principal = _from_session()
    asking = principal()
    if asking is None:
        raise UnauthenticatedError
    if not asking.may(scope):
        raise ForbiddenError(scope)
    if asking.mailboxes is not None and not _keeps_to_mailboxes(request.endpoint):
        raise BoundError
    uploads.allow()


def _from_token(token: str) -> Principal | None:
    try:
        return attempts().authenticate(application().access, token, request.remote_addr)
    except TooManyAttemptsError as error:
        raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, str(error), retry_after=error.retry_after) from None


def _from_session() -> Principal | None:
    if "id" not in session:
        return None
    return application().access.recall(
        str(session.get("name", "")), str(session.get("mark", "")), session=str(session["id"])
    )


def _refuse_foreign_requests() -> None:
    """Ask for proof that a change comes from our own pages wherever a cookie may have let it in."""
    if request.method in _SAFE or request.endpoint is None or _may_come_from_anywhere(request.endpoint):
        return
    origin = request.headers.get("Origin") or request.headers.get("Referer")
    if origin is not None and not _is_ours(origin):
        raise ForbiddenError(None)
    if not g.by_token and (principal() is not None or not for_programs()):
        _csrf.protect()


def _may_come_from_anywhere(endpoint: str) -> bool:
    return getattr(current_app.view_functions[endpoint], _FROM_ANYWHERE, False)


def _is_ours(origin: str) -> bool:
    """Say whether an origin names the host that was asked: in any case, with or without the port that goes without."""
    try:
        named, asked = urlsplit(origin), urlsplit(f"//{request.host}")
        usual = {"http": 80, "https": 443}[named.scheme]
        return (named.hostname, named.port or usual) == (asked.hostname, asked.port or usual)
    except (KeyError, ValueError):
        return False
