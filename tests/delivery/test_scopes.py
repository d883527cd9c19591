"""Mailboxes of one Entra tenant share a day of external recipients; none goes over it, internal mail goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from rqmail.clock import from_epoch_ms, to_epoch_ms
from rqmail.models.ledger import external_since
from rqmail.models.message import Message, MessageStatus
from rqmail.ratelimit.scopes import TenantBudgets, tenant_of
from support.messages import message_in, new_message, submitted
from support.office import Office

S = MessageStatus
INSIDE, OUTSIDE = "colleague@contoso.example", "customer@fabrikam.example"


def told(key, since_ms, _now_ms):
    return (
        external_since(tenant_of(key)[0], from_epoch_ms(since_ms), onmicrosoft=tenant_of(key)[1])
        if tenant_of(key)
        else []
    )


@pytest.fixture
def office(database, redis_client, clock):
    """A tenant that may reach 30 people outside a day."""
    shared = TenantBudgets.told(None, {}, {"": 30}, {"": frozenset({"contoso.example"})})
    return Office(redis_client, clock, shared=shared, history=told)


def mail(sender, *addresses, **fields):
    return new_message(sender, to=addresses, **fields)


def test_two_mailboxes_together_send_no_more_than_their_tenant_may_and_what_is_internal_goes_on(office, clock):
    senders = [office.mailbox(key, f"{key}@contoso.example") for key in ("news", "shop")]
    for sender in senders:
        submitted(*(mail(sender, OUTSIDE) for _ in range(20)), *(mail(sender, INSIDE) for _ in range(4)))
    for _ in range(3):
        office.tick()
        office.work()
        clock.advance(seconds=61)
    went = [one.to[0].address for _, one in office.mails]
    assert (went.count(OUTSIDE), went.count(INSIDE)) == (30, 8)
    assert Message.select().where(Message.deferrals > 0).count() == 0, "what cannot go is not tried"
    clock.advance(hours=24, minutes=10)
    office.tick()
    office.work()
    assert [one.to[0].address for _, one in office.mails].count(OUTSIDE) == 40


def test_senders_on_onmicrosoft_reach_a_hundred_people_outside_a_day_all_together(office, clock):
    senders = [office.mailbox(key, f"{key}@contoso.onmicrosoft.com") for key in ("raw", "test")]
    office.senders._shared = TenantBudgets()
    office.senders.forget()
    for sender in senders:
        submitted(*(mail(sender, OUTSIDE) for _ in range(60)), mail(sender, "me@contoso.onmicrosoft.com"))
    for _ in range(5):
        office.tick()
        office.work()
        clock.advance(seconds=61)
    went = [one.to[0].address for _, one in office.mails]
    assert (went.count(OUTSIDE), len(went)) == (100, 102)


def test_a_message_that_the_limiter_denies_for_its_tenant_waits_for_that_and_holds_up_no_other(office, clock):
    sender = office.mailbox("news", "news@contoso.example")
    scope = office.senders.find(sender).shared.scopes[0]
    first, second, inside = submitted(mail(sender, OUTSIDE), mail(sender, OUTSIDE), mail(sender, INSIDE))
    office.tick()
    limits = office.senders.find(sender).limits
    assert office.limiter.check_and_reserve("other@contoso.example", 29, limits, external_count=29, scopes=(scope,))
    with capture_logs() as events:
        went = office.work()
    assert set(went) == {first, inside}
    waits = Message.get_by_id(second)
    assert (waits.status, waits.waiting_for, waits.deferrals) == (S.SCHEDULED.value, "tenant", 1)
    assert waits.scheduled_on >= clock() + timedelta(hours=24)
    [deferred] = [one for one in events if one["event"] == "mail.rateLimit.deferred"]
    assert (deferred["reason"], deferred["scope"]) == ("day", "tenant")


def test_a_mail_to_more_people_outside_than_its_tenant_may_reach_in_a_day_ends_in_words_that_say_so(office):
    sender = office.mailbox("news", "news@contoso.example")
    [large] = submitted(mail(sender, *[f"c{number}@fabrikam.example" for number in range(31)]))
    office.tick()
    office.work()
    ended = Message.get_by_id(large)
    assert ended.status == S.ERROR.value
    assert "31 external recipients; its whole Entra tenant may address 30" in ended.last_error


def test_after_a_flush_of_redis_the_table_tells_what_the_whole_tenant_has_sent(office, redis_client, clock):
    senders = [office.mailbox(key, f"{key}@contoso.example") for key in ("news", "shop")]
    for sender in senders:
        submitted(*(mail(sender, OUTSIDE, INSIDE) for _ in range(12)))
    office.tick()
    office.work()
    assert len(office.mails) == 24
    redis_client.flushall()
    submitted(*(mail(senders[0], OUTSIDE) for _ in range(12)))
    clock.advance(hours=1)
    office.tick()
    office.work()
    assert len(office.mails) == 30


def test_the_ledger_of_a_tenant_counts_what_nobody_divided_as_external(office, clock):
    def sent(key, tenant, **fields):
        message_in(S.SENT, mailbox_key=key, attempted_on=clock(), sent_on=clock(), entra_tenant=tenant, **fields)

    sent("a@contoso.example", "contoso", recipient_count=5, external_count=2)
    sent("b@contoso.example", "CONTOSO", recipient_count=3)
    sent("c@contoso.onmicrosoft.com", "contoso", recipient_count=4, external_count=4)
    sent("d@contoso.example", "contoso", recipient_count=9, external_count=0)
    sent("e@fabrikam.example", "fabrikam", recipient_count=7)
    before = clock() - timedelta(hours=1)
    assert sorted(recipients for _, recipients, _, _ in external_since("contoso", before)) == [2, 3, 4]
    assert external_since("contoso", before, onmicrosoft=True) == [(to_epoch_ms(clock()), 4, None, 0)]
    assert external_since("contoso", clock()) == []
