"""Bodies of the API: how they are encoded, how large and how deep they may be, and what is said of one that is not."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from flask.testing import FlaskClient

MAIL = {"to": "a@example.org", "subject": "Café", "text": "x"}


def sent(client: FlaskClient, data: bytes, **headers: str) -> Any:
    return client.post("/messages", data=data, content_type="application/json", headers=headers)


def test_a_body_in_another_encoding_is_told_which_byte_is_not_utf_8(client: FlaskClient) -> None:
    data = json.dumps(MAIL, ensure_ascii=False).encode("latin-1")
    answer = sent(client, data)
    assert answer.status_code == 400
    assert f"byte {data.index(0xE9) + 1} is 0xE9" in answer.json["error"]
    assert "UTF-8" in answer.json["error"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_in_any_of_its_own_encodings_is_taken(client: FlaskClient, encoding: str) -> None:
    assert sent(client, json.dumps(MAIL, ensure_ascii=False).encode(encoding)).status_code != 400


def test_what_is_not_json_is_told_where(client: FlaskClient) -> None:
    assert "line 2, column 1" in sent(client, b'{"to": \n}').json["error"]


def test_a_gzipped_body_is_taken(client: FlaskClient) -> None:
    for encoding in ("gzip", "GZip", "x-gzip"):
        plain = sent(client, json.dumps(MAIL).encode())
        packed = sent(client, gzip.compress(json.dumps(MAIL).encode()), **{"Content-Encoding": encoding})
        assert packed.status_code == plain.status_code
        assert packed.json.keys() == plain.json.keys()


@pytest.mark.parametrize(
    ("data", "encoding", "status", "said"),
    [
        (gzip.compress(b" " * 11 * 1024 * 1024), "gzip", 413, "unpacks to more"),
        (gzip.compress(b" " * 500 * 1024 * 1024, 1), "gzip", 413, "unpacks to more"),
        (gzip.compress(b"{}")[:-3], "gzip", 400, "whole gzip"),
        (gzip.compress(b"{}") * 2, "gzip", 400, "whole gzip"),
        (b"{}", "gzip", 400, "not gzip"),
        (b"{}", "br", 415, "Content-Encoding"),
        (gzip.compress(b"{}"), "gzip, gzip", 415, "Content-Encoding"),
    ],
    ids=["11 MB", "500 MB", "cut", "two", "plain", "brotli", "twice"],
)
def test_a_packed_body_is_bounded_and_said_to_be_wrong(
    client: FlaskClient, data: bytes, encoding: str, status: int, said: str
) -> None:
    answer = sent(client, data, **{"Content-Encoding": encoding})
    assert (answer.status_code, said in answer.json["error"]) == (status, True), answer.json


@pytest.mark.parametrize("depth", [33, 100, 900, 980, 1000, 3000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_body_nested_too_deep_is_refused(client: FlaskClient, depth: int, opening: bytes, closing: bytes) -> None:
    for path in ("/messages", "/messages/bulk", "/admin/tenants"):
        inner = opening * depth + b"1" + closing * depth
        answer = client.post(path, data=b'{"text": ' + inner + b"}", content_type="application/json")
        assert (answer.status_code, "deeper than 32" in answer.json["error"]) == (400, True), answer.json


def test_a_body_within_the_depth_is_looked_at_by_its_fields(client: FlaskClient) -> None:
    answer = sent(client, b'{"text": ' + b"[" * 30 + b"]" * 30 + b"}")
    assert "text" in answer.json["fieldErrors"]


@pytest.mark.parametrize("body", [{"text": "\ud800"}, {"\udfff": 1}, {"to": [{"x": "a\udead"}]}])
def test_half_a_character_anywhere_is_refused(client: FlaskClient, body: dict[str, Any]) -> None:
    answer = sent(client, json.dumps(body).encode())
    assert (answer.status_code, answer.json["error"]) == (400, "The body holds half a character.")
