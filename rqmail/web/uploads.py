"""Bodies that a view reads itself, spooled to disk: which views take which kinds, and how large they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flask import current_app, request
from werkzeug.datastructures import FileStorage

from rqmail.web.context import application

_V = TypeVar("_V", bound=Callable[..., Any])

FORM = "multipart/form-data"
MIME = "message/rfc822"

#: A file of messages at most, with the form around it; it is spooled to disk, by the server and by the form parser.
MAX_UPLOAD_BYTES = 50 * 1024 * 1024

#: The JSON of mail at most, which is read as a whole; larger mail comes as a form or in MIME form.
MAX_JSON_MAIL_BYTES = 40 * 1024 * 1024

#: What may stand around the bytes of a mail: a form's boundaries, headers on the way.
_AROUND_A_MAIL = 1024 * 1024

#: So much the server reads in any case: a mailbox may be given a larger bound than others while it runs.
_MAX_OF_A_MAILBOX = 250 * 1024 * 1024

#: What stands beside the files is kept in memory: so large a field, so many parts. The form parser holds what it has
#: read of a file to the first bound too, and reads 64 KiB at a time.
_MAX_FIELD_BYTES = 256 * 1024
_MAX_PARTS = 50
_MAX_MAIL_FIELD_BYTES = 10 * 1024 * 1024
_MAX_MAIL_PARTS = 300

#: Where it is written down what a view takes: on the view itself.
_MARK = "rqmail_takes"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a view takes: bodies of ``kinds`` that it reads itself, and JSON beside them where ``json`` says so.

    With ``mail`` a body may be as large as a mail, else as a file of messages.
    """

    kinds: frozenset[str] = frozenset()
    json: bool = True
    mail: bool = False


def takes_file(view: _V) -> _V:
    """Let a view be sent a form with a file, and nothing else: larger than any other body."""
    setattr(view, _MARK, Taken(frozenset({FORM}), json=False))
    return view


def one_file(value: object) -> object:
    """Answer the file of a form; raises ``ValueError``, which pydantic reports, for what is none, or several."""
    if not isinstance(value, FileStorage):
        raise ValueError("one file, sent as a part with its filename")  # noqa: TRY004
    return value


def takes_mail(view: _V) -> _V:
    """Let a view be sent mail: as JSON, as a form with files, or in MIME form."""
    setattr(view, _MARK, Taken(frozenset({FORM, MIME}), mail=True))
    return view


def takes_mail_form(view: _V) -> _V:
    """Let a view be sent a mail as a form with files, and nothing else."""
    setattr(view, _MARK, Taken(frozenset({FORM}), json=False, mail=True))
    return view


def taken() -> Taken:
    """Answer what the view of the present request takes."""
    found: Taken = getattr(current_app.view_functions.get(request.endpoint or ""), _MARK, Taken())
    return found


def allow() -> None:
    """Let the present request be as large as what its view takes; called once it is known who asks."""
    what = taken()
    if not what.kinds:
        return
    if not what.mail:
        request.max_content_length = MAX_UPLOAD_BYTES
        request.max_form_memory_size = _MAX_FIELD_BYTES
        request.max_form_parts = _MAX_PARTS
        return
    most = application().intake.largest_message_bytes() + _AROUND_A_MAIL
    current = request.max_content_length or 0
    request.max_content_length = max(
        current, most if request.mimetype in what.kinds else min(most, MAX_JSON_MAIL_BYTES)
    )
    request.max_form_memory_size = _MAX_MAIL_FIELD_BYTES
    request.max_form_parts = _MAX_MAIL_PARTS


def most_read(of_a_message: int) -> int:
    """Answer how many bytes of a request the server reads at most, before it is known who asks and what for."""
    return max(MAX_UPLOAD_BYTES, _MAX_OF_A_MAILBOX, of_a_message) + _AROUND_A_MAIL
