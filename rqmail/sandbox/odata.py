"""The part of OData's query language that mail searches use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rqmail.sandbox.answers import GraphRefusal

#: Answers whether one item passes.
Predicate = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<time>\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))|(?P<number>-?\d+)"
    r"|(?P<name>[A-Za-z_][\w/]*)|(?P<mark>[(),:]))"
)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
}


class Filter:
    """A parsed ``$filter``: call ``matches`` per item; ``fields`` are the properties it names, in order."""

    def __init__(self, text: str) -> None:
        self.fields: list[str] = []
        self._tokens = _tokens(text)
        self._position = 0
        self.matches = self._either()
        if self._position != len(self._tokens):
            raise _syntax(text)

    def _either(self) -> Predicate:
        left = self._both()
        while self._take("or"):
            left = _either(left, self._both())
        return left

    def _both(self) -> Predicate:
        left = self._single()
        while self._take("and"):
            left = _both(left, self._single())
        return left

    def _single(self) -> Predicate:
        if self._take("not"):
            inner = self._single()
            return lambda item: not inner(item)
        if self._take("("):
            inner = self._either()
            self._expect(")")
            return inner
        kind, name = self._next()
        if kind != "name":
            raise _syntax(name)
        if name.endswith("/any"):
            return self._any(name.removesuffix("/any"))
        if name in _TEXT and self._take("("):
            return self._text(name)
        return self._comparison(name)

    def _any(self, collection: str) -> Predicate:
        self._expect("(")
        _, variable = self._next()
        self._expect(":")
        inner = self._either()
        self._expect(")")
        self.fields = [name for name in self.fields if not name.startswith(f"{variable}/")]
        self.fields.append(collection)
        return lambda item: any(inner({variable: element}) for element in item.get(collection) or [])

    def _text(self, function: str) -> Predicate:
        _, path = self._next()
        self._expect(",")
        value = self._value()
        self._expect(")")
        self.fields.append(path)
        test = _TEXT[function]
        return lambda item: test(str(_comparable(path, _at(item, path)) or ""), str(_comparable(path, value)))

    def _comparison(self, path: str) -> Predicate:
        _, name = self._next()
        compare = _COMPARE.get(name)
        if compare is None:
            raise _syntax(name)
        self.fields.append(path)
        value = _comparable(path, self._value())

        def matches(item: Mapping[str, Any]) -> bool:
            found = _comparable(path, _at(item, path))
            if found is None or value is None:
                return compare in (operator.eq, operator.ne) and compare(found, value)
            try:
                return compare(found, value)
            except TypeError:
                return False

        return matches

    def _value(self) -> Any:
        kind, text = self._next()
        match kind:
            case "string":
                return text[1:-1].replace("''", "'")
            case "time":
                return text
            case "number":
                return int(text)
            case "name" if text in ("true", "false", "null"):
                return {"true": True, "false": False, "null": None}[text]
        raise _syntax(text)

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise _syntax("the end")
        self._position += 1
        return self._tokens[self._position - 1]

    def _take(self, text: str) -> bool:
        if self._position < len(self._tokens) and self._tokens[self._position] in (("name", text), ("mark", text)):
            self._position += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise _syntax(text)


def sort_key(path: str) -> Callable[[Mapping[str, Any]], tuple[bool, Any]]:
    """Answer the key that sorts items by the property ``path``, missing ones first."""

    def key(item: Mapping[str, Any]) -> tuple[bool, Any]:
        found = _comparable(path, _at(item, path))
        return (found is not None, found if found is not None else "")

    return key


def _either(left: Predicate, right: Predicate) -> Predicate:
    return lambda item: left(item) or right(item)


def _both(left: Predicate, right: Predicate) -> Predicate:
    return lambda item: left(item) and right(item)


def _at(item: Mapping[str, Any], path: str) -> Any:
    found: Any = item
    for part in path.split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _comparable(path: str, value: Any) -> Any:
    if isinstance(value, str):
        if path.endswith("DateTime"):
            try:
                return datetime.fromisoformat(value)
            except ValueError:
                raise _syntax(value) from None
        return property_key(value) if path.endswith("/id") else value.lower()
    return value


def property_key(property_id: str) -> str:
    """Answer the form in which two spellings of one extended property id are equal."""
    return property_id.lower().replace("{", "").replace("}", "")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise _syntax(text[position:])
        tokens.append((found.lastgroup, found[found.lastgroup]))
        position = found.end()
    return tokens


def _syntax(near: str) -> GraphRefusal:
    return GraphRefusal(400, "BadRequest", f"Invalid filter clause: syntax error near '{near[:80]}'.")
