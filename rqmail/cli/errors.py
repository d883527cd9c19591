"""What an error means on the command line: one line of text, a few fields for programs, an exit code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rqmail.errors import InvalidInputError, told
from rqmail.text.scrubbing import scrubbed_start, without_addresses

FAILED = 1
WRONG_USAGE = 2

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Explained:
    """An error in the words of the command line."""

    kind: str
    message: str
    exit_code: int
    fields: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Answer it as the object that ``--json`` prints."""
        return {"type": self.kind, "message": self.message, **self.fields}


def explained(error: Exception) -> Explained | None:
    """Put an error that was to be expected into words; ``None`` for one that is a bug and deserves its traceback."""
    if isinstance(error, UnicodeEncodeError) and _HALF_A_CHARACTER.search(error.object):
        # How Python keeps bytes of a command line that are not UTF-8; where they name a file they never come here.
        what = without_addresses(scrubbed_start(repr(error.object), _LONGEST))
        return Explained("UsageError", f"{what} holds bytes that are not UTF-8.", WRONG_USAGE, {})
    text, kind = told(error), type(error).__name__
    if text is None:
        return None
    if isinstance(error, InvalidInputError):
        return Explained(kind, text, WRONG_USAGE, {"field": error.field, "allowed": error.allowed})
    return Explained(kind, text, FAILED, {})
