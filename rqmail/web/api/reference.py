"""The API's documentation: the OpenAPI document, and the same as a page that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, render_template

from rqmail.web.api.document import spec
from rqmail.web.api.examples import Example, of_operation, with_examples
from rqmail.web.auth import open_to_all

blueprint = Blueprint("reference", __name__)

_REFERENCE = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class FieldText:
    """One field or parameter in words."""

    name: str
    place: str
    type: str
    needed: bool
    text: str


@dataclass(frozen=True, slots=True)
class AnswerText:
    """One status an operation may answer with, and the schema of what comes with it."""

    status: str
    meaning: str
    schema: str


@dataclass(frozen=True, slots=True)
class OperationText:
    """One operation in words."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[FieldText, ...]
    bodies: tuple[str, ...]
    answers: tuple[AnswerText, ...]
    examples: tuple[Example, ...]


@blueprint.get("/openapi.json")
@open_to_all
def openapi() -> Response:
    """Answer the OpenAPI document."""
    return jsonify(with_examples(spec.spec))


@blueprint.get("/docs")
@open_to_all
def docs() -> str:
    """Show what each operation takes and answers, with requests that were really made."""
    document = spec.spec
    return render_template(
        "docs.html",
        info=document["info"],
        groups=_groups(document),
        schemas=_schemas(document["components"]["schemas"]),
    )


def _groups(document: dict[str, Any]) -> dict[str, list[OperationText]]:
    groups: dict[str, list[OperationText]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            groups[described["tags"][0]].append(_operation(method, path, described))
    return groups


def _operation(method: str, path: str, described: dict[str, Any]) -> OperationText:
    content = described.get("requestBody", {}).get("content", {})
    return OperationText(
        id=described["operationId"],
        method=method.upper(),
        path=path,
        summary=described["summary"],
        description=described["description"],
        parameters=tuple(_parameters(described["parameters"])),
        bodies=tuple(_type(media["schema"]) for media in content.values()),
        answers=tuple(
            AnswerText(status, answer["description"], _body(answer))
            for status, answer in sorted(described["responses"].items())
        ),
        examples=tuple(of_operation(method, path)),
    )


def _body(answer: dict[str, Any]) -> str:
    return _type(answer["content"]["application/json"]["schema"]) if "content" in answer else "no JSON"


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[FieldText]:
    for one in parameters:
        yield FieldText(one["name"], one["in"], _type(one["schema"]), one["required"], one.get("description", ""))


def _schemas(schemas: dict[str, Any]) -> dict[str, tuple[dict[str, Any], list[FieldText]]]:
    return {name: (schema, list(_fields(schema))) for name, schema in sorted(schemas.items())}


def _fields(schema: dict[str, Any]) -> Iterator[FieldText]:
    for name, field in schema.get("properties", {}).items():
        yield FieldText(name, "", _type(field), name in schema.get("required", []), field.get("description", ""))


def _type(schema: dict[str, Any]) -> str:
    """Say in few words what a value may be."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REFERENCE)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return " or ".join(dict.fromkeys(_type(one) for one in alternatives))
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "integer" and "minimum" in schema and "maximum" in schema:
        return f"integer from {schema['minimum']} to {schema['maximum']}"
    if schema.get("format") == "date-time":
        return "moment"
    return str(schema.get("type", "anything"))
