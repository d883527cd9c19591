"""Mail to an address that is to bounce comes back as Exchange reports it, and rqmail takes it from there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from rqmail import bootstrap
from rqmail.administration import messages
from rqmail.bootstrap import Application
from rqmail.clock import utc_now
from rqmail.delivery.traces import Traces
from rqmail.intake.draft import Draft
from rqmail.models.base import db, pooled_connection
from rqmail.models.deliveries import deliveries_of, readings
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


def test_whether_mail_was_delivered_goes_all_the_way_from_the_sandbox_to_its_recipients(
    application: Application, sandbox: Sandbox
) -> None:
    control = SandboxControl(sandbox.base_url, sandbox.ca_file)
    control.configure(traces={"b@x.nl": "quarantined"}, directory={"may_read_mail": False, "may_write_mail": False})
    control.faults("accept-then-reset", operation="sendMail")
    to = "A@x.nl, b@x.nl, weg@x.nl, later@x.nl"
    message_id = application.intake.submit(Draft("mailbox:news", "Open dag", to=to, text="Hallo"))
    application.dispatcher.tick()
    application.send([message_id])
    assert messages.show(message_id).status == "UNKNOWN"
    later = Traces(application.senders, lambda: utc_now() + timedelta(minutes=2))
    control.configure(directory={"may_read_traces": False})
    assert later.run() == {}
    assert "ExchangeMessageTrace.Read.All is missing" in str(readings()[SANDBOX_TENANT_ID].problem)
    control.configure(directory={"may_read_traces": True})
    readings()[SANDBOX_TENANT_ID].keep(utc_now())
    assert later.run() == {SANDBOX_TENANT_ID: 4}
    assert {address: one.status for address, one in deliveries_of([message_id])[message_id].items()} == {
        "A@x.nl": "delivered",
        "b@x.nl": "quarantined",
        "weg@x.nl": "failed",
        "later@x.nl": "pending",
    }
    assert messages.show(message_id).status == "SENT"
    control.reset()


def test_which_addresses_bounce_is_set_while_it_runs(sandbox: Sandbox) -> None:
    control = SandboxControl(sandbox.base_url, sandbox.ca_file)
    assert control.configure(bounces={"jan@x.nl": "5.1.1"})["bounces"] == {"jan@x.nl": "5.1.1"}
    with pytest.raises(SandboxControlError, match="a status such as"):
        control.configure(bounces={"jan@x.nl": "no"})
    control.reset()
    assert control.configure()["bounces"]["weg@x.nl"] == "5.1.10"
