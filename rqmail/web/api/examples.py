"""Requests that were really made, each with the answer it got: recorded by the tests, shown in the documentation."""

from __future__ import annotations

import json
import shlex
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

#: Where the recorded requests are kept, beside this file.
FILE = "examples.json"

#: What stands for the address of the web process and for a token in a command.
ADDRESS, TOKEN = "$RQMAIL_URL", "$RQMAIL_TOKEN"

_JSON = "application/json"
_LONGEST_LINE = 90


@dataclass(frozen=True, slots=True)
class Example:
    """One request as it was made, and its answer: an object, or text where the answer is no JSON.

    ``body`` is sent as JSON; ``form`` as a form, with the file. ``answer_type`` is the answer's media type.
    """

    title: str
    operation: str
    path: str
    status: int
    answer: Any
    answer_type: str = _JSON
    needs_token: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    form: dict[str, str] | None = None
    file_name: str = ""
    file: str = ""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.operation.partition(" ")[0]

    @property
    def curl(self) -> str:
        """The request as a command for a shell."""
        verb = "" if self.method == "GET" else f"-X {self.method} "
        parts = [f'curl {verb}"{ADDRESS}{self.path}"']
        if self.needs_token:
            parts.append(f'-H "Authorization: Bearer {TOKEN}"')
        parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in self.headers.items()]
        if self.body is not None:
            parts += [f"-H 'Content-Type: {_JSON}'", f"-d {shlex.quote(_as_text(self.body))}"]
        if self.form is not None:
            parts += [f"-F {shlex.quote(f'{name}={value}')}" for name, value in self.form.items()]
            parts.append(f"-F {shlex.quote(f'file=@{self.file_name}')}")
        return " \\\n  ".join(parts)

    @property
    def answer_text(self) -> str:
        """The answer as it is shown."""
        return self.answer if isinstance(self.answer, str) else json.dumps(self.answer, ensure_ascii=False, indent=2)


@cache
def recorded() -> tuple[Example, ...]:
    """Answer every recorded request, in the order in which they were made."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(Example(**one) for one in json.loads(text))


def of_operation(method: str, path: str) -> list[Example]:
    """Answer the recorded requests of one operation, by its path in the OpenAPI document."""
    return [one for one in recorded() if one.operation == f"{method.upper()} {path}"]


def with_examples(document: dict[str, Any]) -> dict[str, Any]:
    """Answer the OpenAPI document with the recorded requests and answers in it, and the commands that make them."""
    document = deepcopy(document)
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            for one in of_operation(method, path):
                _put(described, one)
    return document


def _put(described: dict[str, Any], one: Example) -> None:
    sample = {"lang": "Shell", "label": one.title, "source": one.curl}
    described.setdefault("x-codeSamples", []).append(sample)
    if one.body is not None:
        _exemplify(described["requestBody"]["content"][_JSON], one.title, one.body)
    if one.form is not None:
        [form] = described["requestBody"]["content"].values()
        _exemplify(form, one.title, one.form | {"file": one.file})
    content = described["responses"][str(one.status)].setdefault("content", {})
    _exemplify(content.setdefault(one.answer_type, {"schema": {"type": "string"}}), one.title, one.answer)


def _exemplify(media: dict[str, Any], title: str, value: Any) -> None:
    media.setdefault("examples", {})[title] = {"value": value}


def _as_text(body: dict[str, Any]) -> str:
    line = json.dumps(body, ensure_ascii=False)
    return line if len(line) <= _LONGEST_LINE else json.dumps(body, ensure_ascii=False, indent=2)
