"""The one character that no database stores: refused wherever a browser or a program sends it, before any view runs."""

from __future__ import annotations

from http import HTTPStatus

from flask import Flask, request
from werkzeug.datastructures import MultiDict

from rqmail.errors import NotFoundError
from rqmail.web.context import for_programs
from rqmail.web.errors import RefusedError

_NUL = "\x00"


def install(app: Flask) -> None:
    """Refuse NUL characters, once it is known who is asking; programs are told by their field's name instead."""
    app.before_request(_refuse)


def _refuse() -> None:
    if _NUL in request.path:
        raise NotFoundError("path", request.path.replace(_NUL, "?"))
    if request.endpoint is None or for_programs():
        return
    if (
        _is_in(request.args)
        or _is_in(request.form)
        or any(_NUL in (one.filename or "") for one in request.files.values())
    ):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "What was sent holds a NUL character, which is no text.")


def _is_in(values: MultiDict[str, str]) -> bool:
    return any(_NUL in name or _NUL in value for name, value in values.items(multi=True))
