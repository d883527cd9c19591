"""Where a form leads: what was looked at stays, a refusal is beside its field, and a reload is never an error."""

from __future__ import annotations

import io
import re

import pytest

from rqmail.campaigns.campaign import NewCampaign
from rqmail.models.base import pooled_connection
from rqmail.models.message import MessageStatus
from rqmail.queue_state import DISPATCH_TICK, SCHEDULE
from support.messages import message_in

LIST = "/ui/mailboxes?q=box&state=ok&page=1"


@pytest.fixture
def many(application):
    """Sixty mailboxes of which the filter shows two pages, and others that it does not."""
    for number in range(60):
        application.mailboxes.add(f"m{number:03}", f"box{number:03}@x.nl")
    application.mailboxes.add("aaa", "other@x.nl")
    return application


def action_of(page, key):
    return re.search(rf'id="m-{key}-limits" action="([^"]+)"', page)[1].replace("&amp;", "&")


def test_a_refused_limit_keeps_the_filter_and_the_page_and_is_beside_its_field(admin, many):
    page = admin.look(LIST)
    refused = admin.send(action_of(page, "m055"), {"rateLimitPerMinute": "-5"})
    assert refused.status_code == 400
    assert re.findall(r'<tr id="m-([^"]+)"', refused.text) == re.findall(r'<tr id="m-([^"]+)"', page)
    assert 'name="q" value="box"' in refused.text
    assert '<option value="ok" selected>' in refused.text
    [field] = re.findall(r"<input[^>]*aria-invalid[^>]*>", refused.text)
    assert 'id="m-m055-rateLimitPerMinute"' in field
    assert " autofocus" in field  # the browser brings it into sight


def test_asking_for_the_address_of_a_form_leads_to_the_list_as_it_was(admin, many):
    wanted = action_of(admin.look(LIST), "m055")
    assert admin.client.get(wanted).headers["Location"].startswith(LIST)


def test_an_accepted_limit_leads_back_to_the_list_as_it_was(admin, many):
    done = admin.send(action_of(admin.look(LIST), "m055"), {"rateLimitPerMinute": "5"})
    assert done.headers["Location"] == f"{LIST}#m-m055"
    assert many.mailboxes.get("m055").rate_limit_per_minute == 5


def test_no_address_of_a_form_answers_that_the_method_is_not_allowed(admin, web, application):
    application.mailboxes.add("news", "news@x.nl")
    application.tenants.add("acme", "default")
    with pooled_connection():
        message = message_in(MessageStatus.UNKNOWN).id
    kept = application.imports.check(io.BytesIO(b"to,subject,text\na@x.nl,s,t\n"), "mailbox:news").import_id
    people = io.BytesIO(b"to\na@x.nl\n")
    campaign = application.campaigns.create(NewCampaign("spring", ["news"], "s", text="t"), people).id
    parts = {"message_id": message, "name": "app", "verb": "resend", "import_id": kept, "campaign_id": campaign}
    tried = 0
    for rule in web.url_map.iter_rules():
        if "POST" not in rule.methods or not rule.rule.startswith("/ui"):
            continue
        kind = "acme" if "tenants" in rule.rule else "news"
        values = {part: parts.get(part, kind) for part in rule.arguments}
        _, path = rule.build(values)
        answer = admin.client.get(path)
        assert answer.status_code in {200, 303}, path
        if answer.status_code == 303:
            assert admin.client.get(answer.headers["Location"]).status_code == 200, path
        tried += 1
    assert tried > 10


# --- what is said is true ---------------------------------------------------------------------------------------------


def test_everything_runs_is_said_only_when_everything_runs(admin, application, clock):
    page = admin.look("/ui/")
    assert "Everything runs" not in page
    assert re.search(r'<li class="error"><b>Error</b>\s+No worker listens for mail', page)
    now = clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    application.redis.set("rqmail:last-tick", clock().timestamp())
    application.redis.zadd(SCHEDULE, {DISPATCH_TICK: clock().timestamp()})
    told = {"birth": now, "last_heartbeat": now, "queues": "ticks,mail-high,mail", "state": "idle"}
    application.redis.hset("rq:worker:one", mapping=told)
    application.redis.sadd("rq:workers", "rq:worker:one")
    assert all(check.ok for check in application.readiness.checks())
    assert "Everything runs, and nothing needs attention." in admin.look("/ui/")
    clock.advance(minutes=5)
    assert "Everything runs" not in admin.look("/ui/")


def test_pauses_for_one_reason_are_one_warning_and_much_waiting_mail_comes_first(admin, application):
    for key, reason in (("a", "Holiday"), ("b", "Holiday"), ("c", "Wrong list")):
        application.mailboxes.add(key, f"{key}@x.nl")
        application.mailboxes.pause(key, reason=reason)
    with pooled_connection():
        for _ in range(3):
            message_in(MessageStatus.SCHEDULED, sender="mailbox:c")
        message_in(MessageStatus.SCHEDULED, sender="mailbox:b")
    page = admin.look("/ui/")
    warnings = re.findall(r'<li class="warning">(.*?)\n    ', page + "\n    ", re.S)
    assert "2 senders are held back (Holiday): 1 message is waiting." in page
    assert page.index("mailbox:c is paused") < page.index("2 senders are held back")
    assert page.index("mailbox:b is paused") < page.index("mailbox:a is paused")
    assert len(warnings) == 2


def test_senders_that_cannot_sign_in_are_held_back_for_that_in_the_viewers_language(beheerder, application):
    for key in ("a", "b"):
        application.mailboxes.add(key, f"{key}@x.nl")
        application.limiter.pause(f"{key}@x.nl", 60_000, f"wrong secret of {key}", cause="sign-in")
    assert "2 afzenders staan stil (Aanmelding geweigerd):" in beheerder.look("/ui/")


def test_days_of_a_filter_are_those_of_the_viewers_zone(admin, application, clock):
    with pooled_connection():
        message_in(MessageStatus.SENT, created_on=clock().replace(hour=23, minute=30))
    shown = lambda query: 'name="ids"' in admin.look(f"/ui/messages?{query}")  # noqa: E731
    assert shown("from=2026-03-10&to=2026-03-10")
    assert not shown("from=2026-03-10&to=2026-03-10&zone=Europe/Amsterdam")
    assert shown("from=2026-03-11&to=2026-03-11&zone=Europe/Amsterdam")
    assert shown("from=2026-03-10&to=2026-03-10&zone=../../etc/passwd")


def test_no_page_says_a_time_in_utc_that_a_script_cannot_rewrite(admin, application):
    for path in ("/ui/", "/ui/messages", "/ui/tokens"):
        page = re.sub(
            r"<time.*?</time>|<title data-at.*?</title>|<span[^>]* ?data-zone>UTC</span>", "", admin.look(path)
        )
        assert "UTC" not in page, path
