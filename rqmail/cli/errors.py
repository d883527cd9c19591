"""What an error means on the command line: one line of text, a few fields for programs, an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rqmail.errors import InvalidInputError, RqmailError
from rqmail.text.scrubbing import scrubbed

FAILED = 1
WRONG_USAGE = 2

#: The libraries whose errors mean that a server is not there or not ready, and what to say about it. They are told by
#: name, because importing them only to catch their errors would make every command slow to start.
_SERVERS = {
    "peewee": "The database cannot be used",
    "psycopg": "The database cannot be used",
    "redis": "Redis cannot be used",
}


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
    kind = type(error).__name__
    if isinstance(error, InvalidInputError):
        fields = {"field": error.field, "allowed": error.allowed}
        return Explained(kind, str(error), WRONG_USAGE, fields)
    if isinstance(error, RqmailError):
        return Explained(kind, str(error), FAILED, {})
    for cls in type(error).__mro__:
        library = cls.__module__.partition(".")[0]
        if library in _SERVERS:
            text = " ".join(scrubbed(str(error)).split())
            hint = "; run `rqmail init` first" if "no such table" in text or "does not exist" in text else ""
            return Explained(kind, f"{_SERVERS[library]}: {text}{hint}", FAILED, {})
    return None
