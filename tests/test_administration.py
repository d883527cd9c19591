"""What a person changes about who may send: checked, stored, told to the limiter."""

from datetime import timedelta

import pytest

from rqmail.administration import Administration
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError, SettingsError
from rqmail.intake import Draft, Intake
from rqmail.models.mailbox import TenantMailSetting
from rqmail.models.message import Message
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.vault import SecretBox

BOX = SecretBox("a key for the tests, long enough")


@pytest.fixture
def limiter(redis_client, clock):
    return MailRateLimiter(redis_client, clock=clock)


@pytest.fixture
def administration(database, limiter, clock):
    return Administration(clock, BOX, limiter)


def paused(limiter, address):
    usage = limiter.usage({address: RateLimits()})[address]
    return usage.pause_reason if usage.paused_until_ms else None


def test_a_mailbox_is_added_with_its_limits(administration):
    view = administration.add_mailbox("news", "Nieuws@Voorbeeld.NL", rate_limit_per_minute=20)
    assert (view.key, view.address) == ("news", "Nieuws@voorbeeld.nl")
    assert (view.rate_limit_per_minute, view.rate_limit_recipients_per_day) == (20, None)
    assert administration.mailboxes() == [view]


def test_a_key_is_taken_once(administration):
    administration.add_mailbox("news", "a@x.nl")
    with pytest.raises(ConflictError):
        administration.add_mailbox("news", "b@x.nl")
    assert administration.mailbox("news").address == "a@x.nl"


@pytest.mark.parametrize("value", [0, -1, 1.5, "25", True, 2**31])
@pytest.mark.parametrize("field", ["rate_limit_per_minute", "rate_limit_recipients_per_day"])
def test_a_limit_is_a_positive_whole_number(administration, field, value):
    administration.add_mailbox("news", "a@x.nl", rate_limit_per_minute=7)
    with pytest.raises(InvalidInputError) as refused:
        administration.set_mailbox("news", address="b@x.nl", **{field: value})
    assert (
        refused.value.field
        == {
            "rate_limit_per_minute": "rateLimitPerMinute",
            "rate_limit_recipients_per_day": "rateLimitRecipientsPerDay",
        }[field]
    )
    assert administration.mailbox("news").address == "a@x.nl"


@pytest.mark.parametrize("key", ["", "a b", "-a", "a-", "a:b", "é", "a" * 65, "a\n", 7])
def test_a_key_of_other_characters_is_refused(administration, key):
    with pytest.raises(InvalidInputError, match="key"):
        administration.add_mailbox(key, "a@x.nl")


def test_a_field_left_out_keeps_its_value_and_none_clears_it(administration, clock):
    administration.add_mailbox("news", "a@x.nl", rate_limit_per_minute=7, rate_limit_recipients_per_day=70)
    clock.advance(minutes=1)
    view = administration.set_mailbox("news", rate_limit_per_minute=None)
    assert (view.address, view.rate_limit_per_minute, view.rate_limit_recipients_per_day) == ("a@x.nl", None, 70)
    assert view.changed_on == clock()


def test_what_does_not_exist_is_not_found(administration):
    for act in (
        administration.mailbox,
        administration.set_mailbox,
        administration.delete_mailbox,
        administration.resume_mailbox,
        administration.reset_mailbox,
        administration.tenant,
        administration.set_tenant,
        administration.delete_tenant,
    ):
        with pytest.raises(NotFoundError, match="nobody"):
            act("nobody")


def test_a_pause_is_stored_and_told_to_the_limiter_until_it_is_resumed(administration, limiter, clock):
    administration.add_mailbox("news", "News@x.nl")
    view = administration.pause_mailbox("news", reason="wrong list", duration=timedelta(hours=1))
    assert (view.paused_until, view.pause_reason) == (clock() + timedelta(hours=1), "wrong list")
    assert paused(limiter, "news@x.nl") == "wrong list"
    view = administration.resume_mailbox("news")
    assert (view.paused_until, view.pause_reason) == (None, None)
    assert paused(limiter, "news@x.nl") is None


def test_a_shorter_pause_replaces_a_longer_one(administration, limiter, clock):
    administration.add_mailbox("news", "news@x.nl")
    administration.pause_mailbox("news", reason="for good")
    administration.pause_mailbox("news", reason="a minute", duration=timedelta(minutes=1))
    clock.advance(seconds=61)
    assert paused(limiter, "news@x.nl") is None
    assert administration.mailbox("news").paused_until is None


