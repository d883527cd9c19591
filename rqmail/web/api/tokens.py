"""Named tokens: who may come in, with which scopes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from flask import Blueprint
from pydantic import Field

from rqmail.administration.access import Scope
from rqmail.insight.jsonable import as_json
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Line, Moment
from rqmail.web.context import application, changes

blueprint = Blueprint("tokens", __name__, url_prefix="/admin/tokens")

_TAG = "Tokens"


class Token(ApiModel):
    """A named token as it can be shown: everything but the token."""

    name: str
    scopes: list[Scope]
    created_on: datetime
    created_by: str
    expires_on: datetime | None
    last_used_on: datetime | None
    revoked_on: datetime | None
    mailboxes: list[str] | None


class Tokens(ApiModel):
    """All named tokens, by name, the revoked ones too."""

    tokens: list[Token]


class NewToken(ApiModel):
    """A token to issue; without expiresOn it holds until it is revoked, with mailboxes it sends from these alone."""

    name: Line
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=3)]
    expires_on: Moment | None = None
    mailboxes: Annotated[list[Line], Field(max_length=1000)] = Field(default_factory=list)


class IssuedToken(Token):
    """A token that was just issued: the only time it is shown."""

    token: str


@blueprint.get("")
@operation(Scope.ADMIN, _TAG, Tokens)
def list_tokens() -> Any:
    """List all named tokens."""
    return {"tokens": as_json(application().access.tokens())}


@blueprint.post("")
@operation(Scope.ADMIN, _TAG, IssuedToken, 409, status=201)
def create_token(json: NewToken) -> Any:
    """Issue a named token; the answer is the only place it is ever shown."""
    view, token = changes().create_token(json.name, json.scopes, json.expires_on, json.mailboxes)
    return as_json(view) | {"token": token}, 201


@blueprint.delete("/<name>")
@operation(Scope.ADMIN, _TAG, Token, 404)
def revoke_token(name: str) -> Any:
    """Revoke this token."""
    return as_json(changes().revoke_token(name))
