"""Who is asking comes before what was sent: on every address there is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.web import auth
from rqmail.web.app import create_app

#: What anyone may ask for; everything else wants to know who is asking.
OPEN = {"/", "/login", "/logout", "/docs", "/openapi.json", "/healthz", "/readyz", "/ui/language", "/static/"}


class Unread:
    """A body that nobody may touch."""

    def read(self, *_: object) -> bytes:
        raise AssertionError("the body was read before it was known who is asking")

    readline = readlines = read


def routes(web: Flask) -> Iterator[tuple[str, str]]:
    for rule in web.url_map.iter_rules():
        path = re.sub(r"<[^>]+>", "x", re.sub(r"<any\(\W*(\w+)[^>]*>", r"\1", rule.rule))
        yield from ((method, path) for method in rule.methods or () if method != "OPTIONS")


def is_open(path: str) -> bool:
    return path in OPEN or path.startswith(("/static/", "/unsubscribe/"))


def test_every_address_asks_who_it_is_before_it_looks_at_what_was_sent(web: Flask, anyone: FlaskClient) -> None:
    asked = [(method, path) for method, path in routes(web) if not is_open(path)]
    assert len(asked) > 60
    for method, path in asked:
        answer = anyone.open(
            path,
            method=method,
            environ_overrides={"wsgi.input": Unread(), "CONTENT_LENGTH": "9000000"},
            headers={"Content-Type": "application/json"},
        )
        if path.startswith("/ui"):
            assert (answer.status_code, answer.headers["Location"][:6]) == (302, "/login"), (method, path)
        else:
            assert answer.status_code == 401, (method, path)
            assert "WWW-Authenticate" in answer.headers


def test_a_token_that_does_not_reach_is_refused_before_the_body_too(
    web: Flask, anyone: FlaskClient, application: Application
) -> None:
    _, token = application.access.create("nothing", ["send"], by="admin")
    for method, path in routes(web):
        if (
            is_open(path)
            or path == "/ui/compose"
            or (method == "POST" and re.fullmatch(r"/messages(/imports(/[^/]+/undo)?)?", path))
        ):
            continue  # that is what such a token is for
        answer = anyone.open(
            path,
            method=method,
            environ_overrides={"wsgi.input": Unread(), "CONTENT_LENGTH": "9"},
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 403, (method, path)


def test_what_is_open_to_all_takes_no_more_than_a_form(web: Flask, anyone: FlaskClient) -> None:
    assert {path for _, path in routes(web) if is_open(path)} >= OPEN - {"/static/"}
    for path in ("/login", "/logout", "/ui/language"):
        answer = anyone.post(path, data={"token": "x" * 20_000})
        assert answer.status_code == 413, path


def test_a_view_that_forgets_to_say_who_may_ask_stops_the_start(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(application)
    app.add_url_rule("/forgotten", "forgotten", lambda: "everything")
    with pytest.raises(TypeError, match="forgotten"):
        auth.check_every_view(app)
