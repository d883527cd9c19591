"""Columns by their names: which of them are ours, under which name the file has them, and what a row then says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from rqmail.errors import InvalidInputError
from rqmail.intake.headers import checked_headers
from rqmail.text.scrubbing import scrubbed_start
from rqmail.text.values import without_unseen_edges

#: What a row may say; ``to``, ``subject`` and one of ``text`` and ``html`` must be there.
COLUMNS = (
    "to", "subject", "text", "html", "cc", "bcc", "at", "priority", "expires", "attachments", "reply_to", "importance",
    "read_receipt", "delivery_receipt", "unsubscribe_url", "unsubscribe",
)  # fmt: skip
REQUIRED = ("to", "subject")

#: Columns of which a draft's field has another name.
COLUMN_OF = {
    "replyTo": "reply_to",
    "readReceipt": "read_receipt",
    "deliveryReceipt": "delivery_receipt",
    "unsubscribeUrl": "unsubscribe_url",
}

YES_OR_NO = frozenset({"read_receipt", "delivery_receipt", "unsubscribe"})

#: A column ``header:X-Order`` holds the header X-Order of each mail.
HEADER = "header:"

_NAMES = ", ".join((*COLUMNS, f"{HEADER}NAME"))

#: What a file of bad rows says about each of them: read again, it is passed over.
ERROR_COLUMN = "error"


def naming_of(columns: Iterable[str], *, ignore_others: bool = False) -> Naming:
    """Read how columns are named, each written ``NAME=THEIRS``; raises ``InvalidInputError`` for what means nothing."""
    named: dict[str, str] = {}
    for one in columns:
        ours, equals, theirs = one.partition("=")
        ours = _header(ours) or ours.strip().lower()
        if not equals or not theirs.strip() or ours in named:
            raise InvalidInputError("column", one, "NAME=THEIRS, each of our names once, such as to=E-mail")
        named[ours] = theirs
    return Naming(named, ignore_others)


@dataclass(frozen=True)
class Naming:
    """What a file calls our columns, and whether columns that are none of ours are passed over."""

    theirs: Mapping[str, str] = field(default_factory=dict)
    ignore_others: bool = False

    def __post_init__(self) -> None:
        for name in self.theirs:
            if name not in COLUMNS and _header(name) is None:
                raise InvalidInputError("column", name, f"one of {_NAMES}" + hint(name, COLUMNS))
        ours = {folded(theirs): ours for ours, theirs in self.theirs.items()}
        if len(ours) < len(self.theirs):
            raise InvalidInputError("column", ", ".join(self.theirs.values()), "each of the file's columns once")
        object.__setattr__(self, "_ours", ours)

    def ours(self, name: str) -> str | None:
        """Answer which of our columns this is, if it is one."""
        found: str | None = self.__dict__["_ours"].get(folded(name))
        if found is not None:
            return found
        ours = _header(name) or folded(name)
        return ours if (ours in COLUMNS or ours.startswith(HEADER)) and ours not in self.theirs else None

    def known(self, cells: Sequence[str]) -> int:
        """Count the columns of ours that a row names."""
        return len({self.ours(cell) for cell in cells} - {None})

    def read(self, header: Sequence[str]) -> list[str | None]:
        """Answer for each cell of the header which column of ours it names; refuses a header that does not do."""
        cells = list(header)
        while cells and not folded(cells[-1]):
            cells.pop()
        names = [self.ours(cell) for cell in cells]
        for ours, theirs in self.theirs.items():
            if ours not in names:
                raise InvalidInputError("column", theirs, "a column of the file" + hint(theirs, cells))
        for cell, name in zip(cells, names, strict=True):
            if name is None and folded(cell) not in {"", ERROR_COLUMN} and not self.ignore_others:
                raise InvalidInputError(
                    "header",
                    scrubbed_start(cell, 100),
                    f"columns named {_NAMES}" + hint(folded(cell), COLUMNS)
                    + "; --column NAME=THEIRS reads another name, --ignore-other-columns passes it over",
                )  # fmt: skip
            if name is not None and names.count(name) > 1:
                raise InvalidInputError("header", scrubbed_start(cell, 100), "each column once")
        _check_headers(name for name in names if name is not None and name.startswith(HEADER))
        missing = [name for name in REQUIRED if name not in names]
        if not {"text", "html"} & set(names):
            missing.append("text or html")
        if missing:
            allowed = "with a column " + " and a column ".join(missing)
            raise InvalidInputError("header", scrubbed_start(", ".join(cells), 200), allowed)
        return names


def values_of(names: Sequence[str | None], cells: Sequence[str]) -> dict[str, str]:
    """Answer what a row says, an empty cell nothing; raises ``InvalidInputError`` when its cells do not fit."""
    for position, cell in enumerate(cells[len(names) :], start=len(names) + 1):
        if without_unseen_edges(cell):
            raise InvalidInputError("row", f"{position} columns", f"{len(names)} columns, as in the header")
    missing = {name for name in names[len(cells) :] if name is not None}
    bodies = {"text", "html"} & set(names)
    if missing and (missing & set(REQUIRED) or bodies <= missing):
        raise InvalidInputError("row", f"{len(cells)} columns", f"{len(names)} columns, as in the header")
    return {name: cell for name, cell in zip(names, cells, strict=False) if name and (cell or name in REQUIRED)}


def _header(name: str) -> str | None:
    """Answer the column of a mail's header, its name as it is written; ``None`` for any other."""
    kind, colon, header = without_unseen_edges(name).partition(":")
    return f"{HEADER}{without_unseen_edges(header)}" if colon and folded(kind) == HEADER[:-1] else None


def _check_headers(names: Iterable[str]) -> None:
    """Raise ``InvalidInputError`` for a header that no mail may carry: once, and not in every row."""
    try:
        checked_headers([(name.removeprefix(HEADER), "x") for name in names])
    except InvalidInputError as error:
        raise InvalidInputError("header", f"{HEADER}{error.value}", error.allowed) from None


def is_blank(cells: Sequence[str]) -> bool:
    """Say whether a row has nothing that can be seen."""
    return not any(without_unseen_edges(cell) for cell in cells)


def folded(name: str) -> str:
    """Answer the name of a column without line breaks, capitals and what cannot be seen around it."""
    return " ".join(without_unseen_edges(name).lower().split())


def hint(name: str, known: Sequence[str]) -> str:
    """Suggest the nearest of the known names, or nothing when none is near."""
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
