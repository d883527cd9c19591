"""The bytes of attached files, kept once per content: in the database, or where ``RQMAIL_ATTACHMENTS_URL`` points."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, BinaryIO, cast

from uuid_utils import uuid7

from rqmail.clock import Clock
from rqmail.errors import InvalidInputError, NotFoundError, SettingsError
from rqmail.logs import event_log
from rqmail.models import attachments
from rqmail.models.attachments import PIECE_BYTES, Kept
from rqmail.models.base import AWAY_ERRORS
from rqmail.models.content import AttachedFile

log = event_log()

#: What no message refers to stays this long after it last came in: an import that was checked may be stored for seven
#: days, and a clock may be wrong.
KEPT_UNREFERENCED = timedelta(days=8)

#: Contents deleted in one transaction.
_AT_ONCE = 20

#: Pieces read in one statement, where so much is asked for: 1 MiB.
_PIECES_AT_ONCE = 4


class ContentStore:
    """Keeps contents by their SHA-256 and reads them again, a piece at a time: no file is ever in memory as a whole.

    ``url`` (``file:///…``, ``s3://…``, whatever fsspec knows) is where new contents go; without one they go into the
    database. Each is read from where it was put, whatever ``url`` says by now.
    """

    def __init__(self, clock: Clock, url: str | None = None) -> None:
        self._clock = clock
        self._url = None if url is None else url.rstrip("/")

    def keep(self, files: Iterable[AttachedFile]) -> None:
        """Keep the bytes of these files, each content once; on return they are safe.

        Raises ``InvalidInputError`` when a file is not what it was when it was checked.
        """
        for sha256, one in sorted({one.sha256: one for one in files}.items()):
            if not attachments.came_in_again(sha256, self._clock()):
                self._keep_new(one)

    def open(self, sha256: str) -> BinaryIO:
        """Open a content for reading, seekable; raises ``NotFoundError`` where it is not kept (any more)."""
        kept = attachments.find(sha256)
        if kept is None:
            raise NotFoundError("attachment", sha256)
        if kept.place is not None:
            return _open_at(kept.place)
        return io.BufferedReader(_Pieces(kept), buffer_size=PIECE_BYTES)

    def purge(self) -> int:
        """Delete what no message refers to and has not come in for a while; answer how many contents that were."""
        before = self._clock() - KEPT_UNREFERENCED
        total = 0
        while True:
            deleted = attachments.delete_unreferenced(before, limit=_AT_ONCE)
            for one in deleted:
                if one.place is not None:
                    _delete_at(one.place)
            total += len(deleted)
            if len(deleted) < _AT_ONCE:
                return total

    def _keep_new(self, one: AttachedFile) -> None:
        if one.source is None:
            raise NotFoundError("attachment", one.sha256)
        with one.source() as opened:
            pieces = _checked_pieces(opened, one)
            if self._url is None:
                attachments.keep_in_pieces(one.sha256, one.size, pieces, self._clock())
            else:
                self._keep_at(self._url, one, pieces)

    def _keep_at(self, url: str, one: AttachedFile, pieces: Iterator[bytes]) -> None:
        # A name of its own for each time: whoever deletes an older one never meets this one.
        place = f"{url}/{one.sha256[:2]}/{one.sha256}-{uuid7()}"
        kept = False
        try:
            _write_at(place, pieces)
            kept = attachments.keep_at(place, one.sha256, one.size, self._clock())
        except AWAY_ERRORS:
            kept = True  # perhaps: better a file too many than a message without its file
            raise
        finally:
            if not kept:
                _delete_at(place)


class _Pieces(io.RawIOBase):
    """A content in the database as a stream: one statement a few pieces, no connection held in between."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._kept.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, skip = divmod(self._at, PIECE_BYTES)
        if self._at >= self._kept.size:
            return 0
        filled = 0
        for piece in self._pieces(number, -(-(skip + len(buffer)) // PIECE_BYTES)):
            part = piece[skip : skip + len(buffer) - filled]
            buffer[filled : filled + len(part)] = part
            filled, skip = filled + len(part), 0
        if not filled:
            raise NotFoundError("attachment", self._kept.sha256)
        self._at += filled
        return filled

    def _pieces(self, first: int, wanted: int) -> list[bytes]:
        if first == 0 and self._kept.first:
            return [self._kept.first]
        return attachments.pieces(self._kept.sha256, first, min(wanted, _PIECES_AT_ONCE))


def _checked_pieces(opened: BinaryIO, one: AttachedFile) -> Iterator[bytes]:
    """Read a file piece by piece; raises ``InvalidInputError`` at its end unless it is what was checked."""
    digest = hashlib.sha256()
    size = 0
    while piece := opened.read(PIECE_BYTES):
        size += len(piece)
        digest.update(piece)
        if size > one.size:
            break
        yield piece
    if size != one.size or digest.hexdigest() != one.sha256:
        raise InvalidInputError("attachments", one.name, "a file that does not change while it is read")


def _write_at(place: str, pieces: Iterator[bytes]) -> None:
    filesystem, path = _filesystem(place)
    with filesystem.open(path, "wb") as opened:
        for piece in pieces:
            opened.write(piece)
        if _is_local(place):
            opened.flush()
            os.fsync(opened.fileno())


def _open_at(place: str) -> BinaryIO:
    filesystem, path = _filesystem(place)
    try:
        return cast(BinaryIO, filesystem.open(path, "rb"))
    except FileNotFoundError:
        raise NotFoundError("attachment", place.rpartition("/")[2]) from None


def _delete_at(place: str) -> None:
    try:
        filesystem, path = _filesystem(place)
        with suppress(FileNotFoundError):
            filesystem.rm_file(path)
    except Exception as error:  # noqa: BLE001 - each place has errors of its own; a file too many does no harm
        log.warning("attachments.notDeleted", place=place, err=type(error).__name__)


def _filesystem(place: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

        filesystem, path = url_to_fs(place, **({"auto_mkdir": True} if _is_local(place) else {}))
    except (ImportError, ValueError) as error:
        raise SettingsError(
            "RQMAIL_ATTACHMENTS_URL", place.partition("://")[0] + "://…", f"an address that fsspec can open: {error}"
        ) from None
    return filesystem, path


def _is_local(place: str) -> bool:
    return place.startswith("file:")
