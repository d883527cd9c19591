"""Which mailer each sender gets, and when it gets a new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from mailers.servers import Script, serving
from rqmail.errors import InvalidInputError, MailAuthError
from rqmail.mailers.configs import read_tenant
from rqmail.mailers.factory import MailerFactory, UnconfiguredMailer, graph_scope
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.mailers.sendgrid import SendGridMailer
from rqmail.ratelimit.limits import RateLimits
from rqmail.settings import load_settings


@dataclass(frozen=True)
class Mailbox:
    key: str = "noreply"
    address: str = "noreply@contoso.example"
    rate_limit_per_minute: int | None = None
    rate_limit_recipients_per_day: int | None = None


@dataclass(frozen=True)
class Tenant:
    key: str = "acme"
    provider: str = "microsoft-graph"
    address: str | None = "mail@acme.example"
    graph_tenant_id: str | None = None
    graph_client_id: str | None = None
    graph_client_secret: str | None = None
    sendgrid_api_key: str | None = None
    sendgrid_from: str | None = None


OUR_TENANT = "5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01"
OUR_APP = "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"
GRAPH = {"graph_tenant_id": OUR_TENANT, "graph_client_id": OUR_APP, "graph_client_secret": "own-secret"}
OWN_APP = {"graph_tenant_id": "theirs.example", "graph_client_id": "their-app", "graph_client_secret": "s2~x"}
SENDGRID = {"sendgrid_api_key": "SG.own-key", "sendgrid_from": "Contoso <noreply@contoso.example>"}
NOTHING = dict.fromkeys([*GRAPH, *SENDGRID, "graph_certificate", "ca_bundle"], "")


def factory_with(transport, **settings) -> MailerFactory:
    return MailerFactory(load_settings(_env_file=None, **{**NOTHING, **settings}), limiter=None, transport=transport)


@pytest.fixture
def factory(transport):
    return factory_with(transport, **GRAPH, **SENDGRID)


def test_a_system_mailbox_always_sends_through_graph_within_budget(factory):
    mailer = factory.get_mailer_for_system_mailbox(Mailbox(address=" NoReply@Contoso.Example "))

    assert isinstance(mailer, RateLimitedGraphMailer)
    assert mailer.mailbox_key == "noreply@contoso.example"


@pytest.mark.parametrize(
    ("provider", "expected"),
    [("microsoft-graph", RateLimitedGraphMailer), ("sendgrid", SendGridMailer), ("default", SendGridMailer)],
)
def test_a_tenants_provider_decides_and_only_graph_is_limited(factory, provider, expected):
    tenant = Tenant(provider=provider, sendgrid_api_key="SG.theirs", sendgrid_from="a@acme.example")

    assert type(factory.get_mailer(tenant)) is expected


def test_a_tenants_mailer_takes_the_tenants_own_limits_and_every_edit_of_them_brings_a_new_one(factory):
    tenant = Tenant("acme", "microsoft-graph", "a@acme.example", "t1", "c1", "s1")
    own = SimpleNamespace(**vars(tenant), rate_limit_per_minute=4, rate_limit_recipients_per_day=None)
    assert factory.get_mailer(tenant)._limits == RateLimits()
    assert factory.get_mailer(own)._limits == RateLimits(per_minute=4)


def test_no_tenant_gets_the_default_mailer(factory):
    assert factory.get_mailer() is factory.get_mailer(Tenant(provider="default"))


def test_a_provider_nobody_knows_is_refused_by_name(factory):
    with pytest.raises(InvalidInputError, match=r"'pigeon'.*'sendgrid'"):
        factory.get_mailer(Tenant(provider="pigeon"))


def test_a_mailer_is_kept_while_nothing_changes(factory):
    assert factory.get_mailer_for_system_mailbox(Mailbox()) is factory.get_mailer_for_system_mailbox(Mailbox())
    assert factory.get_mailer(Tenant()) is factory.get_mailer(Tenant())


@pytest.mark.parametrize(
    "edit",
    [{"address": "other@contoso.example"}, {"rate_limit_per_minute": 5}, {"rate_limit_recipients_per_day": 100}],
    ids=str,
)
def test_every_edit_of_a_system_mailbox_brings_a_new_mailer(factory, edit):
    before = factory.get_mailer_for_system_mailbox(Mailbox())

    assert factory.get_mailer_for_system_mailbox(replace(Mailbox(), **edit)) is not before


@pytest.mark.parametrize(
    "edit",
    [
        {"address": "x@acme.example"},
        {"graph_tenant_id": "t2"},
        {"graph_client_id": "c2"},
        {"graph_client_secret": "s2"},
        {"sendgrid_api_key": "SG.2"},
        {"sendgrid_from": "b@acme.example"},
    ],
    ids=lambda edit: next(iter(edit)),
)
@pytest.mark.parametrize("provider", ["microsoft-graph", "sendgrid"])
def test_every_edit_of_a_tenant_brings_a_new_mailer(factory, provider, edit):
    tenant = Tenant("acme", provider, "a@acme.example", "t1", "c1", "s1", "SG.1", "a@acme.example")
    before = factory.get_mailer(tenant)

    assert factory.get_mailer(replace(tenant, **edit)) is not before


def test_the_number_of_kept_mailers_is_bounded(factory, monkeypatch):
    monkeypatch.setattr(factory._mailers, "_most", 2)
    first = factory.get_mailer_for_system_mailbox(Mailbox("a"))
    second = factory.get_mailer_for_system_mailbox(Mailbox("b"))
    assert factory.get_mailer_for_system_mailbox(Mailbox("a")) is first
    factory.get_mailer_for_system_mailbox(Mailbox("c"))

    assert factory.get_mailer_for_system_mailbox(Mailbox("a")) is first
    assert factory.get_mailer_for_system_mailbox(Mailbox("b")) is not second


@pytest.mark.parametrize(
    ("minute", "day", "expected"),
    [
        (None, None, RateLimits(20, 800, 2)),
        (5, None, RateLimits(5, 800, 2)),
        (0, -1, RateLimits(20, 800, 2)),
        (None, 70, RateLimits(20, 70, 2)),
    ],
)
def test_a_mailboxs_limits_are_its_own_where_positive_else_those_of_the_settings(transport, minute, day, expected):
    factory = factory_with(transport, rate_per_minute=20, rate_recipients_per_day=800, rate_in_flight=2)

    assert factory.limits_for_system_mailbox(Mailbox("a", "a@b.example", minute, day)) == expected


@pytest.mark.parametrize(
    ("without", "named"),
    [
        ("graph_tenant_id", "RQMAIL_GRAPH_TENANT_ID"),
        ("graph_client_id", "RQMAIL_GRAPH_CLIENT_ID"),
        ("graph_client_secret", "RQMAIL_GRAPH_CLIENT_SECRET"),
    ],
)
def test_a_missing_graph_setting_is_named_by_every_send(transport, mail, without, named):
    factory = factory_with(transport, **{**GRAPH, without: ""})
    for mailer in (factory.get_mailer_for_system_mailbox(Mailbox()), factory.get_mailer(Tenant())):
        with pytest.raises(MailAuthError, match=named):
            mailer.send(mail)
    assert factory.get_graph_mailbox(Tenant()) is None


@pytest.mark.parametrize(
    ("without", "named"),
    [("sendgrid_api_key", "RQMAIL_SENDGRID_API_KEY"), ("sendgrid_from", "RQMAIL_SENDGRID_FROM")],
)
def test_a_missing_sendgrid_setting_is_named_by_every_send(transport, mail, without, named):
    with pytest.raises(MailAuthError, match=named):
        factory_with(transport, **{**SENDGRID, without: ""}).get_mailer().send(mail)


@pytest.mark.parametrize(
    ("tenant", "named"),
    [
        (Tenant(address=None), "address of tenant acme"),
        (Tenant(graph_client_id="c2"), "graphClientSecret of tenant acme"),
        (Tenant(graph_client_secret="s2"), "graphClientId of tenant acme"),
        (Tenant(provider="sendgrid"), "sendgridApiKey of tenant acme"),
        (Tenant(provider="sendgrid", address=None, sendgrid_api_key="SG.1"), "sendgridFrom of tenant acme"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tenants_missing_field_is_named_by_every_send(factory, mail, tenant, named):
    mailer = factory.get_mailer(tenant)

    assert isinstance(mailer, UnconfiguredMailer)
    with pytest.raises(MailAuthError, match=named):
        mailer.send(mail)


def test_a_tenant_without_an_app_of_its_own_uses_ours_in_its_own_entra_tenant(factory):
    app = factory._app_of(read_tenant(Tenant(graph_tenant_id="theirs")))

    assert (app.tenant_id, app.client_id, app.client_secret) == ("theirs", OUR_APP, "own-secret")


def test_our_secret_is_never_used_for_an_app_that_is_not_ours(factory):
    app = factory._app_of(read_tenant(Tenant(graph_client_id="c2", graph_client_secret="s2")))

    assert (app.tenant_id, app.client_id, app.client_secret, app.certificate) == (OUR_TENANT, "c2", "s2", None)


def test_mailboxes_of_one_app_share_one_token_source(factory):
    for number in range(3):
        factory.get_mailer_for_system_mailbox(Mailbox(f"m{number}", f"m{number}@contoso.example"))
    factory.get_mailer(Tenant())

    assert len(factory._token_sources._values) == 1


def test_only_graph_senders_have_a_mailbox_to_look_into(factory):
    assert factory.get_graph_mailbox(Tenant()) is not None
    assert factory.get_graph_mailbox(Tenant(provider="sendgrid")) is None
    assert factory.get_graph_mailbox(Tenant(address=None)) is None


@pytest.mark.parametrize(
    ("base_url", "scope"),
    [
        ("https://graph.microsoft.com/v1.0", "https://graph.microsoft.com/.default"),
        ("https://graph.microsoft.us/v1.0", "https://graph.microsoft.us/.default"),
        ("http://127.0.0.1:8000/v1.0", "https://graph.microsoft.com/.default"),
    ],
)
def test_the_scope_is_that_of_the_graph_in_use(base_url, scope):
    assert graph_scope(base_url) == scope


def test_no_secret_shows_when_a_sender_is_printed(factory):
    app = factory._app_of(read_tenant(Tenant(graph_client_id="c2", graph_client_secret="s2-secret")))
    for thing in (app, factory._own_app(), factory.get_mailer(), factory.get_mailer(Tenant()), factory):
        for secret in ("own-secret", "SG.own-key", "s2-secret"):
            assert secret not in repr(thing)


@pytest.mark.parametrize("clinging", ["{}\n", "\ufeff{}", "{}\u200b", '"{}"'])
def test_what_clings_to_a_value_that_was_stored_before_is_taken_off_when_it_is_read(factory, clinging, mail, transport):
    stored = {name: clinging.format(value) for name, value in OWN_APP.items()}
    app = factory._app_of(read_tenant(Tenant(**stored)))
    assert (app.tenant_id, app.client_id, app.client_secret) == tuple(OWN_APP.values())

    script = Script([(202, {}, b"")])
    with serving(script) as url:
        senders = factory_with(transport, sendgrid_base_url=url)
        senders.get_mailer(
            Tenant(
                provider="sendgrid", sendgrid_api_key=clinging.format("SG.key"), sendgrid_from=clinging.format("a@b.nl")
            )
        ).send(mail)
    assert script.asked[0].headers["Authorization"] == "Bearer SG.key"
    assert script.asked[0].json()["from"] == {"email": "a@b.nl"}


@pytest.mark.parametrize(
    ("tenant", "named"),
    [
        (Tenant(graph_client_id="c2\u200bx", graph_client_secret="s2"), "graphClientId of tenant acme.*U\\+200B"),
        (Tenant(graph_client_id="c2", graph_client_secret="hun\nter2"), "graphClientSecret of tenant acme.*U\\+000A"),
        (Tenant(graph_tenant_id="t 2"), "graphTenantId of tenant acme.*U\\+0020"),
        (Tenant(address="mail\u200b@acme.example"), "address of tenant acme.*U\\+200B"),
        (Tenant(provider="sendgrid", sendgrid_api_key="SG.hun\nter2"), "sendgridApiKey of tenant acme.*U\\+000A"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_unfit_inside_a_stored_value_is_named_by_every_send_and_not_repeated(factory, mail, tenant, named):
    with pytest.raises(MailAuthError, match=named) as refused:
        factory.get_mailer(tenant).send(mail)
    assert "ter2" not in str(refused.value)
    assert factory.get_graph_mailbox(tenant) is None or tenant.address != Tenant.address


@pytest.mark.parametrize(
    ("tenant", "named"),
    [
        (Tenant(), ("RQMAIL_GRAPH_TENANT_ID", "RQMAIL_GRAPH_CLIENT_ID", "RQMAIL_GRAPH_CLIENT_SECRET")),
        (
            Tenant(graph_tenant_id="theirs.example"),
            ("graphTenantId of tenant acme", "RQMAIL_GRAPH_CLIENT_ID", "RQMAIL_GRAPH_CLIENT_SECRET"),
        ),
        (
            Tenant(**OWN_APP),
            ("graphTenantId of tenant acme", "graphClientId of tenant acme", "graphClientSecret of tenant acme"),
        ),
    ],
    ids=["our app", "our app in their Entra tenant", "their app"],
)
def test_what_is_to_be_corrected_is_named_where_it_was_set(factory, tenant, named):
    names = factory._app_of(read_tenant(tenant)).names
    assert (names.tenant_id, names.client_id, names.client_secret) == named
