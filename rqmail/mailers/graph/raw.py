"""A mail that is sent in MIME form as it came: what a signature covers is not touched."""

from __future__ import annotations

import base64
import re

from rqmail.mailers.graph.message import ID_HEADER
from rqmail.mailers.graph.size import LARGEST_REQUEST

#: Bytes that a mail may have with its lines ended by CRLF: as base64, with a header of ours, it is one request.
MOST_WRITTEN = LARGEST_REQUEST // 4 * 3 - 1024

#: Headers that go no further: who gets a blind copy, and an id of another message of ours.
_DROPPED = frozenset({b"bcc", b"resent-bcc", ID_HEADER.encode()})
_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:")


def written_size(content: bytes) -> int:
    """Answer how many bytes a mail has with its lines ended by CRLF, whatever ends them now."""
    return len(content) + content.count(b"\n") + content.count(b"\r") - 2 * content.count(b"\r\n")


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
