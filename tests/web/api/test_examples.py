"""Each operation is documented by a request that was really made and the answer it got, and both are still so."""

from __future__ import annotations

from html import escape
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.web.api.examples import Example, recorded
from web.api.recording import CLIENT_ID, as_json, record
from web.asking import ADMIN_TOKEN

#: What is for people and for browsers, and the documentation itself.
NOT_OF_THE_API = ("/unsubscribe/", "/ui", "/login", "/logout", "/static", "/docs", "/openapi.json")
ANEW = "an answer of the API is another than its documentation shows: run `make examples`, and look at what it changed"


def shape(value: Any) -> Any:
    """What a program that reads the answer depends on: names and kinds, not what is in them."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return "number" if type(value) in {int, float} else type(value).__name__


def request(one: Example) -> tuple[object, ...]:
    return one.title, one.operation, one.path, one.headers, one.body, one.form, one.file


def test_every_operation_is_shown_by_a_request_that_went_well(web: Flask, anyone: FlaskClient) -> None:
    document = anyone.get("/openapi.json").json
    assert document is not None
    described = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert described == {one.operation for one in recorded() if one.status < 300}
    served = {rule.rule for rule in web.url_map.iter_rules() if not rule.rule.startswith(NOT_OF_THE_API)} - {"/"}
    assert {path.translate(str.maketrans("{}", "<>")) for path in document["paths"]} == served


def test_every_request_is_still_answered_as_the_documentation_shows(
    sqlite_database: Any, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = record(tmp_path_factory.mktemp("examples"), sqlite_database.url, redis_url)
    assert [request(one) for one in made] == [request(one) for one in recorded()], ANEW
    for now, then in zip(made, recorded(), strict=True):
        assert (now.status, shape(now.answer)) == (then.status, shape(then.answer)), (now.title, ANEW)


def test_an_example_holds_no_token_and_no_address_of_the_machine_it_was_made_on() -> None:
    text = as_json(list(recorded()))
    for secret in (ADMIN_TOKEN, "a-key-for-examples-only", "127.0.0.1", "localhost", "/tmp"):
        assert secret not in text
    issued = next(one for one in recorded() if one.operation == "POST /admin/tokens")
    assert issued.answer["token"] == "rqm_…"
    assert CLIENT_ID in text


def test_the_documentation_shows_each_command_and_its_answer(anyone: FlaskClient) -> None:
    text = anyone.get("/docs").text.replace("&#39;", "&#x27;").replace("&#34;", "&quot;")
    for one in recorded():
        assert escape(one.curl) in text, one.title
        assert escape(one.answer_text) in text, one.title


def test_the_openapi_document_has_each_request_and_answer_as_an_example(anyone: FlaskClient) -> None:
    document = anyone.get("/openapi.json").json
    assert document is not None
    for one in recorded():
        method, _, path = one.operation.partition(" ")
        described = document["paths"][path][method.lower()]
        assert {"lang": "Shell", "label": one.title, "source": one.curl} in described["x-codeSamples"]
        answer = described["responses"][str(one.status)]["content"][one.answer_type]
        assert answer["examples"][one.title] == {"value": one.answer}
        if one.body is not None:
            body = described["requestBody"]["content"]["application/json"]
            assert body["examples"][one.title] == {"value": one.body}
