"""What a view has at hand: the application, and who is asking."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask, current_app, g, request

from rqmail.administration.access import Principal
from rqmail.administration.attempts import Attempts
from rqmail.administration.changes import Changes
from rqmail.bootstrap import Application

_EXTENSION = "rqmail"

#: Where programs ask; every other path is for people.
_PROGRAM_PATHS = ("/admin/", "/messages", "/forecast", "/healthz", "/readyz", "/metrics", "/openapi")


@dataclass(frozen=True)
class _Bound:
    application: Application
    attempts: Attempts


def bind(app: Flask, application: Application, attempts: Attempts) -> None:
    """Give the views of ``app`` their application."""
    app.extensions[_EXTENSION] = _Bound(application, attempts)


def application() -> Application:
    """Answer the application the present request is for."""
    bound: _Bound = current_app.extensions[_EXTENSION]
    return bound.application


def attempts() -> Attempts:
    """Answer the count of sign-ins that failed."""
    bound: _Bound = current_app.extensions[_EXTENSION]
    return bound.attempts


def principal() -> Principal | None:
    """Answer who is asking; ``None`` when nobody we know."""
    found: Principal | None = g.get("principal")
    return found


def may_send_from(sender: str) -> bool:
    """Say whether the one who is asking may hand in mail of a sender; whose token is bound sees no other mail, too."""
    asking = principal()
    return asking is not None and asking.may_send_from(sender)


def who() -> str:
    """Answer the name under which the one who is asking is written down."""
    found = principal()
    return "nobody" if found is None else found.name


def changes() -> Changes:
    """Answer what makes changes in the name of the one who is asking."""
    return application().changes.by(who())


def for_programs() -> bool:
    """Say whether the present request is answered in JSON, whatever goes wrong, rather than with a page."""
    return request.path.startswith(_PROGRAM_PATHS)
