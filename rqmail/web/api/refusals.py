"""What is wrong with a request's fields, in words: from pydantic's findings to our answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rqmail.text.scrubbing import scrubbed_start
from rqmail.web.errors import LIMIT_FIELDS, FieldsError, limit_text

#: Names of alternatives that pydantic puts in a path but nobody sent: ours, and its own for kinds of values.
ALTERNATIVES = frozenset({"one message", "many messages"})
_KIND = re.compile(r"constrained-str|(list|dict)\[.*\]", re.DOTALL)

#: A name that nobody knows may be a megabyte; it is not all written back.
_LONGEST = 200


def refusal(error: ValidationError) -> FieldsError:
    """Name every field that is wrong and say what it should be; never what was sent, which may be a secret.

    Where a field may be of several kinds, what is wrong within the kind that was sent is told, else all the kinds.
    """
    fields: dict[str, str] = {}
    of_a_kind: dict[str, list[str]] = {}
    for found in error.errors(include_url=False, include_input=False, include_context=False):
        path, text = _path(found["loc"]) or "body", _text(found)
        if found["loc"] and _names_a_kind(found["loc"][-1]):
            of_a_kind.setdefault(path, []).append(text)
        else:
            fields.setdefault(path, text)
    for path, texts in of_a_kind.items():
        if not any(one.startswith((f"{path}[", f"{path}.")) for one in fields):
            fields.setdefault(path, ", or: ".join(dict.fromkeys(texts)))
    return FieldsError(fields)


def _path(location: Sequence[int | str]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _names_a_kind(part):
            path += f".{part}" if path else part
    return scrubbed_start(path, _LONGEST)


def _names_a_kind(part: int | str) -> bool:
    return isinstance(part, str) and (part in ALTERNATIVES or _KIND.fullmatch(part) is not None)


def _text(found: ErrorDetails) -> str:
    field = found["loc"][-1] if found["loc"] else ""
    if found["type"] == "extra_forbidden":
        return "is not a field that is known here"
    if found["type"] == "missing":
        return "is needed"
    if field in LIMIT_FIELDS:
        return limit_text(str(field), is_too_large=found["type"] == "less_than_equal")
    return found["msg"].removeprefix("Value error, ")
