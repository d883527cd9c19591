"""``rqmail token``: issued once, listed without the token, revoked at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from click.testing import CliRunner, Result

from rqmail import bootstrap
from rqmail.administration.access import Scope
from rqmail.bootstrap import Application
from rqmail.cli import cli
from rqmail.models.base import db
from rqmail.settings import Settings
from support.clock import START, MovableClock
from support.databases import BoundDatabase

Run = Callable[..., Result]


@pytest.fixture
def application(
    sqlite_database: BoundDatabase, redis_url: str, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Application]:
    settings = Settings(_env_file=None, database_url=sqlite_database.url, redis_url=redis_url)
    application = bootstrap.build(settings, clock)
    monkeypatch.setattr("rqmail.cli.token.application", lambda: application)
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


@pytest.fixture
def rqmail(application: Application) -> Run:
    return lambda *arguments: CliRunner().invoke(cli, ["token", *arguments])


def test_a_token_that_is_created_opens_what_it_names(rqmail: Run, application: Application) -> None:
    done = rqmail("create", "shop", "--scope", "send", "--scope", "read", "--expires-in", "2h")
    assert done.exit_code == 0
    found = application.access.authenticate(done.output.strip())
    assert found is not None
    assert (found.name, found.scopes) == ("shop", {Scope.SEND, Scope.READ})
    assert application.access.token("shop").expires_on == START + timedelta(hours=2)
    [line] = application.audit.lines()
    assert (line.who, line.action, line.subject) == ("command line", "token.create", "token:shop")


def test_the_list_shows_every_token_but_never_the_token_itself(rqmail: Run) -> None:
    issued = json.loads(rqmail("create", "shop", "--scope", "read", "--json").output)["token"]
    assert json.loads(rqmail("list", "--json").output)[0]["name"] == "shop"
    for shown in (rqmail("list"), rqmail("list", "--json")):
        assert "shop" in shown.output
        assert issued not in shown.output


def test_a_revoked_token_opens_nothing(rqmail: Run, application: Application) -> None:
    issued = rqmail("create", "shop", "--scope", "read").output.strip()
    assert rqmail("revoke", "shop").exit_code == 0
    assert application.access.authenticate(issued) is None
    assert rqmail("revoke", "nobody").exit_code != 0


@pytest.mark.parametrize(
    "arguments",
    [("create", "shop"), ("create", "shop", "--scope", "root"), ("create", "admin", "--scope", "read"),
     ("create", "shop", "--scope", "read", "--expires-in", "soon")],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_wrong_usage(rqmail: Run, arguments: tuple[str, ...]) -> None:
    assert rqmail(*arguments).exit_code == 2
    assert rqmail("list", "--json").output.strip() == "[]"
