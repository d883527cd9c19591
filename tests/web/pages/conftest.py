"""The pages on SQLite: what is shown does not depend on the database, which the API's tests try both of."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from rqmail.bootstrap import Application
from support.databases import BoundDatabase
from web.asking import ADMIN_TOKEN


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
