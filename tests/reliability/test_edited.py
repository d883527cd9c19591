"""Edits between a send of unknown outcome and the look for it: it is looked for where it went, never sent twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reliability.running import Running
from rqmail.delivery.recovery import ACCESS_GONE_NOTE, NO_MAILBOX_NOTE
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, MessageStatus, Route
from support.messages import new_message, reloaded

S = MessageStatus
NEWS, NEW = "news@contoso.example", "new@contoso.example"


def sent_with_unknown_outcome(running: Running, sender: str) -> str:
    """The id of a message that the provider took and then denied."""
    running.control.faults("accept-then-504")
    [message_id] = running.submit(new_message(sender))
    running.app.dispatcher.tick()
    running.work()
    assert reloaded(message_id).status == S.UNKNOWN
    return message_id


def tenant(running: Running, **fields: object) -> str:
    now = running.clock()
    own = {"provider": "microsoft-graph", "address": "acme@contoso.example"}
    TenantMailSetting.create(key="acme", created_on=now, changed_on=now, **(own | fields))
    running.app.senders.forget()
    return "tenant:acme"


def address_edited(running: Running) -> None:
    running.app.changes.by("test").set_mailbox("news", address=NEW)


def key_deleted(running: Running) -> None:
    SystemMailbox.delete().where(SystemMailbox.key == "news").execute()


def key_deleted_and_made_anew(running: Running) -> None:
    key_deleted(running)
    now = running.clock()
    SystemMailbox.create(key="news", address=NEW, created_on=now, changed_on=now)


def two_keys_swap_addresses(running: Running) -> None:
    running.mailbox("other")
    running.app.changes.by("test").set_mailbox("news", address="other@contoso.example")
    running.app.changes.by("test").set_mailbox("other", address=NEWS)


@pytest.mark.parametrize(
    "edit", [address_edited, key_deleted, key_deleted_and_made_anew, two_keys_swap_addresses], ids=lambda e: e.__name__
)
def test_after_an_edit_of_the_mailbox_a_mail_is_looked_for_where_it_went(
    running: Running, edit: Callable[[Running], None]
):
    message_id = sent_with_unknown_outcome(running, "mailbox:news")
    edit(running)
    running.settle()
    assert running.accepted() == [message_id]
    assert reloaded(message_id).status == S.SENT
    assert reloaded(message_id).history[0]["mailbox_key"] == NEWS


@pytest.mark.parametrize(
    "edit",
    [
        {"provider": "sendgrid", "sendgrid_from": "acme@contoso.example", "sendgrid_api_key": "SG.x"},
        {"provider": "default"},
        {"graph_tenant_id": "11111111-2222-4333-8444-555555555555"},
        {"graph_client_id": "66666666-7777-4888-8999-aaaaaaaaaaaa", "graph_client_secret": "its-secret"},
        {"address": NEW},
    ],
    ids=lambda edit: next(iter(edit.values())),
)
def test_after_an_edit_of_a_tenant_a_mail_is_looked_for_where_it_went(running: Running, edit: dict[str, str]):
    message_id = sent_with_unknown_outcome(running, tenant(running))
    running.app.changes.by("test").set_tenant("acme", **edit)
    running.settle()
    assert running.accepted() == [message_id]
    assert reloaded(message_id).status == S.SENT


def test_an_app_is_the_same_in_capitals(running: Running):
    message_id = sent_with_unknown_outcome(running, "mailbox:news")
    Message.update(app_id=reloaded(message_id).app_id.upper()).where(Message.id == message_id).execute()
    running.settle()
    assert running.accepted() == [message_id]
    assert reloaded(message_id).status == S.SENT


def test_with_the_app_gone_a_mail_is_not_absent_but_held(running: Running):
    message_id = sent_with_unknown_outcome(running, "mailbox:news")
    Message.update(app_id="an-app-of-former-settings").where(Message.id == message_id).execute()
    running.settle()
    assert running.accepted() == [message_id]
    assert reloaded(message_id).status == S.UNKNOWN
    assert ACCESS_GONE_NOTE in reloaded(message_id).last_error


def test_a_mail_that_went_through_sendgrid_is_never_looked_for_in_a_mailbox(running: Running):
    message_id = sent_with_unknown_outcome(running, tenant(running))
    through = Route("sendgrid", "tenant:acme")
    Message.update(**{name: getattr(through, name) for name in Route.__slots__}).where(
        Message.id == message_id
    ).execute()
    running.settle()
    assert running.accepted() == [message_id]
    assert reloaded(message_id).status == S.UNKNOWN
    assert NO_MAILBOX_NOTE in reloaded(message_id).last_error


def test_an_edit_tells_how_many_messages_depend_on_what_was_before(running: Running):
    running.mailbox("quiet")
    for _ in range(2):
        sent_with_unknown_outcome(running, "mailbox:news")
    lost = sent_with_unknown_outcome(running, "mailbox:news")
    Message.update(app_id="an-app-of-former-settings").where(Message.id == lost).execute()
    changes = running.app.changes.by("test")
    assert (changes.left_behind("mailbox:news").messages, changes.left_behind("mailbox:quiet").messages) == (1, 0)
    changes.set_mailbox("news", address=NEW)
    left = changes.left_behind("mailbox:news")
    assert (left.messages, left.not_to_be_looked_up) == (3, 1)


def test_the_windows_are_refilled_with_what_went_through_the_mailbox_whatever_its_key_has_now(running: Running):
    message_id = sent_with_unknown_outcome(running, "mailbox:news")
    two_keys_swap_addresses(running)
    running.app.redis.flushall()
    usage = running.app.limiter.usage([NEWS, "other@contoso.example"])
    assert (usage[NEWS].minute.used, usage["other@contoso.example"].minute.used) == (1, 0)
    assert reloaded(message_id).route.mailbox_key == NEWS
