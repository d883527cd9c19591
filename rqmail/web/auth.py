"""Who is asking: a token in the header or a session from the sign-in page, and what that lets them do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit

from flask import Flask, g, request, session
from flask_wtf.csrf import CSRFProtect

from rqmail.administration.access import Principal, Scope
from rqmail.web.context import application, for_programs, principal
from rqmail.web.errors import ForbiddenError, UnauthenticatedError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_csrf = CSRFProtect()
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def install(app: Flask) -> None:
    """Find out who is asking before any view runs, and refuse what another site made a browser send."""
    _csrf.init_app(app)
    app.before_request(_identify)
    app.before_request(_refuse_foreign_requests)


def require(scope: Scope) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a view run only for one whose token has ``scope`` (or is an admin's)."""

    def decorate(view: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(view)
        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            asking = principal()
            if asking is None:
                raise UnauthenticatedError
            if not asking.may(scope):
                raise ForbiddenError(scope)
            return view(*args, **kwargs)

        return guarded

    return decorate


def sign_in(asking: Principal) -> None:
    """Begin a session; everything an earlier one left is gone."""
    session.clear()
    session.permanent = True
    session["name"] = asking.name
    session["mark"] = asking.mark


def sign_out() -> None:
    """End the session of this browser."""
    session.clear()


def _identify() -> None:
    g.principal = None
    g.by_token = False
    if request.endpoint in {None, "static"}:
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        g.by_token = True
        g.principal = application().access.authenticate(token.strip())
    elif "name" in session:
        g.principal = application().access.recall(str(session["name"]), str(session.get("mark", "")))


def _refuse_foreign_requests() -> None:
    """Ask for proof that a change comes from our own pages wherever a cookie may have let it in."""
    if request.method in _SAFE or request.endpoint is None:
        return
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise ForbiddenError(None)
    if not g.by_token and (principal() is not None or not for_programs()):
        _csrf.protect()
