"""Text files as other programs write them: with or without a byte order mark, in UTF-8, UTF-16 or Windows-1252."""

from __future__ import annotations

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

    best = from_bytes(data).best()
    return best.encoding if best is not None and len(data) > _ENOUGH_TO_GUESS else _LAST_RESORT


#: A guess over less than this is luck.
_ENOUGH_TO_GUESS = 200
