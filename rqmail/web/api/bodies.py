"""Bodies as they come in: JSON objects and nothing else."""

from __future__ import annotations

import json
from http import HTTPStatus

from flask import request
from werkzeug.exceptions import BadRequest

from rqmail.errors import NotFoundError
from rqmail.web.errors import RefusedError


def check() -> None:
    """Refuse a body that is not a JSON object before anything looks at it; runs before every view of the API."""
    if "\x00" in request.path:
        raise NotFoundError("path", request.path.replace("\x00", "?"))
    if request.method in {"GET", "HEAD", "OPTIONS"}:
        return
    if not request.get_data():
        if request.method == "PUT":
            raise RefusedError(HTTPStatus.BAD_REQUEST, "A JSON object is needed as body.")
        return
    if not request.is_json:
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON: Content-Type: application/json")
    try:
        body = request.get_json()
    except (BadRequest, RecursionError):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "The body must be a JSON object.")
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # JSON can escape one half of a character; no database stores it and no answer can repeat it.
        raise RefusedError(HTTPStatus.BAD_REQUEST, "The body holds half a character.") from None
