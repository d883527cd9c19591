"""Signing in: who gets a session, how long it holds, and that no other site can use it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from redis import Redis

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.models.base import db
from rqmail.settings import Settings
from rqmail.web import create_app
from rqmail.web.sessions import local_path
from support.clock import MovableClock
from web.asking import ADMIN_TOKEN


def csrf(client: FlaskClient, path: str = "/login") -> str:
    return re.search(r'name="csrf_token" value="([^"]+)"', client.get(path).text)[1]  # type: ignore[index]


def sign_in(client: FlaskClient, token: str = ADMIN_TOKEN, **more: str) -> int:
    return client.post("/login", data={"token": token, "csrf_token": csrf(client), **more}).status_code


def is_signed_in(client: FlaskClient) -> bool:
    return client.get("/ui/").status_code == 200


def test_a_person_signs_in_with_a_token_and_out_again(anyone: FlaskClient) -> None:
    assert not is_signed_in(anyone)
    assert sign_in(anyone) == 303
    assert is_signed_in(anyone)
    answer = anyone.post("/logout", data={"csrf_token": csrf(anyone, "/ui/")})
    assert answer.headers["Location"] == "/login"
    assert not is_signed_in(anyone)


def test_who_is_not_signed_in_comes_back_to_where_they_wanted_to_go(anyone: FlaskClient) -> None:
    asked = anyone.get("/ui/?page=2")
    assert asked.headers["Location"] == "/login?next=%2Fui%2F%3Fpage%3D2"
    answer = anyone.post("/login", data={"token": ADMIN_TOKEN, "csrf_token": csrf(anyone), "next": "/ui/?page=2"})
    assert answer.headers["Location"] == "/ui/?page=2"


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "evil",
        "javascript:alert(1)", "/\t/evil.example", "/\n/evil.example", "http:/evil.example", "", None,
    ],
    ids=repr,
)  # fmt: skip
def test_nobody_is_sent_to_another_site(anyone: FlaskClient, wanted: str | None) -> None:
    assert local_path(wanted) == "/ui/"
    data = {"token": ADMIN_TOKEN, "csrf_token": csrf(anyone)} | ({} if wanted is None else {"next": wanted})
    assert anyone.post("/login", data=data).headers["Location"] == "/ui/"


def test_the_cookie_is_for_this_site_alone_and_not_for_scripts(anyone: FlaskClient) -> None:
    sign_in(anyone)
    [cookie] = anyone._cookies.values()
    assert (cookie.http_only, cookie.same_site, cookie.path) == (True, "Strict", "/")
    assert ADMIN_TOKEN not in cookie.value


def test_behind_https_the_cookie_never_travels_in_the_clear(settings: Settings, clock: MovableClock) -> None:
    app = bootstrap.build(settings.model_copy(update={"web_url": "https://mail.example.org"}), clock)
    client = create_app(app, trusted_hosts=["mail.example.org"]).test_client()
    header = client.get("/login", base_url="https://mail.example.org").headers["Set-Cookie"]
    app.limiter.close()
    app.redis.close()
    db.obj.close_all()
    assert header.startswith("__Host-rqmail=")
    assert "Secure" in header


def test_a_form_without_its_csrf_token_changes_nothing(anyone: FlaskClient) -> None:
    assert anyone.post("/login", data={"token": ADMIN_TOKEN}).status_code == 403
    assert anyone.post("/login", data={"token": ADMIN_TOKEN, "csrf_token": "guessed"}).status_code == 403
    assert not is_signed_in(anyone)
    sign_in(anyone)
    assert anyone.post("/logout", data={}).status_code == 403
    assert is_signed_in(anyone)


def test_a_csrf_token_of_another_session_is_worth_nothing(web: Flask, anyone: FlaskClient) -> None:
    stolen = csrf(web.test_client())
    csrf(anyone)
    assert anyone.post("/login", data={"token": ADMIN_TOKEN, "csrf_token": stolen}).status_code == 403


def test_a_session_opens_the_api_but_changes_need_the_csrf_token_too(anyone: FlaskClient) -> None:
    sign_in(anyone)
    body = {"key": "a", "address": "a@example.org"}
    assert anyone.get("/messages").status_code == 200
    assert anyone.post("/admin/system-mailboxes", json=body).status_code == 403
    answer = anyone.post("/admin/system-mailboxes", json=body, headers={"X-CSRFToken": csrf(anyone, "/ui/")})
    assert answer.status_code == 201


def test_a_request_that_names_another_origin_is_refused(client: FlaskClient) -> None:
    body = {"key": "a", "address": "a@example.org"}
    for origin in ("https://evil.example", "null"):
        answer = client.post("/admin/system-mailboxes", json=body, headers={"Origin": origin})
        assert answer.status_code == 403
    answer = client.post("/admin/system-mailboxes", json=body, headers={"Origin": "http://localhost"})
    assert answer.status_code == 201


def test_a_session_ends_with_its_token(anyone: FlaskClient, application: Application, clock: MovableClock) -> None:
    _, token = application.access.create("ops", ["read"], by="admin")
    assert sign_in(anyone, token) == 303
    assert is_signed_in(anyone)
    application.access.revoke("ops")
    assert not is_signed_in(anyone)


def test_a_session_ends_when_the_admin_token_is_changed(
    anyone: FlaskClient, settings: Settings, clock: MovableClock
) -> None:
    sign_in(anyone)
    [cookie] = anyone._cookies.values()
    changed = bootstrap.build(settings.model_copy(update={"admin_token": None}), clock)
    changed.access.issue_temporary()
    other = create_app(changed).test_client()
    other.set_cookie(cookie.key, cookie.value)
    signed_in = is_signed_in(other)
    changed.limiter.close()
    changed.redis.close()
    db.obj.close_all()
    assert not signed_in


def test_signing_out_ends_every_copy_of_the_cookie(web: Flask, anyone: FlaskClient) -> None:
    sign_in(anyone)
    [cookie] = anyone._cookies.values()
    copy = web.test_client()
    copy.set_cookie(cookie.key, cookie.value)
    assert is_signed_in(copy)
    anyone.post("/logout", data={"csrf_token": csrf(anyone, "/ui/")})
    assert not is_signed_in(copy)
    sign_in(anyone)
    assert is_signed_in(anyone)
    assert not is_signed_in(copy)


@pytest.mark.parametrize(
    ("origin", "host", "ours"),
    [
        ("https://mail.example.org", "mail.example.org", True),
        ("https://mail.example.org:443", "mail.example.org", True),
        ("https://MAIL.Example.org", "mail.example.org", True),
        ("https://mail.example.org", "Mail.Example.ORG:443", True),
        ("http://mail.example.org:80", "mail.example.org", True),
        ("http://mail.example.org:8080", "mail.example.org:8080", True),
        ("https://mail.example.org:8443", "mail.example.org", False),
        ("https://mail.example.org.evil.example", "mail.example.org", False),
        ("https://mail.example.org@evil.example", "mail.example.org", False),
        ("https://mail.example.org:x", "mail.example.org", False),
        ("ftp://mail.example.org", "mail.example.org", False),
        ("null", "mail.example.org", False),
    ],
)
def test_an_origin_is_ours_in_any_case_and_with_the_port_that_goes_without_saying(
    application: Application, origin: str, host: str, ours: bool
) -> None:
    client = create_app(application, trusted_hosts=["mail.example.org"]).test_client()
    headers = {"Origin": origin, "Host": host, "Authorization": f"Bearer {ADMIN_TOKEN}"}
    answer = client.post("/admin/system-mailboxes", json={"key": "a", "address": "a@example.org"}, headers=headers)
    assert answer.status_code == (201 if ours else 403)


def test_a_token_without_the_scope_sees_no_page(anyone: FlaskClient, application: Application) -> None:
    _, token = application.access.create("shop", ["send"], by="admin")
    sign_in(anyone, token)
    assert anyone.get("/ui/").status_code == 403


@pytest.fixture
def from_elsewhere(web: Flask) -> Iterator[FlaskClient]:
    client = web.test_client()
    client.environ_base["REMOTE_ADDR"] = "203.0.113.9"
    yield client


def test_after_ten_failures_an_address_is_slowed_and_a_right_token_still_opens(
    anyone: FlaskClient, from_elsewhere: FlaskClient, held: list[float]
) -> None:
    assert [sign_in(anyone, f"guess {n}") for n in range(10)] == [401] * 10
    assert held == []
    assert sign_in(anyone, "guess 10") == 401
    assert held == [0.5]
    assert sign_in(from_elsewhere) == 303
    assert held == [0.5]
    assert sign_in(anyone) == 303
    assert is_signed_in(anyone)


def test_wrong_bearer_tokens_are_slowed_as_well_and_right_ones_that_are_known_are_not(
    anyone: FlaskClient, client: FlaskClient, application: Application, held: list[float]
) -> None:
    def status(token: str) -> int:
        return anyone.get("/messages", headers={"Authorization": f"Bearer {token}"}).status_code

    _, shop = application.access.create("shop", ["read"], by="admin")
    _, late = application.access.create("late", ["read"], by="admin")
    assert status(shop) == 200
    assert [status(f"guess {n}") for n in range(12)] == [401] * 12
    assert held == [0.5] * 2
    assert status(shop) == 200
    assert held == [0.5] * 2  # it has been right before, so it does not wait behind guesses
    assert status(late) == 200
    assert held == [0.5] * 3
    application.access.revoke("shop")
    assert status(shop) == 401  # was right before: looked at without a wait, once
    assert held == [0.5] * 3
    assert status(shop) == 401
    assert held == [0.5] * 4


def test_only_two_guesses_are_held_at_a_time_and_others_are_refused_unseen(
    web: Flask, anyone: FlaskClient, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[int] = []

    def status(token: str) -> int:
        return anyone.get("/messages", headers={"Authorization": f"Bearer {token}"}).status_code

    def hold(_seconds: float) -> None:
        if len(answers) < 2:
            answers.append(0)
            answers.append(status(f"beside {len(answers)}"))

    [status(f"guess {n}") for n in range(10)]
    monkeypatch.setattr(web.extensions["rqmail"].attempts, "_sleep", hold)
    looked_at: list[str] = []
    monkeypatch.setattr(application.access, "authenticate", looked_at.append)
    status("one more")
    assert len(looked_at) == 2


def test_while_redis_is_away_guessing_is_slower_still(
    anyone: FlaskClient, redis_client: Redis, held: list[float]
) -> None:
    redis_client.config_set("maxmemory", 1)
    try:
        assert [sign_in(anyone, f"guess {n}") for n in range(4)] == [401] * 4
        assert held == [0.5]
    finally:
        redis_client.config_set("maxmemory", 0)
