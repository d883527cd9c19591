"""Attached files as they are handed in: read once for size and hash, named and typed; the bytes stay where they are."""

from __future__ import annotations

import hashlib
import io
import mimetypes
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from rqmail.errors import InvalidInputError
from rqmail.models.content import AttachedFile
from rqmail.text.scrubbing import scrubbed_start

FIELD = "attachments"

#: Bytes of one file; Graph's upload sessions take no more.
MAX_FILE_BYTES = 150 * 1024 * 1024
MAX_FILES = 250
MAX_NAME_LENGTH = 255

#: Opens the bytes of a file from their beginning.
Source = Callable[[], AbstractContextManager[BinaryIO]]

_PIECE = 256 * 1024

#: Bytes at the beginning of a file by which its type is recognised.
_HEAD = 4096

#: What no name may hold: control characters, line breaks, halves of characters, and marks that turn the direction of
#: writing, by which ``exe`` can be made to look like ``pdf``.
_NEVER_IN_A_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTENT_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}")
_CONTENT_ID = re.compile(r"[\x21-\x3b\x3d\x3f-\x7e]{1,255}")

_UNKNOWN_TYPE = "application/octet-stream"
#: What a packed file is, whatever is in it.
_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
#: Python's own table alone: the same name has the same type on every machine.
_TYPES = mimetypes.MimeTypes(filenames=())
for _type, _endings in {
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.ms-outlook": "msg",
    "application/epub+zip": "epub",
    "application/rtf": "rtf",
    "application/x-7z-compressed": "7z",
    "application/yaml": "yaml yml",
    "image/avif": "avif",
    "image/heic": "heic",
    "image/webp": "webp",
    "text/calendar": "ics",
    "text/markdown": "md",
    "text/vcard": "vcf",
}.items():
    for _ending in _endings.split():
        _TYPES.add_type(_type, f".{_ending}")

#: Endings that Exchange Online or Outlook keep from whoever receives them (Microsoft's list of blocked file types).
_BLOCKED = """
ade adp apk app application appref-ms asp aspx asx bas bat bgi bz2 cab cer chm cmd cnt com cpl crt csh
der diagcab dll elf exe fxp gadget grp hlp hpj hta htc img inf ins iso isp its jar jnlp js jse ksh lnk
mad maf mag mam maq mar mas mat mau mav maw mcf mda mdb mde mdt mdw mdz msc msh msh1 msh1xml msh2 msh2xml
mshxml msi msp mst msu ops osd pcd pif pl plg prf prg printerexport ps1 ps1xml ps2 ps2xml psc1 psc2 psd1
psdm1 pst py pyc pyo pyw pyz pyzw reg scf scr sct shb shs sys theme tmp url vb vbe vbp vbs vhd vhdx
vsmacros vsw vxd webpnp website ws wsc wsf wsh xbap xll xnk
"""
BLOCKED_ENDINGS = frozenset(_BLOCKED.split())


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as an application attaches it, nothing checked yet.

    ``content`` is the bytes, a path, or a binary file that is open for reading. Without a ``content_type`` it follows
    from the name and, in doubt, the content. ``is_inline`` and ``content_id`` go together: a picture that the HTML
    shows by ``cid:`` and that id.
    """

    name: str
    content: bytes | str | Path | BinaryIO = field(repr=False)
    content_type: str | None = None
    is_inline: bool = False
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class Most:
    """How many bytes a file may have, and why no more."""

    size: int = MAX_FILE_BYTES
    why: str = "that is the most one file may have"

    def refusal(self, name: str) -> InvalidInputError:
        """Say that a file is larger."""
        return InvalidInputError(FIELD, name, f"a file of at most {self.size:,} bytes: {self.why}")


@dataclass(frozen=True, slots=True)
class _Measured:
    size: int
    sha256: str
    head: bytes
    source: Source


class Reader:
    """Reads the files of one request or one import: a path that many messages name is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], _Measured] = {}

    def read(self, attachment: Attachment, most: Most = Most()) -> AttachedFile:
        """Check a file and measure it, reading no more than ``most``; raises ``InvalidInputError``."""
        if not isinstance(attachment, Attachment):
            raise InvalidInputError(FIELD, type(attachment).__name__, "files as rqmail.Attachment(name, content)")
        name = checked_name(attachment.name)
        content_type = _checked_type(attachment.content_type)
        content_id = _checked_inline(attachment)
        measured = self._measured(attachment, name, most)
        return AttachedFile(
            name,
            content_type or type_of(name, measured.head),
            measured.size,
            measured.sha256,
            attachment.is_inline,
            content_id,
            measured.source,
        )

    def _measured(self, attachment: Attachment, name: str, most: Most) -> _Measured:
        content = attachment.content
        if isinstance(content, bytes | bytearray | memoryview):
            given = bytes(content)
            return _measure(name, lambda: io.BytesIO(given), most)
        if isinstance(content, str | Path):
            return self._of_path(Path(content), name, most)
        if callable(getattr(content, "read", None)):
            return _of_stream(content, name, most)
        raise InvalidInputError(FIELD, name, "bytes, a path or an open binary file as content")

    def _of_path(self, path: Path, name: str, most: Most) -> _Measured:
        try:
            seen = path.stat()
            if not path.is_file():
                raise InvalidInputError(FIELD, name, "a file, which this is not")
            key = (str(path.absolute()), seen.st_mtime_ns, seen.st_size)
            if key not in self._known or self._known[key].size > most.size:
                if seen.st_size > most.size:
                    raise most.refusal(name)
                self._known[key] = _measure(name, lambda: path.open("rb"), most)
            return self._known[key]
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or type(error).__name__
            raise InvalidInputError(FIELD, name, f"a file that can be read ({told})") from None


