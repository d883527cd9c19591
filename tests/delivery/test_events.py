"""What happens to mail is written down for the webhooks that listen, with the outcome it tells of or not at all."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from rqmail.administration.mailboxes import Mailboxes
from rqmail.campaigns.unsubscribing import Unsubscribing
from rqmail.models import events
from rqmail.models.bounces import note_bounce
from rqmail.models.campaigns import Campaign
from rqmail.models.message import Message, MessageStatus
from rqmail.models.progress import end_those_done
from rqmail.models.webhooks import EventType, Webhook, WebhookDelivery
from rqmail.ratelimit.limiter import MailRateLimiter
from support.clock import START
from support.messages import ATTEMPT, message_in, new_message, reloaded, submitted
from support.statements import recorded

S = MessageStatus
OLD = START - timedelta(days=3)


def listening(*names: str, to: str = "wh_1") -> None:
    Webhook.create(
        id=to,
        url="https://x.example/",
        events=" ".join(names),
        secret_encrypted="",
        created_on=START,
        created_by="sanne",
    )
    events.look_again()


def told() -> list[tuple[str, dict]]:
    rows = WebhookDelivery.select().order_by(WebhookDelivery.event_id)
    return [(row.type, json.loads(row.payload)["data"]) for row in rows]


ENDS = {
    "accepted": (S.SENDING, "sent", "SENT", lambda message: message.mark_sent(START, ATTEMPT)),
    "confirmed": (S.UNKNOWN, "sent", "SENT", lambda message: message.confirm_sent(START, "found")),
    "rejected": (S.SENDING, "failed", "ERROR", lambda message: message.mark_error("no", ATTEMPT, now=START)),
    "given up": (S.UNKNOWN, "failed", "ERROR", lambda message: message.give_up(START, "not found")),
    "expired": (S.QUEUED, "failed", "EXPIRED", lambda message: Message.expire(message.id, START)),
    "cancelled": (S.SCHEDULED, None, "CANCELLED", lambda message: Message.cancel([message.id], START)),
    "put off": (S.SENDING, None, "SCHEDULED", lambda message: message.defer(START, waiting_for="paused")),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_message_is_told_however_it_comes_about(database, end):
    listening("sent", "failed")
    before, type_, status, act = ENDS[end]
    message = message_in(before)
    assert act(message)
    message = reloaded(message)
    expected = {
        "messageId": message.id,
        "mailbox": "news",
        "tenant": None,
        "campaign": None,
        "recipients": ["reader0@example.org"],
        "status": status,
        "error": message.last_error,
        "attempts": message.attempts,
    }
    assert told() == ([] if type_ is None else [(type_, expected)])
    assert not act(message) or type_ is None
    assert len(told()) == (type_ is not None), "what changed nothing tells nothing"


def test_an_outcome_and_its_event_are_kept_together_or_neither_is(database, monkeypatch):
    listening("sent")
    message = message_in(S.SENDING)
    monkeypatch.setattr(events, "_write", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        message.mark_sent(START, ATTEMPT)
    assert (reloaded(message).status, reloaded(message).attempt_log) == ("SENDING", "")


def test_without_a_webhook_a_mail_costs_not_one_statement_more(database, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(events, "monotonic", lambda: now[0])
    listening("bounced")
    messages = [message_in(S.SENDING) for _ in range(20)]
    with recorded() as statements:
        for message in messages:
            assert message.mark_sent(START, ATTEMPT)
    assert [sql.split()[0] for sql, _ in statements] == ["SELECT", *["UPDATE"] * 20]
    now[0] += events.LOOK_AGAIN_SECONDS + 0.1
    Webhook.update(events="sent").execute()
    message_in(S.SENDING).mark_sent(START, ATTEMPT)
    assert [one[0] for one in told()] == ["sent"], "another process's webhook is heard of in two seconds"


def test_every_webhook_that_listens_is_told_under_one_id_and_a_disabled_one_is_not(database):
    listening("sent", to="wh_1")
    listening("sent", "failed", to="wh_2")
    listening("failed", to="wh_3")
    listening("sent", to="wh_4")
    Webhook.update(enabled=False).where(Webhook.id == "wh_4").execute()
    events.look_again()
    message_in(S.SENDING).mark_sent(START, ATTEMPT)
    rows = list(WebhookDelivery.select())
    assert sorted(row.webhook_id for row in rows) == ["wh_1", "wh_2"]
    assert len({row.event_id for row in rows}) == 1


def test_a_webhook_that_was_removed_meanwhile_keeps_no_outcome_from_being_written(database):
    listening("sent")
    assert events.listeners(EventType.SENT)
    Webhook.delete().execute()
    assert message_in(S.SENDING).mark_sent(START, ATTEMPT)


def test_many_that_expire_at_once_are_told_one_by_one(database):
    listening("failed")
    ids = submitted(*[new_message(at=OLD, expires=START - timedelta(hours=1)) for _ in range(1_200)], now=OLD)
    assert len(Message.give_up_expired(START)) == 1_200
    assert {data["messageId"] for _, data in told()} == set(ids)


def test_a_bounce_is_told_once(database):
    listening("bounced")
    message = message_in(S.SENT)
    bounce = {"code": "5.1.1", "detail": "no such user", "at": START, "probable": False}
    assert note_bounce(message.id, "reader0@example.org", **bounce)
    assert not note_bounce(message.id, "reader0@example.org", **bounce)
    [(type_, data)] = told()
    assert (type_, data["messageId"], data["mailbox"]) == ("bounced", message.id, "news")
    assert (data["recipient"], data["code"], data["error"]) == ("reader0@example.org", "5.1.1", "no such user")


def test_who_unsubscribes_is_told_once_with_the_message_they_did_it_from(database, clock):
    listening("unsubscribed")
    links = Unsubscribing(clock, "https://mail.example.org", ["a key for the tests, long enough"])
    message = message_in(S.SENT)
    token = links.url_for("Jan@x.nl", "mailbox:news", message_id=message.id).rpartition("/")[2]
    assert links.unsubscribe(links.read(token))
    assert not links.unsubscribe(links.read(token))
    expected = {"messageId": message.id, "mailbox": "news", "tenant": None, "campaign": None, "recipient": "jan@x.nl"}
    assert told() == [("unsubscribed", expected)]


def test_a_campaign_that_is_over_is_told_with_what_became_of_its_people(database):
    listening("campaign-finished", "sent")
    campaign = Campaign.create(
        name="Spring", state="RUNNING", subject="", fields="[]", language="en", created_by="sanne", created_on=OLD,
        started_on=OLD,
    )  # fmt: skip
    message = message_in(S.SENDING, campaign_id=campaign.id)
    assert end_those_done(START) == []
    message.mark_sent(START, ATTEMPT)
    assert end_those_done(START) == ["Spring"]
    (_, sent), ended = told()
    assert sent["campaign"] == "Spring"
    assert ended == ("campaign-finished", {"campaign": "Spring", "status": "DONE", "people": {"SENT": 1}})


def test_a_pause_is_told_with_its_reason_and_one_that_comes_about_by_itself_once_a_minute(
    database, redis_client, clock
):
    listening("mailbox-paused")
    mailboxes = Mailboxes(clock, MailRateLimiter(redis_client, clock=clock))
    mailboxes.add("news", "news@x.nl")
    mailboxes.pause("news", reason="renovation", duration=timedelta(hours=1), by="sanne")
    for _ in range(3):
        events.tell_of_pause("tenant:acme", "sign-in refused", START, clock())
    clock.advance(minutes=1)
    events.tell_of_pause("tenant:acme", "sign-in refused", START, clock())
    told_of = [(data["mailbox"], data["tenant"], data["reason"], data["by"]) for _, data in told()]
    by_itself = (None, "acme", "sign-in refused", None)
    assert sorted(told_of, key=str) == sorted([("news", None, "renovation", "sanne"), by_itself, by_itself], key=str)
