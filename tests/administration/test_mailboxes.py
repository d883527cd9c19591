"""What a person changes about who may send: checked, stored, told to the limiter."""

from datetime import timedelta

import pytest

from rqmail.administration.mailboxes import Mailboxes
from rqmail.administration.tenants import Tenants
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.intake.draft import Draft, Intake
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.vault import SecretBox

BOX = SecretBox("a key for the tests, long enough")


@pytest.fixture
def limiter(redis_client, clock):
    return MailRateLimiter(redis_client, clock=clock)


@pytest.fixture
def mailboxes(database, limiter, clock):
    return Mailboxes(clock, limiter)


@pytest.fixture
def tenants(database, limiter, clock):
    return Tenants(clock, BOX, limiter)


def paused(limiter, address):
    usage = limiter.usage({address: RateLimits()})[address]
    return usage.pause_reason if usage.paused_until_ms else None


def test_a_mailbox_is_added_with_its_limits(mailboxes):
    view = mailboxes.add("news", "Nieuws@Voorbeeld.NL", rate_limit_per_minute=20)
    assert (view.key, view.address) == ("news", "Nieuws@voorbeeld.nl")
    assert (view.rate_limit_per_minute, view.rate_limit_recipients_per_day) == (20, None)
    assert mailboxes.all() == [view]


def test_a_key_is_taken_once(mailboxes):
    mailboxes.add("news", "a@x.nl")
    with pytest.raises(ConflictError):
        mailboxes.add("news", "b@x.nl")
    assert mailboxes.get("news").address == "a@x.nl"


@pytest.mark.parametrize("value", [0, -1, 1.5, "25", True, 2**31])
@pytest.mark.parametrize("field", ["rate_limit_per_minute", "rate_limit_recipients_per_day"])
def test_a_limit_is_a_positive_whole_number(mailboxes, field, value):
    mailboxes.add("news", "a@x.nl", rate_limit_per_minute=7)
    with pytest.raises(InvalidInputError) as refused:
        mailboxes.set("news", address="b@x.nl", **{field: value})
    assert (
        refused.value.field
        == {
            "rate_limit_per_minute": "rateLimitPerMinute",
            "rate_limit_recipients_per_day": "rateLimitRecipientsPerDay",
        }[field]
    )
    assert mailboxes.get("news").address == "a@x.nl"


@pytest.mark.parametrize("key", ["", "a b", "-a", "a-", "a:b", "é", "a" * 65, "a\n", 7])
def test_a_key_of_other_characters_is_refused(mailboxes, key):
    with pytest.raises(InvalidInputError, match="key"):
        mailboxes.add(key, "a@x.nl")


def test_a_field_left_out_keeps_its_value_and_none_clears_it(mailboxes, clock):
    mailboxes.add("news", "a@x.nl", rate_limit_per_minute=7, rate_limit_recipients_per_day=70)
    clock.advance(minutes=1)
    view = mailboxes.set("news", rate_limit_per_minute=None)
    assert (view.address, view.rate_limit_per_minute, view.rate_limit_recipients_per_day) == ("a@x.nl", None, 70)
    assert view.changed_on == clock()


def test_what_does_not_exist_is_not_found(mailboxes, tenants):
    for act in (
        mailboxes.get,
        mailboxes.set,
        mailboxes.delete,
        mailboxes.resume,
        mailboxes.reset,
        tenants.get,
        tenants.set,
        tenants.delete,
    ):
        with pytest.raises(NotFoundError, match="nobody"):
            act("nobody")


def test_a_pause_is_stored_and_told_to_the_limiter_until_it_is_resumed(mailboxes, limiter, clock):
    mailboxes.add("news", "News@x.nl")
    view = mailboxes.pause("news", reason="wrong list", duration=timedelta(hours=1))
    assert (view.paused_until, view.pause_reason) == (clock() + timedelta(hours=1), "wrong list")
    assert paused(limiter, "news@x.nl") == "wrong list"
    view = mailboxes.resume("news")
    assert (view.paused_until, view.pause_reason) == (None, None)
    assert paused(limiter, "news@x.nl") is None


def test_a_shorter_pause_replaces_a_longer_one(mailboxes, limiter, clock):
    mailboxes.add("news", "news@x.nl")
    mailboxes.pause("news", reason="for good")
    mailboxes.pause("news", reason="a minute", duration=timedelta(minutes=1))
    clock.advance(seconds=61)
    assert paused(limiter, "news@x.nl") is None
    assert mailboxes.get("news").paused_until is None


def test_a_pause_follows_the_mailbox_to_its_new_address(mailboxes, limiter):
    mailboxes.add("news", "news@x.nl")
    mailboxes.pause("news", reason="moving", duration=timedelta(hours=1))
    mailboxes.set("news", address="nieuws@x.nl")
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
def test_a_pause_has_a_reason_and_a_length(mailboxes, reason, duration, field):
    mailboxes.add("news", "news@x.nl")
    with pytest.raises(InvalidInputError) as refused:
        mailboxes.pause("news", reason=reason, duration=duration)
    assert refused.value.field == field


def test_a_reset_forgets_what_was_counted(mailboxes, limiter):
    mailboxes.add("news", "news@x.nl")
    limiter.check_and_reserve("news@x.nl", 5, RateLimits())
    mailboxes.reset("news")
    assert limiter.usage({"news@x.nl": RateLimits()})["news@x.nl"].day.used == 0


def test_a_sender_with_mail_on_its_way_is_not_deleted(mailboxes, tenants, clock):
    mailboxes.add("news", "news@x.nl")
    tenants.add("acme")
    intake = Intake(clock, lambda: None)
    ids = [intake.submit(Draft(sender, "Hallo", "a@x.nl", text="dag")) for sender in ("mailbox:news", "tenant:acme")]
    with pytest.raises(ConflictError, match="1 in all"):
        mailboxes.delete("news")
    with pytest.raises(ConflictError):
        tenants.delete("acme")
    Message.cancel(ids)
    mailboxes.delete("news")
    tenants.delete("acme")
    assert mailboxes.all() == tenants.all() == []


def test_who_paused_a_mailbox_is_kept_with_the_pause_and_gone_with_it(mailboxes, limiter, clock):
    mailboxes.add("news", "news@x.nl")
    mailboxes.pause("news", reason="kermis", duration=timedelta(hours=1), by="sanne")
    row = SystemMailbox.get(SystemMailbox.key == "news")
    assert (row.paused_by, limiter.usage({"news@x.nl": RateLimits()})["news@x.nl"].paused_by) == ("sanne", "sanne")
    mailboxes.resume("news")
    row = SystemMailbox.get(SystemMailbox.key == "news")
    assert (row.paused_until, row.paused_by) == (None, None)


@pytest.mark.parametrize("stored", [0, -5])
def test_a_limit_of_0_or_below_that_was_carried_over_is_shown_as_none_of_its_own(mailboxes, clock, stored):
    mailboxes.add("news", "news@x.nl")
    SystemMailbox.update(rate_limit_per_minute=stored, rate_limit_recipients_per_day=stored).execute()
    view = mailboxes.get("news")
    assert (view.rate_limit_per_minute, view.rate_limit_recipients_per_day) == (None, None)
    assert mailboxes.set("news", rate_limit_per_minute=5, limits_until=clock() + timedelta(hours=1)) is not None
    assert mailboxes.get("news").limits_after_per_minute is None
