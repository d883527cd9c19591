"""Cells that a spreadsheet would take for a formula: written so that it does not, and read back as they were."""

from __future__ import annotations

import re

#: Where a formula could begin: a cell, or what becomes one when the file is opened with another delimiter than it was
#: written with. Blanks and quotes before it do not matter to a spreadsheet; the wide signs are those of East Asia.
#: An apostrophe that is there already gets one more, so that the way back is known.
_START = r'(^|[,;|\t\r\n])([ \xa0"]*)'
_FORMULA = r"'*[=+\-@＝＋－＠]"
_TO_GUARD = re.compile(rf"{_START}(?={_FORMULA})")
_GUARDED = re.compile(rf"{_START}'(?={_FORMULA})")
_LINE = re.compile(r"'*[\t\r\n]")


def harmless(text: str) -> str:
    """Write a cell so that no spreadsheet finds a formula in it, whichever delimiter it cuts the file at."""
    guarded = _TO_GUARD.sub(r"\1\2'", text)
    return f"'{guarded}" if _LINE.match(text) else guarded


def restored(cell: str) -> str:
    """Answer the text that :func:`harmless` wrote as this cell."""
    inside = cell[1:] if cell.startswith("'") and _LINE.match(cell) else cell
    return _GUARDED.sub(r"\1\2", inside)
