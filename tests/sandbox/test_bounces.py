"""Mail to an address that is to bounce comes back as Exchange reports it, and rqmail takes it from there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rqmail import bootstrap
from rqmail.administration import messages
from rqmail.bootstrap import Application
from rqmail.intake.draft import Draft
from rqmail.models.base import db, pooled_connection
from rqmail.models.message import Message
from rqmail.sandbox.client import SandboxControl, SandboxControlError
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID
from rqmail.sandbox.server import Sandbox
from rqmail.settings import Settings
from support.databases import BoundDatabase


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(bounces={"Weg@x.nl": "5.1.10", "vol@x.nl": "5.2.2", "later@x.nl": "4.4.7"}) as sandbox:
        yield sandbox


@pytest.fixture
def application(sqlite_database: BoundDatabase, redis_url: str, sandbox: Sandbox) -> Iterator[Application]:
    settings = Settings(
        _env_file=None,
        database_url=sqlite_database.url,
        redis_url=redis_url,
        graph_base_url=sandbox.base_url,
        graph_authority=sandbox.authority,
        ca_bundle=sandbox.ca_file,
        graph_tenant_id=SANDBOX_TENANT_ID,
        graph_client_id=SANDBOX_CLIENT_ID,
        graph_client_secret=SANDBOX_CLIENT_SECRET,
    )
    application = bootstrap.build(settings)
    application.mailboxes.add("news", "news@contoso.example")
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


def test_a_bounce_goes_all_the_way_from_the_sandbox_to_the_suppression_list(
    application: Application, sandbox: Sandbox
) -> None:
    to = "a@x.nl, weg@x.nl, vol@x.nl, later@x.nl"
    message_id = application.intake.submit(Draft("mailbox:news", "Open dag", to=to, text="Hallo"))
    application.dispatcher.tick()
    with pooled_connection():
        ids = [row.id for row in Message.select()]
    application.send(ids)
    assert application.bounces.run() == {"news@contoso.example": 1}
    results = messages.show(message_id).results
    assert {(one.address, one.code, one.probable) for one in results} == {
        ("weg@x.nl", "5.1.10", False),
        ("vol@x.nl", "5.2.2", False),
    }
    assert [(one.address, one.reason) for one in application.suppressions.find()] == [("weg@x.nl", "hard-bounce")]
    assert application.bounces.run() == {}


def test_which_addresses_bounce_is_set_while_it_runs(sandbox: Sandbox) -> None:
    control = SandboxControl(sandbox.base_url, sandbox.ca_file)
    assert control.configure(bounces={"jan@x.nl": "5.1.1"})["bounces"] == {"jan@x.nl": "5.1.1"}
    with pytest.raises(SandboxControlError, match="a status such as"):
        control.configure(bounces={"jan@x.nl": "no"})
    control.reset()
    assert control.configure()["bounces"]["weg@x.nl"] == "5.1.10"
