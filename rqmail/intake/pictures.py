"""Inline pictures: what the HTML shows by ``cid:`` and what is attached for it must be the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from urllib.parse import unquote

from rqmail.errors import InvalidInputError
from rqmail.models.content import AttachedFile

#: ``cid:`` where an address stands: at the beginning of an attribute, in ``url(…)``, in a list of ``srcset``.
_REFERENCE = re.compile(r"""(?:^|[\s,("'])cid:([^\s"'),]+)""", re.IGNORECASE)


def check_pictures(html: str | None, files: Iterable[AttachedFile]) -> None:
    """Raise ``InvalidInputError`` unless every inline picture is shown, and every picture shown is there."""
    inline = [one for one in files if one.content_id is not None]
    ids = [one.content_id for one in inline]
    for one in inline:
        if ids.count(one.content_id) > 1:
            raise InvalidInputError("attachments", one.content_id, "a contentId of its own for each inline picture")
    if not inline and (html is None or "cid:" not in html.lower()):
        return
    shown = _References()
    shown.feed(html or "")
    shown.close()
    for one in inline:
        if one.content_id not in shown.certain | shown.possible:
            raise InvalidInputError(
                "attachments", one.name, f'an HTML body that shows it: <img src="cid:{one.content_id}">'
            )
    missing = sorted(shown.certain - set(ids))
    if missing:
        raise InvalidInputError("html", f"cid:{missing[0]}", "an inline attachment for every cid: it shows")


class _References(HTMLParser):
    """Collects the content ids that HTML refers to; in comments (Outlook reads some) they are only possible ones."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.certain: set[str] = set()
        self.possible: set[str] = set()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for _, value in attrs:
            self.certain |= _ids_in(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._in_style = False

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.certain |= _ids_in(data)

    def handle_comment(self, data: str) -> None:
        self.possible |= _ids_in(data)


def _ids_in(text: str) -> set[str]:
    return {unquote(found) for found in _REFERENCE.findall(text)} if "cid:" in text.lower() else set()
