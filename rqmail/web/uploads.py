"""Files that are uploaded: which views take one, and how large it may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flask import current_app, request

_V = TypeVar("_V", bound=Callable[..., Any])

#: A file of messages at most, with the form around it; it is spooled to disk, by the server and by the form parser.
MAX_UPLOAD_BYTES = 50 * 1024 * 1024

#: What stands beside the file is kept in memory: so large a field, so many of them. The form parser holds what it has
#: read of a file to this bound too, and reads 64 KiB at a time.
_MAX_FIELD_BYTES = 256 * 1024
_MAX_PARTS = 50

#: Where it is written down that a view takes a file: on the view itself.
_MARK = "rqmail_takes_file"


def takes_file(view: _V) -> _V:
    """Let a view be sent a form with a file: larger than any other body."""
    setattr(view, _MARK, True)
    return view


def expected() -> bool:
    """Say whether the present request is for a view that takes a file."""
    return bool(getattr(current_app.view_functions.get(request.endpoint or ""), _MARK, False))


def allow() -> None:
    """Let the present request be as large as a file where one is expected; called once it is known who asks."""
    if expected():
        request.max_content_length = MAX_UPLOAD_BYTES
        request.max_form_memory_size = _MAX_FIELD_BYTES
        request.max_form_parts = _MAX_PARTS
