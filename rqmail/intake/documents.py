"""Objects of a JSON file: one a line, one after the other, or in an array."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from rqmail.errors import InvalidInputError
from rqmail.intake.columns import COLUMNS, ERROR_COLUMN, REQUIRED, YES_OR_NO, Naming, hint
from rqmail.text.scrubbing import scrubbed_start

_LISTED = frozenset({"to", "cc", "bcc", "reply_to", "attachments"})
_BLANK = " \t\r\n"
_DECODER = json.JSONDecoder()


def json_rows(
    lines: Callable[[], Iterator[str]], naming: Naming
) -> Iterator[tuple[int, dict[str, Any] | InvalidInputError]]:
    """Read the objects: JSON lines as a stream, numbered by line; those of an array by their place in it."""
    first = next((line.strip() for line in lines() if line.strip()), "")
    if first.startswith("[") or (first.startswith("{") and not first.endswith("}")):
        yield from _document("".join(lines()), naming)
        return
    for number, line in enumerate(lines(), start=1):
        if line.strip():
            try:
                yield number, _values(json.loads(line), naming)
            except InvalidInputError as error:
                yield number, error
            except (ValueError, RecursionError) as error:
                found = InvalidInputError("row", scrubbed_start(line.strip(), 60), f"one JSON object a line ({error})")
                yield number, found


def _document(text: str, naming: Naming) -> Iterator[tuple[int, dict[str, Any] | InvalidInputError]]:
    listed = text.lstrip(_BLANK).startswith("[")
    position = _past(_BLANK, text, text.index("[") + 1 if listed else 0)
    number = 0
    while position < len(text) and not (listed and text[position] == "]"):
        number += 1
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            yield number, InvalidInputError("row", _seen(text, position), f"a JSON object ({error})")
            return
        try:
            yield number, _values(value, naming)
        except InvalidInputError as error:
            yield number, error
        position = _past(_BLANK, text, position)
        if text[position : position + 1] == ",":
            position = _past(_BLANK, text, position + 1)
        elif listed and text[position : position + 1] != "]":
            found = _seen(text, position) or "the end of the file"
            yield number + 1, InvalidInputError("row", found, "a comma and the next object, or ] at the end")
            return
    if not listed:
        return
    beyond = text[position + 1 :].strip(_BLANK)
    if position == len(text) or beyond:
        found = scrubbed_start(beyond, 60) or "the end of the file"
        yield number + 1, InvalidInputError("row", found, "] at the end of the array, and nothing after it")


def _seen(text: str, position: int) -> str:
    return scrubbed_start(text[position:], 60)


def _past(signs: str, text: str, position: int) -> int:
    while position < len(text) and text[position] in signs:
        position += 1
    return position


def _values(document: object, naming: Naming) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidInputError("row", scrubbed_start(repr(document), 60), "one JSON object a line")
    values: dict[str, Any] = {}
    for theirs, given in document.items():
        name, value = naming.ours(theirs), given
        if name is None:
            if naming.ignore_others or theirs == ERROR_COLUMN:
                continue
            raise InvalidInputError(theirs, value, "fields named " + ", ".join(COLUMNS) + hint(theirs, COLUMNS))
        if name in YES_OR_NO and isinstance(given, bool):
            value = "yes" if given else "no"
        if not (value is None or isinstance(value, str) or (name in _LISTED and _is_list_of_text(value))):
            raise InvalidInputError(name, value, "text, or a list of texts" if name in _LISTED else "text")
        if value is not None:
            values[name] = value
    return dict.fromkeys(REQUIRED, "") | values


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
