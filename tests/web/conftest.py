"""The web application on a real database and a real Valkey, asked in-process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.models.base import db
from rqmail.settings import Settings
from rqmail.web import create_app
from support.clock import MovableClock
from support.databases import BoundDatabase
from web.asking import ADMIN_TOKEN


@pytest.fixture
def settings(database: BoundDatabase, redis_url: str) -> Settings:
    """The settings of an installation with an admin token and a key for secrets."""
    return Settings(
        _env_file=None,
        database_url=database.url,
        redis_url=redis_url,
        admin_token=ADMIN_TOKEN,
        secret_key="a-key-for-tests-only",
    )


@pytest.fixture
def application(settings: Settings, clock: MovableClock) -> Iterator[Application]:
    """The application behind the web process."""
    application = bootstrap.build(settings, clock)
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


@pytest.fixture
def web(application: Application) -> Flask:
    """The web application, answering to localhost as ``rqmail web`` does."""
    return create_app(application, trusted_hosts=["localhost"])


@pytest.fixture
def anyone(web: Flask) -> FlaskClient:
    """A client without a token."""
    return web.test_client()


@pytest.fixture
def client(web: Flask) -> FlaskClient:
    """A client with the admin token."""
    client = web.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {ADMIN_TOKEN}"
    return client


@pytest.fixture
def held(web: Flask, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long tokens were held, without waiting for it."""
    seconds: list[float] = []
    monkeypatch.setattr(web.extensions["rqmail"].attempts, "_sleep", seconds.append)
    return seconds
