"""Named tokens: who may come in, with which scopes. A token is shown once, when it is made."""

from __future__ import annotations

import re
from http import HTTPStatus

from flask import Blueprint, flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from rqmail.administration.access import Scope
from rqmail.errors import ConflictError, InvalidInputError
from rqmail.web.auth import require
from rqmail.web.context import application, changes
from rqmail.web.pages import typed
from rqmail.web.pages.language import say
from rqmail.web.pages.returning import action

blueprint = Blueprint("tokens", __name__, url_prefix="/tokens")

_SCOPES = [scope.value for scope in Scope]


@blueprint.get("")
@require(Scope.ADMIN)
def list_tokens() -> str:
    """Show every token that was issued, the revoked ones too."""
    return render_template("pages/tokens.html", tokens=application().access.tokens(), scopes=_SCOPES)


@blueprint.post("")
@require(Scope.ADMIN)
def create() -> str | tuple[str, int]:
    """Issue a token, and show it this once."""
    wrong: typed.Wrong = {}
    expires = typed.text("expiresOn")
    expires_on = typed.day(expires, typed.text("zone"), after=1) if expires else None
    if expires and expires_on is None:
        wrong["expiresOn"] = say("A day that is not over yet.")
    else:
        try:
            bound = re.split(r"[\s,;]+", typed.text("mailboxes")) if typed.text("mailboxes") else []
            made, token = changes().create_token(
                typed.text("name"), request.form.getlist("scopes"), expires_on, filter(None, bound)
            )
        except InvalidInputError as error:
            typed.note(wrong, error)
        except ConflictError:
            wrong["name"] = say("This one exists already.")
        else:
            tokens = application().access.tokens()
            return render_template("pages/tokens.html", tokens=tokens, scopes=_SCOPES, made=made, token=token)
    return typed.again("pages/tokens.html", wrong, tokens=application().access.tokens(), scopes=_SCOPES)


@action(blueprint, "/<name>/revoke", page="pages.tokens.list_tokens")
@require(Scope.ADMIN)
def revoke(name: str) -> Response:
    """Revoke this token."""
    changes().revoke_token(name)
    flash(say("%(name)s lets nobody in any more.", name=name))
    return redirect(url_for("pages.tokens.list_tokens"), HTTPStatus.SEE_OTHER)
