"""The text of a mail that has only HTML: what it says, in lines, with where its links lead."""

from __future__ import annotations

import re
from typing import Any

#: So much of the HTML is read: time grows with it, and the text is what is shown where HTML is not.
MOST_CHARACTERS = 200_000

#: Lists in each other that are set in; deeper ones are not, or a list of lists would fill memory with blanks.
_MOST_LISTS = 8

_HIDDEN = re.compile(r"(?:^|;)\s*display\s*:\s*none\s*(?:[;!]|$)", re.IGNORECASE)
_MANY_LINES = re.compile(r"\n{3,}")


def text_of_html(html: str) -> str:
    """Answer the text of some HTML, a blank where it has none; takes a few seconds at most, whatever the HTML."""
    from inscriptis.css_profiles import STRICT_CSS_PROFILE  # noqa: PLC0415 - takes a while to load, few mails need it
    from inscriptis.html_engine import Inscriptis  # noqa: PLC0415
    from inscriptis.model.config import ParserConfig  # noqa: PLC0415
    from lxml.etree import LxmlError  # noqa: PLC0415

    try:
        tree = _tree(html[:MOST_CHARACTERS])
        text = Inscriptis(tree, ParserConfig(css=STRICT_CSS_PROFILE.copy(), display_links=True)).get_text()
    except (LxmlError, ValueError):  # nothing in it, not even a comment
        return " "
    text = "\n".join(line.replace("\xa0", " ").rstrip() for line in text.split("\n"))
    text = _MANY_LINES.sub("\n\n", text).strip("\n")
    return f"{text}\n" if text else " "


def _tree(html: str) -> Any:
    """Read HTML into what is laid out as lines alone.

    Styles and tables would let a few bytes of HTML become any number of blanks: a margin as wide as one likes, a cell
    as wide as the widest of its column. Mails use tables for layout, so their cells stand one after the other.
    """
    from lxml.html import document_fromstring  # noqa: PLC0415

    # libxml2 refuses text that names its own encoding, and the text is decoded by now.
    tree = document_fromstring(html.encode("utf-8", "replace"), parser=_parser())
    _flatten(tree)
    return tree


def _parser() -> Any:
    from lxml.html import HTMLParser  # noqa: PLC0415

    return HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)


def _flatten(tree: Any) -> None:
    from lxml.etree import iterwalk  # noqa: PLC0415

    lists = 0
    for event, element in iterwalk(tree, events=("start", "end")):
        tag = element.tag
        if event == "end":
            lists -= tag in {"ul", "ol"}
            continue
        style = element.attrib.pop("style", "")
        for name in set(element.attrib) - {"href"}:
            del element.attrib[name]
        if _HIDDEN.search(style):
            element.set("style", "display:none")
        if tag in {"table", "tr", "thead", "tbody", "tfoot", "caption"}:
            element.tag = "div"
        elif tag in {"td", "th"}:
            element.tag = "span"
            element.text = f" {element.text or ''}"
        elif tag in {"ul", "ol"}:
            if lists >= _MOST_LISTS:
                element.tag = "div"
            else:
                lists += 1
