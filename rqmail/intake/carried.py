"""What a row of a file carries beside its text: files by name, headers, marks, as the fields of a draft."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import Attachment, checked_name
from rqmail.intake.columns import HEADER, YES_OR_NO
from rqmail.text.values import without_unseen_edges

#: What is said where files are named and nobody said where they are.
NO_FOLDER = "no files, unless `rqmail import` is told where they are: --attachments-dir DIR"

_YES = frozenset({"yes", "true", "1"})
_NO = frozenset({"no", "false", "0", ""})


def fields_of_row(values: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Answer what a row says as the fields of a draft; files are looked for in ``folder`` and nowhere else."""
    fields = {name: value for name, value in values.items() if not name.startswith(HEADER)}
    headers = [(name.removeprefix(HEADER), value) for name, value in values.items() if name.startswith(HEADER)]
    if headers:
        fields["headers"] = headers
    for name in YES_OR_NO & fields.keys():
        fields[name] = _yes_or_no(name, fields[name])
    if not fields.get("importance"):
        fields.pop("importance", None)
    if "attachments" in fields:
        fields["attachments"] = [_attachment(name, folder) for name in _names(fields["attachments"])]
    return fields


def _names(listed: str | list[str]) -> list[str]:
    names = listed.split(";") if isinstance(listed, str) else listed
    return [name for name in map(without_unseen_edges, names) if name]


def _attachment(name: str, folder: Path | None) -> Attachment:
    name = checked_name(name)
    if folder is None:
        raise InvalidInputError("attachments", name, NO_FOLDER)
    return Attachment(name, _found(name, folder))


def _found(name: str, folder: Path) -> Path:
    """Find a file of the folder, however its accents are written; a link that leads out of the folder is refused."""
    try:
        inside = folder.resolve(strict=True)
        for spelled in (name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)):
            path = inside / spelled
            if path.exists():
                found = path.resolve(strict=True)
                if not found.is_relative_to(inside):
                    raise InvalidInputError("attachments", name, f"a file in {folder}, not a link that leads out of it")
                return found
    except (OSError, ValueError, RuntimeError) as error:
        told = getattr(error, "strerror", None) or type(error).__name__
        raise InvalidInputError("attachments", name, f"a file in {folder} that can be read ({told})") from None
    raise InvalidInputError("attachments", name, f"a file in {folder}: there is none of this name")


def _yes_or_no(name: str, value: str) -> bool:
    folded = without_unseen_edges(value).lower()
    if folded in _YES or folded in _NO:
        return folded in _YES
    raise InvalidInputError(name, value, "yes or no")
