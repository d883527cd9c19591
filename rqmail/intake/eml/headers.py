"""Headers of a mail or of one of its parts: decoded whatever wrote them, and never a reason to fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from email.headerregistry import AddressHeader
from email.parser import HeaderParser
from email.policy import compat32, default
from email.utils import collapse_rfc2231_value, getaddresses

from rqmail.intake.eml.plain import message_of, names_and_addresses
from rqmail.text.decoding import decoded, encoding_named

#: Character sets as some programs call them, and what Python calls them.
_OTHER_NAMES = {
    "ansi": "cp1252",
    "ansi_x3.110-1983": "latin-1",
    "cp-850": "cp850",
    "iso-8859-6-i": "iso-8859-6",
    "iso-8859-8-i": "iso-8859-8",
    "ks_c_5601-1987": "cp949",
    "unicode-1-1-utf-7": "utf-7",
    "unknown-8bit": "utf-8",
    "utf8mb4": "utf-8",
    "windows-31j": "cp932",
    "x-gbk": "gbk",
    "x-mac-roman": "mac-roman",
    "x-sjis": "cp932",
    "x-unknown": "utf-8",
}
#: What is a subset of a larger set, and written with characters of the larger one all the same.
_LARGER = {"us-ascii": "utf-8", "ascii": "utf-8", "iso-8859-1": "cp1252", "latin-1": "cp1252", "gb2312": "gb18030"}

#: The parsers of the standard library take time by the square of a length: what is longer or in more parts than any
#: mail program writes is not handed to them.
_MAX_WORDS = 32 * 1024
_MAX_PARAMETERS = 200
_MAX_ADDRESS = 1_500

_SEPARATOR = re.compile(r'\\.|[",]', re.DOTALL)
_FOLD = re.compile(r"[\r\n]+(?=[ \t])")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Address:
    """An address of a header, as it stands there; it has not been checked."""

    address: str
    name: str = ""


class Headers:
    """The headers of a mail or a part of one; ``lines`` are the bytes before the empty line.

    Names that are asked for are in small letters.
    """

    def __init__(self, lines: bytes) -> None:
        text = decoded(lines.replace(b"\0", b""))
        plain = message_of(text)
        self._message = HeaderParser(policy=compat32).parsestr(text, headersonly=True) if plain is None else plain
        self._by_name: dict[str, list[str]] = {}
        for name, raw in self._message.raw_items():
            self._by_name.setdefault(name.lower(), []).append(str(raw))
        #: The type of the part, in small letters; ``text/plain`` where none can be read.
        self.content_type = self._message.get_content_type()

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def text(self, name: str) -> str:
        """Answer the first header of this name (in small letters) on one line, empty when there is none."""
        raw = self._by_name.get(name)
        return "" if raw is None else in_one_line(_decoded_words(raw[0]))

    def items(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """List the names that are wanted (asked in small letters) and their values, decoded and on one line."""
        for name, raw in self._message.raw_items():
            if wanted(name.lower()):
                yield name, in_one_line(_decoded_words(str(raw)))

    def addresses(self, name: str) -> list[Address]:
        """List the addresses of all headers of this name, in their order; groups are taken apart."""
        found = []
        for raw in self._by_name.get(name, ()):
            for piece in [raw] if len(raw) <= _MAX_ADDRESS else filter(None, _at_commas(raw)):
                found += addresses_of(name, piece)
        return found

    @property
    def encoding(self) -> str:
        """How the bytes of the part are written: ``base64``, ``quoted-printable``, or as they are."""
        return self.text("content-transfer-encoding").strip().lower()

    @property
    def is_attachment(self) -> bool:
        """Whether the part asks to be an attachment."""
        return self.text("content-disposition").partition(";")[0].strip().lower() == "attachment"

    @property
    def content_id(self) -> str:
        """What ``cid:`` in the HTML names the part by, without brackets."""
        return self.text("content-id").strip().strip("<>").strip()

    def parameter(self, name: str, header: str = "content-type") -> str:
        """Answer a parameter of a header, such as the boundary or the character set; empty when there is none."""
        raw = self._by_name.get(header, [""])[0]
        if name not in raw.lower() or raw.count(";") > _MAX_PARAMETERS:
            return ""
        try:
            value = self._message.get_param(name, header=header)
        except (HeaderParseError, LookupError, ValueError, AttributeError, TypeError):
            return ""
        return "" if value is None else in_one_line(_decoded_words(collapse_rfc2231_value(value)))

    @property
    def filename(self) -> str:
        """The name the part gives its file; empty when it gives none."""
        return self.parameter("filename", "content-disposition") or self.parameter("name")


def addresses_of(header: str, text: str) -> list[Address]:
    """List the addresses that stand in a header of this name, or in a piece of a long one."""
    plain = names_and_addresses(text)
    if plain is not None:
        return [Address(address, shown) for shown, address in plain]
    return read_addresses(header, text)


def read_addresses(header: str, text: str) -> list[Address]:
    """List the same by the standard library, which knows all ways to write them."""
    return [Address(address, in_one_line(_decoded_words(shown))) for shown, address in _pairs(header, text) if address]


def in_one_line(text: str) -> str:
    """Answer the text with every run of line breaks and control characters made one blank."""
    return _UNSEEN.sub(" ", text).strip()


def decoded_as(data: bytes, charset: str) -> str:
    """Decode text in the character set its part names, or in what it looks like when that is wrong or unknown."""
    wanted = charset.strip().strip("'\"").lower()
    name = _OTHER_NAMES.get(wanted, wanted)
    for candidate in dict.fromkeys((_LARGER.get(name, name), name)):
        try:
            return data.decode(encoding_named(candidate)).removeprefix("\ufeff")
        except (LookupError, ValueError):
            continue
    return decoded(data)


def _decoded_words(text: str) -> str:
    """Decode RFC 2047's encoded words wherever they stand, also where the standard does not allow them."""
    text = _FOLD.sub("", text)
    if "=?" not in text or len(text) > _MAX_WORDS:
        return text
    try:
        pieces = decode_header(text)
    except (HeaderParseError, ValueError):
        return text
    words = []
    for piece, charset in pieces:
        if isinstance(piece, str):
            words.append(piece)
        else:
            words.append(decoded_as(piece, charset) if charset else piece.decode("raw-unicode-escape"))
    return "".join(words)


def _pairs(header: str, text: str) -> list[tuple[str, str]]:
    """Answer names and addresses; what cannot be read comes back as an address, for whoever checks it to refuse."""
    if len(text) > _MAX_ADDRESS:
        return [("", in_one_line(text))]
    try:
        parsed = default.header_factory(header, text)
        mailboxes = parsed.addresses if isinstance(parsed, AddressHeader) else ()
        return [(one.display_name, one.addr_spec) for one in mailboxes]
    except (HeaderParseError, LookupError, ValueError, AttributeError, TypeError, RecursionError):
        pass
    try:
        return getaddresses([_decoded_words(text)])
    except RecursionError:  # a comment in a comment in a comment
        return [("", in_one_line(text))]


def _at_commas(text: str) -> Iterator[str]:
    """Cut a long list at the commas that stand in no quotes; of a group that is cut, the end loses its semicolon."""
    start = 0
    quoted = False
    for sign in _SEPARATOR.finditer(text):
        if sign[0] == '"':
            quoted = not quoted
        elif sign[0] == "," and not quoted:
            yield text[start : sign.start()].strip().removesuffix(";")
            start = sign.end()
    yield text[start:].strip().removesuffix(";")
