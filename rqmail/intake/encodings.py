"""The characters of a file: which encoding it is in, and its lines as text, read as a stream."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO

from rqmail.errors import InvalidInputError
from rqmail.text.decoding import encoding_named, encoding_of

_SAMPLE = 64_000
_CHUNK = 100_000
_ALLOWED = "a text in UTF-8, UTF-16 or Windows-1252 (--encoding names another)"
_END_OF_FILE = "\x1a"
_MARK = "\ufeff"


def find_encoding(file: IO[bytes], forced: str | None = None) -> str:
    """Name the encoding of a file: the one that was asked for, else by its marks, its zero bytes, or what fits."""
    if forced is not None:
        try:
            return encoding_named(forced)
        except (LookupError, ValueError):
            raise InvalidInputError("encoding", forced, "utf-8, utf-16, windows-1252 or another that exists") from None
    file.seek(0)
    sample = file.read(_SAMPLE)
    marked = sample.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    if marked or sample.count(0) > len(sample) // 5:
        return encoding_of(sample)
    file.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    beyond_ascii = False
    line = 1
    while chunk := file.read(_CHUNK):
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError as error:
            before, wrong = error.object[: error.start], error.object[error.start]
            if beyond_ascii or not before.isascii():
                ends = before.count(b"\n")
                found = f"byte 0x{wrong:02x} in line {line + ends}"
                raise InvalidInputError("file", found, _ALLOWED) from None
            return encoding_of(sample + error.object[max(0, error.start - 1_000) : error.start + _SAMPLE])
        beyond_ascii = beyond_ascii or not text.isascii()
        line += text.count("\n")
    return "utf-8"


def lines_of(file: IO[bytes], encoding: str) -> Iterator[str]:
    """Read the lines of a file from its beginning, whatever ends them, without byte order marks and Ctrl-Z."""
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    number = 0
    try:
        for number, line in enumerate(text, start=1):
            if number == 1:
                line = line.lstrip(_MARK)  # noqa: PLW2901
            if "\x00" in line:
                raise InvalidInputError("file", f"a NUL byte in line {number}", _ALLOWED)
            if _END_OF_FILE in line:
                line = line.rstrip(_END_OF_FILE)  # noqa: PLW2901
                if not line.strip(_END_OF_FILE + "\r\n"):
                    continue
            yield line
    except UnicodeError:
        raise InvalidInputError("file", f"bytes that are no {encoding} after line {number}", _ALLOWED) from None
    finally:
        if not file.closed:
            text.detach()  # else it would close the file, which is read again
