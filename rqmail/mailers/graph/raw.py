"""A mail that is sent in MIME form as it came: what a signature covers is not touched."""

from __future__ import annotations

import base64
import re

from rqmail.mailers.graph.message import ID_HEADER

#: Headers that go no further: who gets a blind copy, and an id of another message of ours.
_DROPPED = frozenset({b"bcc", b"resent-bcc", ID_HEADER.encode()})
_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:")


def as_request(content: bytes, message_id: str) -> bytes:
    """Write a mail as Graph takes one in MIME form, with our id and without Bcc.

    Lines end as mail's do, with CRLF: that is what a signature was made over, whatever a file made of it.
    """
    lines = re.split(rb"\r\n|\n|\r(?!\n)", content)
    if lines[0].startswith(b"From "):  # how mailbox files begin a mail
        del lines[0]
    headers = [ID_HEADER.encode() + b": " + message_id.encode()]
    body, dropped = len(lines), False
    for number, line in enumerate(lines):
        named = _HEADER.match(line)
        if named is None and line[:1] not in (b" ", b"\t"):
            body = number  # the empty line, or what begins the body without one
            break
        dropped = dropped if named is None else named[1].lower() in _DROPPED
        if not dropped:
            headers.append(line)
    rest = lines[body:]
    if not rest or rest[0]:
        rest.insert(0, b"")
    return base64.b64encode(b"\r\n".join([*headers, *rest]))
