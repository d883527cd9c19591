"""The server: what it insists on before it listens."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from waitress.adjustments import Adjustments

from rqmail.bootstrap import Application
from rqmail.errors import SettingsError
from rqmail.settings import Settings
from rqmail.web import serve
from rqmail.web.server import is_loopback


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Flask, dict[str, Any]]]:
    """What waitress was asked to serve."""
    asked: list[tuple[Flask, dict[str, Any]]] = []

    def serve(app: Flask, _server: Any, **options: Any) -> None:
        Adjustments(**options)  # raises for what waitress does not know
        asked.append((app, options))

    monkeypatch.setattr("waitress.serve", serve)
    return asked


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    return settings.model_copy(update=getattr(request, "param", {}))


NO_TOKEN = pytest.mark.parametrize("settings", [{"admin_token": None}], indirect=True, ids=["no token"])


@NO_TOKEN
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "mail.example.org", ""])
def test_without_a_token_it_listens_on_nothing_but_loopback_and_says_why(
    application: Application, listening: list[Any], host: str
) -> None:
    with pytest.raises(SettingsError, match=r"RQMAIL_ADMIN_TOKEN.*loopback"):
        serve(application, host)
    assert listening == []


@NO_TOKEN
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_without_a_token_loopback_is_opened_with_a_token_that_is_printed(
    application: Application, listening: list[Any], capsys: pytest.CaptureFixture[str], host: str
) -> None:
    serve(application, host)
    [(app, _)] = listening
    [token] = re.findall(r"rqm_\S+", capsys.readouterr().out)
    asked = app.test_client().get("/messages", headers={"Authorization": f"Bearer {token}"})
    assert asked.status_code == 200
    assert app.test_client().get("/messages").status_code == 401


@NO_TOKEN
def test_a_named_token_is_enough_to_listen_openly(application: Application, listening: list[Any]) -> None:
    application.access.create("ops", ["admin"], by="shell")
    serve(application, "0.0.0.0")
    assert len(listening) == 1
    application.access.revoke("ops")
    with pytest.raises(SettingsError):
        serve(application, "0.0.0.0")


@pytest.mark.parametrize(
    ("settings", "host", "names"),
    [
        ({}, "127.0.0.1", ["localhost", "127.0.0.1", "[::1]", "::1"]),
        ({}, "0.0.0.0", None),
        (
            {"web_url": "https://mail.example.org/"},
            "0.0.0.0",
            ["mail.example.org", "localhost", "127.0.0.1", "[::1]", "::1"],
        ),
    ],
    indirect=["settings"],
)
def test_it_answers_to_its_own_names(
    application: Application, listening: list[Any], host: str, names: list[str] | None
) -> None:
    serve(application, host, 9000)
    [(app, options)] = listening
    assert app.config["TRUSTED_HOSTS"] == names
    assert (options["host"], options["port"]) == (host, 9000)
    assert options["url_scheme"] == ("https" if names and "mail.example.org" in names else "http")


@pytest.mark.parametrize("settings", [{"web_trusted_proxy": "10.0.0.1"}], indirect=True)
def test_a_proxy_is_believed_only_when_it_is_named(application: Application, listening: list[Any]) -> None:
    serve(application)
    [(_, options)] = listening
    assert options["trusted_proxy"] == "10.0.0.1"
    assert options["trusted_proxy_headers"] == {"x-forwarded-for"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert is_loopback(host)