def checked_name(name: object) -> str:
    """Answer the name of a file; raises ``InvalidInputError`` for one that is a path, or no line of text."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(FIELD, name, "files with a name")
    name = name.strip()
    if len(name) > MAX_NAME_LENGTH or _NEVER_IN_A_NAME.search(name):
        raise InvalidInputError(
            FIELD, scrubbed_start(name, 60), f"names of at most {MAX_NAME_LENGTH} printable characters on one line"
        )
    if "/" in name or "\\" in name or name in {".", ".."}:
        raise InvalidInputError(FIELD, name, "names without a path")
    return name


def type_of(name: str, head: bytes) -> str:
    """Answer the MIME type of a file by its name and, where that says nothing, by its first bytes."""
    by_name, packed = _TYPES.guess_type(f"x{name}".replace(":", "_"), strict=False)
    if packed is not None:
        return _PACKED.get(packed, _UNKNOWN_TYPE)
    if by_name is not None:
        return by_name
    return _type_by_content(head) or _UNKNOWN_TYPE


def is_blocked(name: str) -> bool:
    """Say whether Exchange or Outlook keep a file of this name from whoever receives it."""
    return name.rpartition(".")[2].lower() in BLOCKED_ENDINGS and "." in name


def _type_by_content(head: bytes) -> str | None:
    if not head:
        return None
    import puremagic  # noqa: PLC0415 - only in doubt, and its table takes a while to load

    try:
        found = puremagic.magic_string(head)
    except (puremagic.PureError, ValueError):
        return None
    return next((one.mime_type for one in found if _CONTENT_TYPE.fullmatch(one.mime_type or "")), None)


def _checked_type(content_type: object) -> str | None:
    if content_type is None:
        return None
    if not isinstance(content_type, str) or not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidInputError(FIELD, content_type, "a content type such as application/pdf")
    return content_type.lower()


def _checked_inline(attachment: Attachment) -> str | None:
    content_id = attachment.content_id
    if attachment.is_inline != (content_id is not None):
        raise InvalidInputError(
            FIELD, attachment.name, "isInline and contentId together: the HTML shows an inline picture by its contentId"
        )
    if content_id is not None and (not isinstance(content_id, str) or not _CONTENT_ID.fullmatch(content_id)):
        raise InvalidInputError(
            FIELD, content_id, "a contentId of at most 255 visible characters of ASCII, without < and >"
        )
    return content_id


def _of_stream(opened: BinaryIO, name: str, most: Most) -> _Measured:
    """Measure an open file, from where it stands; one that cannot be rewound is copied to disk first."""
    if isinstance(cast(object, opened), io.TextIOBase):
        raise InvalidInputError(FIELD, name, "a file opened in binary mode")
    if not (callable(getattr(opened, "seekable", None)) and opened.seekable()):
        opened = _copied(opened, name, most)
    begin = opened.tell()

    @contextmanager
    def again() -> Iterator[BinaryIO]:
        opened.seek(begin)
        yield opened  # it is closed by whoever opened it

    return _measure(name, again, most)


def _copied(opened: BinaryIO, name: str, most: Most) -> BinaryIO:
    copy = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with the last who reads it
    size = 0
    while piece := opened.read(_PIECE):
        size += len(piece)
        if size > most.size:
            raise most.refusal(name)
        copy.write(piece)
    copy.seek(0, os.SEEK_SET)
    return copy


def _measure(name: str, source: Source, most: Most) -> _Measured:
    digest = hashlib.sha256()
    size = 0
    head = b""
    with source() as opened:
        while piece := opened.read(_PIECE):
            if not isinstance(piece, bytes):
                raise InvalidInputError(FIELD, name, "a file opened in binary mode")
            head = head or piece[:_HEAD]
            size += len(piece)
            if size > most.size:
                raise most.refusal(name)
            digest.update(piece)
    return _Measured(size, digest.hexdigest(), head, source)