def test_a_pause_follows_the_mailbox_to_its_new_address(administration, limiter):
    administration.add_mailbox("news", "news@x.nl")
    administration.pause_mailbox("news", reason="moving", duration=timedelta(hours=1))
    administration.set_mailbox("news", address="nieuws@x.nl")
    assert paused(limiter, "nieuws@x.nl") == "moving"


@pytest.mark.parametrize(
    ("reason", "duration", "field"),
    [
        ("", None, "reason"),
        ("x" * 501, None, "reason"),
        ("r", timedelta(0), "duration"),
        ("r", timedelta(-1), "duration"),
    ],
)
def test_a_pause_has_a_reason_and_a_length(administration, reason, duration, field):
    administration.add_mailbox("news", "news@x.nl")
    with pytest.raises(InvalidInputError) as refused:
        administration.pause_mailbox("news", reason=reason, duration=duration)
    assert refused.value.field == field


def test_a_reset_forgets_what_was_counted(administration, limiter):
    administration.add_mailbox("news", "news@x.nl")
    limiter.check_and_reserve("news@x.nl", 5, RateLimits())
    administration.reset_mailbox("news")
    assert limiter.usage({"news@x.nl": RateLimits()})["news@x.nl"].day.used == 0


def test_a_sender_with_mail_on_its_way_is_not_deleted(administration, clock):
    administration.add_mailbox("news", "news@x.nl")
    administration.add_tenant("acme")
    intake = Intake(clock, lambda: None)
    ids = [intake.submit(Draft(sender, "Hallo", "a@x.nl", text="dag")) for sender in ("mailbox:news", "tenant:acme")]
    with pytest.raises(ConflictError, match="1 in all"):
        administration.delete_mailbox("news")
    with pytest.raises(ConflictError):
        administration.delete_tenant("acme")
    Message.cancel(ids)
    administration.delete_mailbox("news")
    administration.delete_tenant("acme")
    assert administration.mailboxes() == administration.tenants() == []


def test_secrets_are_stored_encrypted_and_only_ever_shown_as_set(administration):
    view = administration.add_tenant(
        "acme",
        "microsoft-graph",
        address="post@acme.nl",
        graph_tenant_id="t",
        graph_client_id="c",
        graph_client_secret="hunter2 hunter2",
    )
    assert view.has_graph_client_secret
    assert not view.has_sendgrid_api_key
    assert "hunter2" not in repr(view)
    stored = TenantMailSetting.get_by_id("acme").graph_client_secret_encrypted
    assert "hunter2" not in stored
    assert BOX.decrypt(stored) == "hunter2 hunter2"


def test_a_wrong_secret_is_not_repeated_in_the_error(administration):
    with pytest.raises(InvalidInputError) as refused:
        administration.add_tenant("acme", graph_client_secret="hunter2\x00")
    assert "hunter2" not in str(refused.value)


def test_a_tenants_field_left_out_keeps_its_value_and_none_clears_it(administration):
    administration.add_tenant("acme", "sendgrid", sendgrid_from="post@acme.nl", sendgrid_api_key="SG.x")
    view = administration.set_tenant("acme", sendgrid_api_key=None)
    assert (view.provider, view.sendgrid_from, view.has_sendgrid_api_key) == ("sendgrid", "post@acme.nl", False)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"provider": "smtp"}, "provider"),
        ({"provider": None}, "provider"),
        ({"provider": "microsoft-graph"}, "address"),
        ({"provider": "sendgrid"}, "sendgridFrom"),
        ({"address": "acme"}, "address"),
        ({"graph_client_id": "c"}, "graphClientSecret"),
        ({"graph_client_secret": "s"}, "graphClientId"),
        ({"graph_tenant_id": "x" * 129}, "graphTenantId"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_tenant_with_which_no_mail_could_leave_is_refused(administration, fields, field):
    with pytest.raises(InvalidInputError) as refused:
        administration.add_tenant("acme", **fields)
    assert refused.value.field == field
    assert administration.tenants() == []


def test_without_a_key_no_secret_is_taken(database, limiter, clock):
    administration = Administration(clock, SecretBox(None), limiter)
    with pytest.raises(SettingsError, match="RQMAIL_SECRET_KEY"):
        administration.add_tenant("acme", graph_client_id="c", graph_client_secret="s")
