"""Served behind what people run it on: under a path, through a proxy, asked by monitors under any name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.errors import SettingsError
from rqmail.settings import Settings
from rqmail.web import create_app
from web.asking import ADMIN_TOKEN

ROOT = "/rqmail"
SITE = "https://tools.example.org"


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    return settings.model_copy(update={"web_url": getattr(request, "param", f"{SITE}{ROOT}/")})


@pytest.fixture
def web(application: Application) -> Flask:
    return create_app(application, trusted_hosts=["tools.example.org", "localhost"])


@pytest.fixture
def proxied(application: Application) -> FlaskClient:
    """Asked through a trusted proxy; the server has seen to it that nobody else says so."""
    client = create_app(application, trusted_hosts=["tools.example.org"], behind_proxy=True).test_client()
    client.environ_base["HTTP_X_FORWARDED_FOR"] = "203.0.113.9"
    return client


def signed_in(client: FlaskClient, root: str) -> FlaskClient:
    form = client.get(f"{root}/login", base_url=SITE).text
    token = re.search(r'name="csrf_token" value="([^"]+)"', form)[1]  # type: ignore[index]
    answer = client.post(
        f"{root}/login", base_url=SITE, data={"token": ADMIN_TOKEN, "csrf_token": token, "next": "/ui/tokens"}
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{root}/ui/tokens")
    return client


@pytest.mark.parametrize("host", ["10.42.8.201:8080", "[fd00::7]:8080", "rqmail.default.svc", "evil.example"])
def test_monitors_are_answered_whatever_name_they_ask_under(anyone: FlaskClient, host: str) -> None:
    for path in ("/healthz", f"{ROOT}/healthz"):
        assert anyone.get(path, headers={"Host": host}).status_code == 200
    assert anyone.get("/readyz", headers={"Host": host}).status_code == 503
    assert anyone.get("/metrics", headers={"Host": host}).status_code == 401
    headers = {"Host": host, "Authorization": f"Bearer {ADMIN_TOKEN}"}
    assert anyone.get("/metrics", headers=headers).status_code == 200
    assert anyone.get("/messages", headers=headers).status_code == 400


PAGES = (
    "/ui/", "/ui/mailboxes", "/ui/mailboxes/news", "/ui/messages", "/ui/decisions", "/ui/tenants", "/ui/tenants/acme",
    "/ui/doctor", "/ui/tokens", "/ui/audit", "/docs", "/ui/nowhere",
)  # fmt: skip


def test_every_link_of_every_page_is_under_the_path(anyone: FlaskClient, application: Application) -> None:
    application.mailboxes.add("news", "news@example.org")
    application.tenants.add("acme", "default")
    client = signed_in(anyone, ROOT)
    for page in ("/login", *PAGES):
        text = client.get(ROOT + page, base_url=SITE).text
        links = re.findall(r'\b(?:href|src|action|formaction)="(/[^"]*)"', text)
        assert links, page
        assert not [link for link in links if not link.startswith(f"{ROOT}/")], page


def test_every_redirect_is_under_the_path(anyone: FlaskClient) -> None:
    assert anyone.get(f"{ROOT}/", base_url=SITE).headers["Location"] == f"{ROOT}/ui/"
    assert anyone.get(f"{ROOT}/ui", base_url=SITE).headers["Location"].endswith(f"{ROOT}/ui/")
    asked = anyone.get(f"{ROOT}/ui/?page=2", base_url=SITE)
    assert asked.headers["Location"] == f"{ROOT}/login?next=%2Fui%2F%3Fpage%3D2"


def test_a_proxy_that_takes_the_path_off_gets_the_same_links(anyone: FlaskClient) -> None:
    assert anyone.get("/", base_url=SITE).headers["Location"] == f"{ROOT}/ui/"
    assert f'action="{ROOT}/login"' in anyone.get("/login", base_url=SITE).text


def test_cookies_belong_to_the_path(anyone: FlaskClient) -> None:
    headers = anyone.get(f"{ROOT}/login", base_url=SITE).headers["Set-Cookie"]
    assert headers.startswith("__Secure-rqmail=")  # browsers take __Host- for the path / alone
    assert f"Path={ROOT}" in headers
    assert "Secure" in headers
    client = signed_in(anyone, ROOT)
    assert client.get(f"{ROOT}/ui/", base_url=SITE).status_code == 200
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get(f"{ROOT}/ui/", base_url=SITE).text)[1]  # type: ignore[index]
    chosen = client.post(
        f"{ROOT}/ui/language", base_url=SITE, data={"language": "nl", "csrf_token": token, "next": f"{ROOT}/ui/audit"}
    )
    assert chosen.headers["Location"] == f"{ROOT}/ui/audit"
    assert f"Path={ROOT}" in chosen.headers["Set-Cookie"]


@pytest.mark.parametrize("settings", [SITE], indirect=True)
def test_a_trusted_proxy_may_name_the_path(proxied: FlaskClient) -> None:
    proxied.environ_base["HTTP_X_FORWARDED_PREFIX"] = "/tools/mail/"
    assert proxied.get("/", base_url=SITE).headers["Location"] == "/tools/mail/ui/"
    assert "Path=/tools/mail;" in proxied.get("/login", base_url=SITE).headers["Set-Cookie"]
    assert signed_in(proxied, "/tools/mail").get("/tools/mail/ui/", base_url=SITE).status_code == 200


@pytest.mark.parametrize("settings", [SITE], indirect=True)
@pytest.mark.parametrize("prefix", ["//evil.example", "/a b", '/a"b', "/a<b", "https://evil.example", "/..", "a"])
def test_a_path_that_is_none_is_not_believed(proxied: FlaskClient, prefix: str) -> None:
    assert proxied.get("/", base_url=SITE, headers={"X-Forwarded-Prefix": prefix}).headers["Location"] == "/ui/"


@pytest.mark.parametrize("settings", [SITE], indirect=True)
def test_nobody_but_the_trusted_proxy_names_the_path(anyone: FlaskClient, proxied: FlaskClient) -> None:
    headers = {"X-Forwarded-Prefix": "/evil", "X-Forwarded-For": "203.0.113.9"}
    assert anyone.get("/", base_url=SITE, headers=headers).headers["Location"] == "/ui/"
    del proxied.environ_base["HTTP_X_FORWARDED_FOR"]  # as the server leaves it for anyone else
    assert proxied.get("/", base_url=SITE, headers={"X-Forwarded-Prefix": "/evil"}).headers["Location"] == "/ui/"


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/mail", "/messages", "/admin", "/static", "/healthz"])
def test_a_path_that_begins_with_a_name_of_ours_is_refused_at_the_start(application: Application, path: str) -> None:
    application.settings = application.settings.model_copy(update={"web_url": SITE + path})
    with pytest.raises(
        SettingsError, match=r"RQMAIL_WEB_URL: .* path begins with none of our own .*ui.*: leave it out"
    ):
        create_app(application)


@pytest.mark.parametrize("settings", [f"{SITE}/uix"], indirect=True)
def test_a_path_that_only_looks_like_one_of_ours_is_served(anyone: FlaskClient) -> None:
    assert anyone.get("/uix/", base_url=SITE).headers["Location"] == "/uix/ui/"


@pytest.mark.parametrize("settings", [SITE], indirect=True)
def test_a_proxy_that_names_a_path_of_ours_is_not_believed(proxied: FlaskClient) -> None:
    assert proxied.get("/", base_url=SITE, headers={"X-Forwarded-Prefix": "/ui"}).headers["Location"] == "/ui/"


def templates() -> Iterator[Path]:
    yield from (Path(__file__).parents[2] / "rqmail" / "web" / "templates").rglob("*.html")


@pytest.mark.parametrize("template", list(templates()), ids=lambda path: path.name)
def test_no_template_has_an_address_that_forgets_the_path(template: Path) -> None:
    assert not re.findall(r'\b(?:href|src|action|formaction)="/[^"]*"', template.read_text(encoding="utf-8"))
