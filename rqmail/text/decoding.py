"""Text files as other programs write them: with or without a byte order mark, in UTF-8, UTF-16 or Windows-1252."""

from __future__ import annotations

import codecs
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE

#: Longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (BOM_UTF32_LE, "utf-32"),
    (BOM_UTF32_BE, "utf-32"),
    (BOM_UTF8, "utf-8-sig"),
    (BOM_UTF16_LE, "utf-16"),
    (BOM_UTF16_BE, "utf-16"),
)

#: What Western European Windows writes, and what has a character for nearly every byte.
_LAST_RESORT = "cp1252"

#: Codecs of Python's that are for names and source code, not for texts; the first takes time by the square of a length.
_NOT_OF_TEXTS = frozenset({"punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined"})


def encoding_named(name: str) -> str:
    """Answer what Python calls an encoding of texts; ``LookupError`` or ``ValueError`` for what is none."""
    "".encode(name)  # refuses what exists but is no encoding of texts, such as base64
    found = codecs.lookup(name).name
    if found in _NOT_OF_TEXTS:
        raise LookupError(name)
    return found


def decoded(data: bytes) -> str:
    """Decode a text file, without its byte order marks; bytes that fit nothing become question marks."""
    return data.decode(encoding_of(data), errors="replace").lstrip("\ufeff")


def encoding_of(data: bytes) -> str:
    """Name the encoding of a text: by its byte order mark, else UTF-16 by its zero bytes, else UTF-8 if that fits."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    if b"\0" in data:
        return "utf-16-be" if data[0::2].count(0) > data[1::2].count(0) else "utf-16-le"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(data)
    return "utf-8"


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - needed for few files, and slow to import

    beyond_ascii = len(data) - len(data.translate(None, _BEYOND_ASCII))
    if len(data) <= _ENOUGH_TO_GUESS or beyond_ascii < len(data) * _SHARE_TO_GUESS:
        return _LAST_RESORT
    matches = from_bytes(data)
    best = matches.best()
    if best is None:
        return _LAST_RESORT
    for match in matches:  # its close kin fit as well: without this, señor would be read as seńor
        if _LAST_RESORT in {match.encoding, *match.could_be_from_charset} and match.chaos <= best.chaos + _AS_GOOD:
            return _LAST_RESORT
    return best.encoding


#: A guess over less than this, or over a few signs among many in ASCII, is luck.
_ENOUGH_TO_GUESS = 200
_SHARE_TO_GUESS = 0.04
_BEYOND_ASCII = bytes(range(128, 256))

#: So much more disorder (of 1) is no reason for another encoding than the usual one.
_AS_GOOD = 0.01
