"""The parts of a mail, read as a stream: what is large goes to disk, whatever the size of the mail."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO

from rqmail.errors import InvalidInputError
from rqmail.intake.eml.headers import Headers

#: Less than this of a part stays in memory.
_IN_MEMORY = 64 * 1024
#: A line is read in pieces of at most so many bytes.
_LINE = 64 * 1024
_MAX_HEADER_BYTES = 512 * 1024
_MAX_DEPTH = 30
_MAX_PARTS = 1_000

_HEADER_LINE = re.compile(rb"[!-9;-~]+[ \t]*:")
_NOT_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))


@dataclass(slots=True)
class Part:
    """A part of a mail: its headers, and its content, decoded, to be read from its beginning.

    ``parts`` are those of a multipart, whose content is empty; ``None`` for every other part.
    """

    headers: Headers
    content: IO[bytes] = field(default_factory=BytesIO)
    size: int = 0
    parts: list[Part] | None = None


def read_parts(mail: BinaryIO, open_files: ExitStack) -> Part:
    """Read a whole mail; ``open_files`` closes what its contents are in.

    Raises ``InvalidInputError`` for one that is nested or split beyond all use. What is broken is read as far as it
    goes: a boundary that never comes ends with the mail.
    """
    return _Reader(mail, open_files).part([], 0)


class _Reader:
    """Goes through the lines of a mail once; a line that was looked at too early is put back.

    Lines that cannot be boundaries are taken many at a time: files are almost all of a large mail.
    """

    def __init__(self, mail: BinaryIO, open_files: ExitStack) -> None:
        self._mail = mail
        self._open_files = open_files
        self._put_back: bytes | None = None
        self._buffer = b""
        self._at = 0
        self._at_line_start = True
        self._count = 0

    def part(self, boundaries: list[bytes], depth: int) -> Part:
        """Read one part, up to the next of ``boundaries``, which is put back."""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_PARTS:
            raise InvalidInputError(
                "eml", f"{self._count:,} parts, {depth} deep", f"at most {_MAX_PARTS:,} parts, {_MAX_DEPTH} deep"
            )
        headers = Headers(self._header_lines(boundaries))
        boundary = headers.parameter("boundary").encode("utf-8", "surrogateescape")
        if headers.content_type.startswith("multipart/") and boundary:
            own = [*boundaries, boundary]
            self._pass_over(own)
            inner: list[Part] = []
            while self._opens(boundary):
                inner.append(self.part(own, depth + 1))
            self._pass_over(boundaries)
            return Part(headers, parts=inner)
        part = Part(headers, self._open_files.enter_context(SpooledTemporaryFile(_IN_MEMORY)))  # noqa: SIM115 - it stays open
        decoder = _DECODERS.get(headers.encoding, _as_it_is)
        for piece in decoder(self._body(boundaries)):
            part.size += part.content.write(piece)
        part.content.seek(0)
        return part

    def _header_lines(self, boundaries: list[bytes]) -> bytes:
        found: list[bytes] = []
        size = 0
        while line := self._line():
            if self._is_boundary(line, boundaries):
                self._back(line)
                break
            if not line.strip(b"\r\n"):
                break
            if line[:1] not in b" \t" and not _HEADER_LINE.match(line):
                if not found and line.startswith((b"From ", b">From ")):  # how mailbox files begin a mail
                    continue
                self._back(line)
                break
            size += len(line)
            if size > _MAX_HEADER_BYTES:
                raise InvalidInputError("eml", f"{size:,} bytes of headers", f"at most {_MAX_HEADER_BYTES:,} in a part")
            found.append(line)
        return b"".join(found)

    def _body(self, boundaries: list[bytes]) -> Iterator[bytes]:
        """Read lines up to a boundary; the line break before it belongs to it."""
        ending = b""
        while True:
            begins = self._at_line_start
            line = self._lines() or self._line()
            if not line:
                yield ending
                return
            if begins and self._is_boundary(line, boundaries):
                self._back(line)
                return
            last = line.rfind(b"\n", 0, -1) + 1
            text = line[:last] + line[last:].rstrip(b"\r\n") if line.endswith(b"\n") else line
            yield ending + text
            ending = line[len(text) :]

    def _pass_over(self, boundaries: list[bytes]) -> None:
        for _ in self._body(boundaries):
            pass

    def _opens(self, boundary: bytes) -> bool:
        """Take the line if it is this boundary; say whether a part follows. A closing one is taken, too."""
        line = self._line()
        if not line:
            return False
        if not self._is_boundary(line, [boundary]):
            self._back(line)
            return False
        return not line.rstrip().endswith(b"--" + boundary + b"--")

    def _lines(self) -> bytes:
        """Take whole lines none of which begins as a boundary does; nothing where the next one might."""
        if self._put_back is not None or not self._at_line_start or not self._holds(3):
            return b""
        if self._buffer.startswith(b"-", self._at):
            return b""
        end = self._buffer.find(b"\n--", self._at)
        end = self._buffer.rfind(b"\n", self._at) if end < 0 else end
        return self._take(end + 1)

    def _line(self) -> bytes:
        line = self._put_back
        self._put_back = None
        if line is None:
            self._holds(1)
            if (end := self._buffer.find(b"\n", self._at)) < 0 and self._holds(_LINE):
                end = self._buffer.find(b"\n", self._at)
            line = self._take(min(end + 1 or len(self._buffer), self._at + _LINE))
        self._at_line_start = line.endswith(b"\n")
        return line

    def _take(self, end: int) -> bytes:
        """Take what stands before ``end`` in the buffer."""
        taken = self._buffer[self._at : end]
        self._at = max(end, self._at)
        return taken

    def _holds(self, number: int) -> bool:
        """Read on until the buffer holds so many bytes, or all there are; say whether it holds any."""
        while len(self._buffer) - self._at < number and (more := self._mail.read(_LINE)):
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
        return len(self._buffer) > self._at

    def _back(self, line: bytes) -> None:
        self._put_back = line
        self._at_line_start = True

    def _is_boundary(self, line: bytes, boundaries: list[bytes]) -> bool:
        if not line.startswith(b"--"):
            return False
        name = line[2:].rstrip()
        return any(name in (boundary, boundary + b"--") for boundary in boundaries)


def _as_it_is(lines: Iterator[bytes]) -> Iterator[bytes]:
    return lines


def _from_base64(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Decode base64 whatever stands between its letters; what is left over at the end is decoded as far as it goes."""
    rest = b""
    for line in lines:
        letters = rest + line.translate(None, _NOT_BASE64)
        whole = len(letters) // 4 * 4
        rest = letters[whole:]
        yield binascii.a2b_base64(letters[:whole])
    if len(rest) > 1:
        yield binascii.a2b_base64(rest + b"=" * (-len(rest) % 4))


def _from_quoted_printable(lines: Iterator[bytes]) -> Iterator[bytes]:
    # Line breaks come with the line after them; a soft one is told by the "=" before it, so it has to be seen whole.
    waiting = b""
    for piece in lines:
        waiting += piece
        head, newline, waiting = waiting.rpartition(b"\n")
        if newline:
            yield binascii.a2b_qp(head + newline)
        elif len(waiting) > _LINE:
            yield binascii.a2b_qp(waiting)
            waiting = b""
    yield binascii.a2b_qp(waiting)


_DECODERS: dict[str, Callable[[Iterator[bytes]], Iterator[bytes]]] = {
    "base64": _from_base64,
    "quoted-printable": _from_quoted_printable,
}
