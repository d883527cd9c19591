"""Webhooks are told what happened: signed, at least once, each by itself, and given up in the end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta

import pytest

from mailers.servers import Script, refused_url, serving
from rqmail.administration.webhooks import Webhooks
from rqmail.clock import utc_now
from rqmail.delivery import webhooks as delivering
from rqmail.delivery.webhooks import WebhookDeliverer, WebhooksReport
from rqmail.errors import InvalidInputError
from rqmail.mailers.webhook import WebhookCaller
from rqmail.models import events
from rqmail.models.webhooks import EventType, Webhook, WebhookDelivery
from rqmail.vault import SecretBox
from support.clock import START
from support.statements import recorded

TAKEN = (204, {}, b"")
EVENT = "mailbox-paused"


@pytest.fixture
def box() -> SecretBox:
    return SecretBox("a key for the tests, long enough")


@pytest.fixture
def caller(clock) -> WebhookCaller:
    return WebhookCaller(clock, allow_private=True)


@pytest.fixture
def hooks(database, clock, box, caller) -> Webhooks:
    return Webhooks(clock, box, lambda: caller, allow_private=True)


@pytest.fixture
def deliverer(box, caller, clock) -> WebhookDeliverer:
    return WebhookDeliverer(box, caller, clock)


def pauses(number: int, clock) -> None:
    for n in range(number):
        events.tell_of_pause(f"mailbox:m{n}", "renovation", None, clock(), by="sanne")


def states(hooks: Webhooks, webhook_id: str) -> list[tuple[str, int, str | None]]:
    return [(one.state, one.attempts, one.error) for one in hooks.deliveries(webhook_id)]


def test_an_event_is_sent_once_with_its_id_its_time_and_a_signature_of_both_and_the_body(hooks, deliverer, clock):
    script = Script([TAKEN])
    with serving(script) as url:
        view, secret = hooks.add(f"{url}/events?for=us", [EVENT], by="sanne")
        pauses(1, clock)
        clock.advance(minutes=3)
        assert deliverer.run() == WebhooksReport(delivered=1)
        assert deliverer.run() == WebhooksReport()
    [asked] = script.asked
    [told] = hooks.deliveries(view.id)
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert (asked.method, asked.path, headers["content-type"]) == ("POST", "/events?for=us", "application/json")
    assert headers["webhook-id"] == told.event_id
    assert headers["webhook-timestamp"] == str(int((START + timedelta(minutes=3)).timestamp()))
    signed = f"{told.event_id}.{headers['webhook-timestamp']}.".encode() + asked.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    by_hand = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{by_hand}"
    assert len(key) == 32
    data = {"mailbox": "m0", "tenant": None, "reason": "renovation", "until": None, "by": "sanne"}
    assert asked.json() == {"type": EVENT, "timestamp": f"{START:%Y-%m-%dT%H:%M:%S}.123Z", "data": data}
    assert (told.state, told.status, told.payload) == ("delivered", 204, asked.json())
    assert (hooks.get(view.id).state, hooks.get(view.id).waiting) == ("ok", 0)


def test_the_library_of_the_convention_verifies_what_is_sent(sqlite_database, hooks_of_now):
    library = pytest.importorskip("standardwebhooks")
    script = Script([TAKEN])
    with serving(script) as url:
        view, secret = hooks_of_now.add(url, [EVENT], by="sanne")
        assert hooks_of_now.test(view.id).ok
    [asked] = script.asked
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert library.Webhook(secret).verify(asked.body, headers)["type"] == "test"
    with pytest.raises(library.WebhookVerificationError):
        library.Webhook(secret).verify(asked.body + b" ", headers)


@pytest.fixture
def hooks_of_now(sqlite_database, box) -> Webhooks:
    return Webhooks(utc_now, box, lambda: WebhookCaller(utc_now, allow_private=True), allow_private=True)


def test_the_secret_is_kept_encrypted(hooks, box):
    view, secret = hooks.add("https://x.example/", [EVENT], by="sanne")
    kept = Webhook.get_by_id(view.id).secret_encrypted
    assert secret.startswith("whsec_")
    assert secret not in kept
    assert box.decrypt(kept) == secret


def test_one_that_fails_is_left_alone_for_a_growing_time_and_holds_up_no_other(hooks, deliverer, clock):
    script = Script([TAKEN])
    with serving(script) as url:
        dead, _ = hooks.add(refused_url(), [EVENT], by="sanne")
        works, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(20, clock)
        first = deliverer.run()
        assert first.delivered == 20
        assert first.failed <= 4, "those that were under way; the rest was not tried"
        assert (hooks.get(dead.id).waiting, hooks.get(works.id).waiting) == (20, 0)
        assert deliverer.run() == WebhooksReport(), "it is held"
        for _ in range(12):
            clock.now = hooks.get(dead.id).next_call_on
            assert deliverer.run() == WebhooksReport(failed=1), "one call tells whether it works again"
    seen = hooks.get(dead.id)
    assert (seen.state, seen.failing_since, seen.last_error) == (
        "failing", START, "could not connect: connection refused",
    )  # fmt: skip
    assert seen.next_call_on - clock() == delivering.HELD_LONGEST


def test_a_failed_event_waits_longer_each_time_while_others_go_on(hooks, deliverer, clock):
    with serving(Script([(500, {}, b"a@x.nl"), TAKEN])) as url:
        view, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(1, clock)
        deliverer.run()
        assert states(hooks, view.id) == [("waiting", 1, "HTTP 500")]
        [failed] = hooks.deliveries(view.id, failed=True)
        assert failed.next_try_on - clock() == delivering.RETRY_FIRST
        clock.advance(seconds=10)
        assert deliverer.run() == WebhooksReport(delivered=1)
        assert (hooks.get(view.id).state, hooks.get(view.id).last_error) == ("ok", None)
        assert hooks.deliveries(view.id, failed=True) == []


def test_after_three_days_it_is_given_up_and_a_person_can_have_it_delivered_again(hooks, deliverer, clock):
    script = Script([(503, {}, b"")])
    with serving(script) as url:
        view, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(2, clock)
        given_up = 0
        while clock() < START + timedelta(days=4):
            given_up += deliverer.run().given_up
            clock.advance(minutes=30)
        assert given_up == 2
        assert {one[0] for one in states(hooks, view.id)} == {"given-up"}
        assert (hooks.get(view.id).state, hooks.get(view.id).failing_since) == ("failing", START)
        assert len(script.asked) < 60
        script.answers = [TAKEN]
        [newest, _] = hooks.deliveries(view.id, failed=True)
        assert hooks.redeliver(view.id, [newest.event_id]) == 1
        assert deliverer.run().delivered == 1
        assert hooks.redeliver(view.id) == 1
        assert deliverer.run().delivered == 1
        assert hooks.redeliver(view.id) == 0


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((302, {"Location": "http://127.0.0.1:1/elsewhere"}, b""), "HTTP 302: redirects are not followed"),
        ((404, {}, b""), "HTTP 404"),
        ((429, {"Retry-After": "7200"}, b""), "HTTP 429"),
    ],
)
def test_whatever_is_no_success_is_tried_again(hooks, deliverer, clock, answer, error):
    script = Script([answer])
    with serving(script) as url:
        view, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(1, clock)
        assert deliverer.run() == WebhooksReport(failed=1)
    assert states(hooks, view.id) == [("waiting", 1, error)]
    assert len(script.asked) == 1
    wanted = timedelta(seconds=7200) if answer[0] == 429 else delivering.RETRY_FIRST
    assert hooks.deliveries(view.id)[0].next_try_on - clock() == wanted


def test_a_receiver_that_is_gone_is_called_no_more_until_it_is_enabled(hooks, deliverer, clock):
    script = Script([(410, {}, b"")])
    with serving(script) as url:
        view, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(1, clock)
        deliverer.run()
        clock.advance(days=1)
        pauses(1, clock)
        assert deliverer.run() == WebhooksReport()
        assert hooks.get(view.id).state == "disabled"
        script.answers = [TAKEN]
        hooks.enable(view.id, enabled=True)
        pauses(1, clock)
        assert deliverer.run() == WebhooksReport(delivered=1)


def test_what_another_pass_has_taken_is_left_to_it_and_a_pass_that_dies_loses_nothing(hooks, deliverer, clock, box):
    class Dying:
        def tell(self, *_):
            assert deliverer.run() == WebhooksReport(), "the other pass finds nothing"
            raise RuntimeError

    script = Script([TAKEN])
    with serving(script) as url:
        hooks.add(url, [EVENT], by="sanne")
        pauses(3, clock)
        with pytest.raises(RuntimeError):
            WebhookDeliverer(box, Dying(), clock).run()
        clock.advance(seconds=61)
        assert deliverer.run() == WebhooksReport(delivered=3)


def test_a_pass_ends_in_time_and_what_it_did_not_reach_is_due_at_once(hooks, box, caller, clock):
    with serving(Script([TAKEN])) as url:
        view, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(30, clock)
        ticking = iter(range(1000))
        slow = WebhookDeliverer(box, caller, clock, monotonic=lambda: next(ticking) / 2)
        assert 0 < slow.run().delivered < 10
        assert all(one.next_try_on == clock() for one in hooks.deliveries(view.id) if one.state == "waiting")
        assert WebhookDeliverer(box, caller, clock).run().delivered > 20


def test_done_deliveries_are_forgotten_in_time_and_those_of_a_webhook_that_is_gone(hooks, deliverer, clock):
    with serving(Script([TAKEN])) as url:
        view, _ = hooks.add(url, [EVENT], by="sanne")
        pauses(1, clock)
        deliverer.run()
        clock.advance(days=13)
        deliverer.run()
        assert WebhookDelivery.select().count() == 1
        clock.advance(days=2)
        deliverer.run()
        assert WebhookDelivery.select().count() == 0
        pauses(1, clock)
        Webhook.delete().where(Webhook.id == view.id).execute()
        deliverer.run()
        assert WebhookDelivery.select().count() == 0


def test_http_and_private_addresses_need_to_be_allowed_when_added_and_when_called(database, clock, box):
    public = WebhookCaller(clock)
    told = public.tell("http://127.0.0.1:1/", "whsec_AAAA", "msg_1", "{}")
    assert told.error == "only https is allowed, as RQMAIL_WEBHOOK_ALLOW_PRIVATE is not set"
    assert (
        public.tell("https://127.0.0.1:1/", "whsec_AAAA", "msg_1", "{}").error == "the name leads to no public address"
    )
    hooks = Webhooks(clock, box, lambda: public, allow_private=False)
    for url in (
        "http://x.example/",
        "https://localhost/",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
    ):
        with pytest.raises(InvalidInputError, match="RQMAIL_WEBHOOK_ALLOW_PRIVATE"):
            hooks.add(url, [EVENT], by="sanne")
    for url in ("ftp://x.example/", "x.example", "https://", "https://u:geheim@x.example/", "https://x.example:99999/"):
        with pytest.raises(InvalidInputError, match="an https address such as") as refused:
            hooks.add(url, [EVENT], by="sanne")
        assert "geheim" not in str(refused.value)
    assert Webhook.select().count() == 0


def test_what_nobody_listens_to_is_not_written_down_nor_asked_about_again(hooks, clock):
    hooks.add("https://x.example/", ["sent"], by="sanne")
    with recorded() as statements:
        pauses(100, clock)
    assert len(statements) <= 1
    assert WebhookDelivery.select().count() == 0
    assert list(events.listeners(EventType.FAILED)) == []
    assert json.dumps(hooks.all()[0].events) == '["sent"]'
