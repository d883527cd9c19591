"""What every answer carries, and what is never answered."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.errors import InvalidInputError
from rqmail.text.scrubbing import keep_secret
from web.asking import ADMIN_TOKEN

PATHS = [
    "/",
    "/login",
    "/ui/",
    "/docs",
    "/openapi.json",
    "/messages",
    "/admin/tokens",
    "/healthz",
    "/nowhere",
    "/static/docs.css",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_tells_the_browser_how_little_it_may_do(anyone: FlaskClient, path: str) -> None:
    headers = anyone.get(path, buffered=True).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]
    assert ("no-store" in headers["Cache-Control"]) is not path.startswith("/static/")


@pytest.mark.parametrize("path", ["/login", "/docs"])
def test_no_page_needs_anything_from_another_host_or_inline(anyone: FlaskClient, path: str) -> None:
    text = anyone.get(path).text
    assert not re.search(r"(src|href)=\"?(https?:)?//", text)
    assert not re.search(r"<style|<script(?![^>]*src)|\sstyle=|\son[a-z]+=", text)


def test_the_docs_page_shows_every_operation(anyone: FlaskClient) -> None:
    document = anyone.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    text = anyone.get("/docs").text
    for path, methods in document["paths"].items():
        assert path in text
        for described in methods.values():
            assert f'id="{described["operationId"]}"' in text
    assert (
        len({described["operationId"] for methods in document["paths"].values() for described in methods.values()}) > 25
    )


def test_a_host_name_that_is_not_ours_is_refused(anyone: FlaskClient) -> None:
    assert anyone.get("/login", headers={"Host": "evil.example"}).status_code == 400
    assert anyone.get("/login", headers={"Host": "localhost:8080"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b"0", "application/json", 400),
        (b'"{}"', "application/json", 400),
        (b"", "application/json", 400),
        (b"\xff{}", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"\\ud800": 1}', "application/json", 400),
        (b'{"address": "\\ud800"}', "application/json", 400),
        (b'{"address": "\\u0000"}', "application/json", 400),
        (b'{"rateLimitPerMinute": NaN}', "application/json", 400),
        (b'{"rateLimitPerMinute": 1e999}', "application/json", 400),
        (b'{"rateLimitPerMinute": ' + b"9" * 5000 + b"}", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "application/x-www-form-urlencoded", 415),
        (b"a=1", "application/x-www-form-urlencoded", 415),
        (b"{}", "", 415),
        (b"{}", "application/json; charset=utf-8", 404),
        (b'{"address": "' + b"x" * (10 * 1024 * 1024) + b'"}', "application/json", 413),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_body_that_is_no_json_object_is_refused_before_anything_is_looked_up(
    client: FlaskClient, body: bytes, content_type: str, status: int
) -> None:
    answer = client.put("/admin/system-mailboxes/nobody", data=body, content_type=content_type)
    assert answer.status_code == status
    assert set(answer.json) == {"error", "fieldErrors"}


@pytest.mark.parametrize("path", ["/admin/system-mailboxes/%00", "/messages/%00", "/messages/a%00b/cancel"])
def test_a_path_no_database_could_hold_is_not_found(client: FlaskClient, path: str) -> None:
    answer = client.post(path) if path.endswith("cancel") else client.get(path)
    assert answer.status_code == 404


def test_programs_are_answered_in_json_and_people_with_a_page(anyone: FlaskClient, client: FlaskClient) -> None:
    assert client.get("/admin/nowhere").json["error"]
    assert client.patch("/messages").status_code == 405
    assert client.patch("/messages").json["error"]
    page = anyone.get("/nowhere")
    assert page.content_type.startswith("text/html")
    assert "404 Not Found" in page.text


def test_asking_for_the_address_of_the_sign_out_leads_to_the_pages(anyone: FlaskClient) -> None:
    answer = anyone.get("/logout")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/")


@pytest.mark.parametrize("path", ["/admin/tenants", "/ui/tenants"])
def test_no_answer_repeats_a_secret_that_an_error_text_holds(
    client: FlaskClient, application: Application, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    keep_secret("kept-by-a-test-of-answers")

    def fail() -> None:
        url = "postgresql://rqmail:a-password-of-this-test@db/mail"
        raise InvalidInputError("key", "", f"not kept-by-a-test-of-answers, nor what {url} refused")

    monkeypatch.setattr(application.tenants, "all", fail)
    answer = client.get(path)
    assert answer.status_code == 400
    assert "refused" in answer.text
    assert "kept-by-a-test" not in answer.text
    assert "a-password-of" not in answer.text


def test_an_error_of_ours_tells_nothing_of_its_inside(
    web: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("rqmail.administration.messages.find", break_down)
    answer = client.get("/messages")
    assert answer.status_code == 500
    assert "swordfish" not in answer.text
    assert ADMIN_TOKEN not in capsys.readouterr().err


def test_what_is_typed_is_shown_as_text_wherever_it_comes_back(anyone: FlaskClient) -> None:
    for typed in ("<script>alert(1)</script>", "{{7*7}}"):
        text = anyone.get("/login", query_string={"next": f"/{typed}"}).text
        assert "<script>" not in text
        assert "49" not in text
