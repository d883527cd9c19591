"""The pages on SQLite: what is shown does not depend on the database, which the API's tests try both of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect
from werkzeug.test import TestResponse

from rqmail.bootstrap import Application
from support.databases import BoundDatabase
from web.asking import ADMIN_TOKEN
from web.pages.browser import chromium
from web.pages.serving import serving


@pytest.fixture
def database(sqlite_database: BoundDatabase) -> BoundDatabase:
    """An empty SQLite file."""
    return sqlite_database


class Person:
    """Somebody who is signed in, reads pages and sends their forms, without a script."""

    def __init__(self, client: FlaskClient, token: str, language: str = "en") -> None:
        self.client = client
        self.client.environ_base["HTTP_ACCEPT_LANGUAGE"] = language
        assert self.send("/login", {"token": token}, page="/login").status_code == 303

    def look(self, path: str) -> str:
        """Read a page that is there."""
        answer = self.client.get(path)
        assert answer.status_code == 200, (path, answer.status)
        return answer.text

    def send(self, path: str, fields: dict[str, object], *, page: str = "/ui/") -> TestResponse:
        """Send a form, with the proof that it comes from one of our pages."""
        [proof] = set(re.findall(r'name="csrf_token" value="([^"]+)"', self.client.get(page).text)[:1])
        return self.client.post(path, data={**fields, "csrf_token": proof})

    def notice(self, page: str = "/ui/") -> str:
        """Read what the next page says has been done."""
        return "".join(re.findall(r'<p class="notice [a-z]+">(.*?)</p>', self.look(page)))


@pytest.fixture
def admin(web: Flask) -> Person:
    """An admin who reads English."""
    return Person(web.test_client(), ADMIN_TOKEN)


@pytest.fixture
def beheerder(web: Flask) -> Person:
    """An admin who reads Dutch."""
    return Person(web.test_client(), ADMIN_TOKEN, "nl-NL,nl;q=0.9,en;q=0.5")


@pytest.fixture
def reader(web: Flask, application: Application) -> Person:
    """Somebody whose token only reads."""
    _, token = application.access.create("reader", ["read"], by="test")
    return Person(web.test_client(), token)


@pytest.fixture
def news(application: Application) -> str:
    """The key of a mailbox."""
    return application.mailboxes.add("news", "news@x.nl").key


# --- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def address(application: Application) -> Iterator[str]:
    """Where the web process listens."""
    with serving(application) as address:
        yield address


@dataclass
class Observed:
    """What the browser complained about, and whom it asked."""

    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def observed() -> Observed:
    """What a test's pages complained about: nothing, when the test is over."""
    return Observed()


@pytest.fixture
def context(browser: Browser, address: str, observed: Observed) -> Iterator[BrowserContext]:
    """A browser window of somebody who reads Dutch; no page may complain or ask another host."""
    context = browser.new_context(base_url=address, locale="nl-NL", timezone_id="Europe/Amsterdam")
    context.set_default_timeout(10_000)

    def hear(message: ConsoleMessage) -> None:
        # That a form was refused is no complaint: every browser says so of any 400.
        if message.type in {"error", "warning"} and "status of 400" not in message.text:
            observed.complaints.append(message.text)

    def watch(page: Page) -> None:
        page.on("console", hear)
        page.on("pageerror", lambda error: observed.complaints.append(str(error)))

    def note(request: Request) -> None:
        observed.asked.append(request.url)

    context.on("page", watch)
    context.on("request", note)
    yield context
    context.close()
    assert observed.complaints == []
    assert [url for url in observed.asked if not url.startswith(address)] == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page after signing in."""
    page = context.new_page()
    page.goto("/")
    page.get_by_label("Token").fill(ADMIN_TOKEN)
    page.get_by_role("button", name="Aanmelden").click()
    expect(page).to_have_url(re.compile("/ui/$"))
    return page
