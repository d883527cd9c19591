"""Bodies as they come in: JSON objects in UTF-8, plain or gzipped, within bounds, and nothing else."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, cast

from flask import Request, request

from rqmail.web import uploads
from rqmail.web.config import MAX_REQUEST_BYTES
from rqmail.web.errors import RefusedError

#: How deep objects and lists may stand in each other; what the API takes needs five.
MAX_DEPTH = 32

_READ_GZIP = zlib.MAX_WBITS | 16


class ApiRequest(Request):
    """A request whose JSON body was read once, by :func:`check`."""

    checked: dict[str, Any] | None = None

    def get_json(self, *args: Any, **options: Any) -> Any:
        """Answer the body that was checked."""
        return super().get_json(*args, **options) if self.checked is None else self.checked


def check() -> None:
    """Refuse a body that is neither a JSON object nor of a kind that its view reads itself; runs before every view."""
    if request.method in {"GET", "HEAD", "OPTIONS"}:
        return
    taken = uploads.taken()
    if request.mimetype in taken.kinds:
        _check_sent_plain()
        return
    if not taken.json:
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be a form with a file: Content-Type: multipart/form-data"
        )
    data = _plain(request.get_data(cache=False))
    if not data:
        if request.method == "PUT":
            raise _refused("A JSON object is needed as body.")
        return
    if not request.is_json:
        others = "".join(f", or {kind}" for kind in sorted(taken.kinds))
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body must be JSON: Content-Type: application/json{others}"
        )
    cast(ApiRequest, request).checked = parsed(data)


def parsed(data: bytes, what: str = "body") -> dict[str, Any]:
    """Read a JSON object, nested no deeper than it may be, of text that can be stored."""
    try:
        body = json.loads(_text(data, what))
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        where = (
            f": {error.msg}, line {error.lineno}, column {error.colno}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise _refused(f"The {what} is not JSON{where}.") from None
    if not isinstance(body, dict):
        raise _refused(f"The {what} must be a JSON object.")
    _look_through(body)
    return body


def _check_sent_plain() -> None:
    """Refuse what is packed: it is read from disk, as it came."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
        kind = "form with a file" if request.mimetype == uploads.FORM else "mail in MIME form"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A {kind} is sent without Content-Encoding.")


def _plain(data: bytes) -> bytes:
    """Undo the content encoding; what it unfolds to is bounded as if it had been sent plain."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding in {"", "identity"} or not data:
        return data
    if encoding not in {"gzip", "x-gzip"}:
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "Content-Encoding must be gzip, or left out.",
            headers={"Accept-Encoding": "gzip"},
        )
    unpacking = zlib.decompressobj(_READ_GZIP)
    try:
        plain = unpacking.decompress(data, MAX_REQUEST_BYTES + 1)
    except zlib.error:
        raise _refused("The body is not gzip, though Content-Encoding says so.") from None
    if len(plain) > MAX_REQUEST_BYTES:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body unpacks to more than {MAX_REQUEST_BYTES:,} bytes."
        )
    if not unpacking.eof or unpacking.unused_data:
        raise _refused("The body is not one whole gzip stream.")
    return plain


def _text(data: bytes, what: str) -> str:
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if not encoding.startswith("utf-8"):
            raise _refused(f"The {what} is not JSON: it is not UTF-8.") from None
        raise _refused(
            f"The {what} is not UTF-8: byte {error.start + 1} is 0x{data[error.start]:02X}."
            " It may be Latin-1 or Windows-1252: JSON is sent in UTF-8."
        ) from None


def _look_through(body: dict[str, Any]) -> None:
    """Refuse what is nested too deep to be worked on, and text that no database stores and no answer can repeat."""
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        level = [part for whole in level for part in _containers_in(whole)]
        if not level:
            return
    raise _too_deep()


def _containers_in(whole: dict[str, Any] | list[Any]) -> Iterator[dict[str, Any] | list[Any]]:
    parts = whole
    if isinstance(whole, dict):
        for name in whole:
            _check_text(name)
        parts = list(whole.values())
    for part in parts:
        if isinstance(part, dict | list):
            yield part
        elif isinstance(part, str):
            _check_text(part)


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can escape one half of a character
        raise _refused("The body holds half a character.") from None


def _too_deep() -> RefusedError:
    return _refused(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _refused(text: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, text)
