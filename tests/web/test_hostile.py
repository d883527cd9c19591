"""What strangers and hostile pages send: to every address there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.models.base import pooled_connection
from support.messages import new_message, submitted
from web.asking import ADMIN_TOKEN

_HOSTILE = (
    "a\x00b",
    "\r\nX-Injected: yes",
    "\"'><script>alert(1)</script>",
    "../../../../etc/passwd",
    "_" * 5_000,
    "9" * 400,
    "1e400",
)
#: Bytes that are no UTF-8.
_BROKEN = ("%ff%ed%a0%80",)

_QUERY = (
    "q", "status", "mailbox", "tenant", "recipient", "subject", "priority", "from", "to", "zone", "limit", "cursor",
    "after", "sender", "state", "page", "delimiter", "next", "language", "key",
)  # fmt: skip


def addresses(web: Flask, value: str) -> Iterator[tuple[str, set[str]]]:
    """Every address with ``value`` wherever something is named, and how it may be asked."""
    for rule in web.url_map.iter_rules():
        path = re.sub(r"<[^>]+>", value, re.sub(r"<any\(\W*([\w-]+)[^>]*>", r"\1", rule.rule))
        yield path, (rule.methods or set()) - {"OPTIONS"}


@pytest.fixture
def signed_in(web: Flask, application: Application) -> FlaskClient:
    """An admin's browser."""
    application.mailboxes.add("news", "news@x.nl")
    with pooled_connection():
        submitted(new_message("mailbox:news"))
    client = web.test_client()
    [proof] = re.findall(r'name="csrf_token" value="([^"]+)"', client.get("/login").text)[:1]
    assert client.post("/login", data={"token": ADMIN_TOKEN, "csrf_token": proof}).status_code == 303
    return client


def test_no_address_changes_anything_for_a_browser_that_cannot_prove_it_was_asked_by_our_page(
    web: Flask, signed_in: FlaskClient, application: Application
) -> None:
    [proof] = re.findall(r'name="csrf_token" value="([^"]+)"', signed_in.get("/ui/").text)[:1]
    before = application.audit.lines()
    asked = 0
    for path, methods in addresses(web, "news"):
        if path == "/unsubscribe/news":
            continue  # mail programs send there: the signed link is the proof
        for method in methods - {"GET", "HEAD"}:
            for kind in ("application/x-www-form-urlencoded", "application/json"):
                answer = signed_in.open(path, method=method, data=b"{}", content_type=kind)
                assert answer.status_code == 403, (method, path, kind)
            for where in ("null", "http://localhost.evil.example"):
                answer = signed_in.open(path, method=method, data={"csrf_token": proof}, headers={"Origin": where})
                assert answer.status_code == 403, (method, path, where)
            asked += 1
    assert asked > 40
    assert application.audit.lines() == before
    assert signed_in.get("/ui/").status_code == 200  # nor was anybody signed out


@pytest.mark.parametrize("value", [*_HOSTILE, *_BROKEN])
def test_no_value_in_an_address_is_an_error_of_ours_or_becomes_part_of_the_page(
    web: Flask, signed_in: FlaskClient, client: FlaskClient, value: str
) -> None:
    written = value if value in _BROKEN else quote(value, safe="")
    whole = "&".join(f"{name}={written}" for name in _QUERY)
    for path, methods in addresses(web, written):
        if "GET" not in methods:
            continue
        for address in (path, f"{path}?{whole}"):
            answer = (signed_in if path.startswith("/ui") else client).get(address)
            text = answer.text
            assert answer.status_code < 500 or path == "/readyz", (address[:200], text[-500:])
            assert "X-Injected" not in answer.headers, address
            if "html" in answer.headers.get("Content-Type", ""):
                assert "<script>alert" not in text, address[:200]
            location = answer.headers.get("Location", "/")
            assert re.match(r"(http://localhost)?/(?![/\\])", location), (address[:200], location)


def test_no_field_of_a_form_is_an_error_of_ours(web: Flask, signed_in: FlaskClient) -> None:
    page = signed_in.get("/ui/mailboxes/news").text
    [proof] = re.findall(r'name="csrf_token" value="([^"]+)"', page)[:1]
    fields = {"csrf_token": proof}
    for template in (Path(web.root_path) / "templates").rglob("*.html"):
        fields |= dict.fromkeys(re.findall(r'name="([A-Za-z.]+)"', template.read_text()), "a\x00b")
    fields |= {"csrf_token": proof, "next": "/ui/"}
    assert len(fields) > 30
    for path, methods in addresses(web, "news"):
        if "POST" in methods and path.startswith("/ui/"):
            answer = signed_in.post(path, data=fields)
            assert answer.status_code == 400, (path, answer.status_code)
    login = web.test_client()
    [proof] = re.findall(r'name="csrf_token" value="([^"]+)"', login.get("/login").text)[:1]
    assert login.post("/login", data={"token": "a\x00b", "csrf_token": proof}).status_code == 400
