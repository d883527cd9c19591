from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.administration.tenants import Tenants
from rqmail.delivery.senders import Senders
from rqmail.errors import InvalidInputError, SettingsError
from rqmail.insight.configured import configured
from rqmail.models.mailbox import TenantMailSetting
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.scopes import TenantBudgets
from rqmail.vault import SecretBox

APP = "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"
BOX = SecretBox("a key for the tests, long enough")


@pytest.fixture
def limiter(redis_client, clock):
    return MailRateLimiter(redis_client, clock=clock)


@pytest.fixture
def tenants(database, limiter, clock):
    return Tenants(clock, BOX, limiter)


def test_secrets_are_stored_encrypted_and_only_ever_shown_as_set(tenants):
    view = tenants.add(
        "acme",
        "microsoft-graph",
        address="post@acme.nl",
        graph_tenant_id="5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01",
        graph_client_id=APP,
        graph_client_secret="hunter2~hunter2",
    )
    assert view.has_graph_client_secret
    assert not view.has_sendgrid_api_key
    assert "hunter2" not in repr(view)
    stored = TenantMailSetting.get_by_id("acme").graph_client_secret_encrypted
    assert "hunter2" not in stored
    assert BOX.decrypt(stored) == "hunter2~hunter2"


def test_a_wrong_secret_is_not_repeated_in_the_error(tenants):
    with pytest.raises(InvalidInputError) as refused:
        tenants.add("acme", graph_client_secret="hunter2\x00x")
    assert "hunter2" not in str(refused.value)


def test_a_tenants_field_left_out_keeps_its_value_and_none_clears_it(tenants):
    tenants.add("acme", "sendgrid", sendgrid_from="post@acme.nl", sendgrid_api_key="SG.x")
    view = tenants.set("acme", sendgrid_api_key=None)
    assert (view.provider, view.sendgrid_from, view.has_sendgrid_api_key) == ("sendgrid", "post@acme.nl", False)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"provider": "smtp"}, "provider"),
        ({"provider": None}, "provider"),
        ({"provider": "microsoft-graph"}, "address"),
        ({"provider": "sendgrid"}, "sendgridFrom"),
        ({"address": "acme"}, "address"),
        ({"graph_client_id": APP}, "graphClientSecret"),
        ({"graph_client_secret": "s"}, "graphClientId"),
        ({"graph_tenant_id": "x" * 129}, "graphTenantId"),
        ({"graph_tenant_id": "contoso"}, "graphTenantId"),
        ({"graph_client_id": "an-app", "graph_client_secret": "s"}, "graphClientId"),
        ({"graph_client_id": APP, "graph_client_secret": "s s"}, "graphClientSecret"),
        ({"sendgrid_api_key": "SG.a\u200bb"}, "sendgridApiKey"),
        ({"sendgrid_api_key": "\n"}, "sendgridApiKey"),
        ({"rate_limit_per_minute": 0}, "rateLimitPerMinute"),
        ({"rate_limit_recipients_per_day": "many"}, "rateLimitRecipientsPerDay"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_tenant_with_which_no_mail_could_leave_is_refused(tenants, fields, field):
    with pytest.raises(InvalidInputError) as refused:
        tenants.add("acme", **fields)
    assert refused.value.field == field
    assert tenants.all() == []


def test_without_a_key_no_secret_is_taken(database, limiter, clock):
    tenants = Tenants(clock, SecretBox(None), limiter)
    with pytest.raises(SettingsError, match="RQMAIL_SECRET_KEY"):
        tenants.add("acme", graph_client_id=APP, graph_client_secret="s")


@pytest.mark.parametrize("clinging", ["{}\n", "\ufeff{}", " {}\u200b", '"{}"'])
def test_what_clings_to_a_tenants_values_is_taken_off_before_they_are_stored(tenants, clinging):
    given = {
        "graph_tenant_id": "contoso.onmicrosoft.com",
        "graph_client_id": APP,
        "graph_client_secret": "hunter2~x",
        "sendgrid_api_key": "SG.x",
    }
    view = tenants.add("acme", **{name: clinging.format(value) for name, value in given.items()})
    stored = TenantMailSetting.get_by_id("acme")
    assert (view.graph_tenant_id, view.graph_client_id) == ("contoso.onmicrosoft.com", APP)
    assert BOX.decrypt(stored.graph_client_secret_encrypted) == "hunter2~x"
    assert BOX.decrypt(stored.sendgrid_api_key_encrypted) == "SG.x"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"provider": "microsoft-graph", "address": "Post@acme.nl"}, "post@acme.nl"),
        ({"provider": "sendgrid", "sendgrid_from": "post@acme.nl", "sendgrid_api_key": "SG.x"}, "tenant:acme"),
        ({"provider": "default"}, "tenant:acme"),
    ],
)
def test_a_tenant_is_paused_under_the_key_it_is_counted_by_until_it_is_resumed(tenants, limiter, clock, fields, key):
    tenants.add("acme", **fields)
    view = tenants.pause("acme", reason=" contract ended ", duration=timedelta(hours=2))
    assert (view.paused_until, view.pause_reason) == (clock() + timedelta(hours=2), "contract ended")
    assert limiter.usage({key: RateLimits()})[key].pause_reason == "contract ended"
    assert tenants.resume("acme").paused_until is None
    assert limiter.usage({key: RateLimits()})[key].paused_until_ms is None
    with pytest.raises(InvalidInputError, match="reason"):
        tenants.pause("acme", reason=" ")


def test_a_pause_that_has_ended_is_not_shown(tenants, clock):
    tenants.add("acme")
    tenants.pause("acme", reason="moving", duration=timedelta(minutes=5))
    clock.advance(minutes=6)
    assert tenants.get("acme").paused_until is None


def test_the_senders_of_a_paused_tenant_stay_paused_when_redis_forgets_it(tenants, redis_client, clock):
    tenants.add("acme")
    tenants.pause("acme", reason="moving")
    redis_client.flushdb()
    sender = Senders(None, BOX, RateLimits()).find("tenant:acme")
    assert sender.paused_until > clock() + timedelta(days=3000)


def test_a_tenants_own_mailbox_has_limits_of_its_own_until_they_are_cleared(tenants):
    view = tenants.add("acme", "microsoft-graph", address="post@acme.nl", rate_limit_per_minute=5)
    assert (view.rate_limit_per_minute, view.rate_limit_recipients_per_day) == (5, None)
    senders = Senders(None, BOX, RateLimits())
    assert senders.find("tenant:acme").limits == RateLimits(per_minute=5)
    assert configured(RateLimits(), "even", TenantBudgets())["tenant:acme"].overridden == (True, False)
    tenants.set("acme", rate_limit_per_minute=None, rate_limit_recipients_per_day=400)
    senders.forget()
    assert senders.find("tenant:acme").limits == RateLimits(recipients_per_day=400)
