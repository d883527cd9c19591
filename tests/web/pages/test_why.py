"""Why nothing goes out: every obstacle has its sentence, in both languages."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

import rqmail.web
from rqmail.models.base import pooled_connection
from rqmail.models.bounces import note_bounce
from rqmail.models.message import Message
from rqmail.queue_state import DISPATCH_TICK, SCHEDULE
from rqmail.ratelimit.limits import RateLimits
from support.messages import new_message, submitted


def said(person, path="/ui/mailboxes/news"):
    """The sentence as it is read: without markup, its moments as HH:MM."""
    [sentence] = re.findall(r'<p class="why lead"[^>]*><b>[^<]*</b>(.*?)</p>', person.look(path), re.S)
    sentence = re.sub(r"<time[^>]*>\S+ (\S+) UTC</time>", r"\1", sentence)
    return sentence.replace("&#39;", "'").strip()


@pytest.fixture
def beat(application, clock):
    """Let the scheduler and a worker be alive."""

    def beat():
        now = clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        redis = application.redis
        redis.set("rqmail:last-tick", clock().timestamp())
        redis.zadd(SCHEDULE, {DISPATCH_TICK: clock().timestamp()})
        told = {"birth": now, "last_heartbeat": now, "queues": "ticks,mail-high,mail", "state": "busy"}
        redis.hset("rq:worker:one", mapping=told)
        redis.sadd("rq:workers", "rq:worker:one")

    beat()
    return beat


def hand_in(number=1, **fields):
    with pooled_connection():
        return submitted(*(new_message(**fields) for _ in range(number)))


def test_nothing_waits(admin, beheerder, news):
    assert said(admin) == "Nothing is waiting."
    assert said(beheerder) == "Er wacht niets."


def test_it_is_for_later(admin, beheerder, news, clock):
    hand_in(2, at=clock() + timedelta(hours=3))
    assert said(admin) == "Nothing is due. The next of 2 goes out 12:30."
    assert said(beheerder) == "Er is nu niets aan de beurt. Het volgende van 2 gaat uit op 12:30."


def test_it_is_going(admin, beheerder, news, beat):
    hand_in(30)
    assert said(admin).startswith(
        "30 messages wait: 0 are being sent now, 30 are next. All of it is through about 09:3"
    )
    assert said(beheerder).startswith(
        "30 berichten wachten: 0 worden nu verzonden, 30 komen hierna. Alles is klaar rond"
    )


def test_it_was_put_off(admin, beheerder, news, beat, clock):
    ids = hand_in(2)
    with pooled_connection():
        later = clock() + timedelta(minutes=2)
        Message.update(scheduled_on=later, waiting_for="throttled").where(Message.id.in_(ids)).execute()
    assert said(admin) == "2 messages wait: put off (2 provider asked to slow down); the next try is 09:32."
    assert said(beheerder) == "2 berichten wachten: uitgesteld (2 provider vroeg om rust); de volgende poging is 09:32."


def test_the_minute_is_used_up(admin, beheerder, news, application, beat):
    hand_in()
    for _ in range(25):
        application.limiter.settle(application.limiter.check_and_reserve("news@x.nl", 1, RateLimits(25, 9000, 4)))
    assert said(admin).startswith(
        "1 message waits: the minute's budget is used up (25 of 25 calls); next free place: 09:31."
    )
    assert said(beheerder).startswith(
        "1 bericht wacht: het minuutbudget is op (25 van 25 berichten); volgende vrije plaats:"
    )


def test_the_scheduler_or_the_worker_is_gone(admin, beheerder, news, clock, beat, application):
    hand_in()
    clock.advance(minutes=5)
    assert said(admin) == "1 message waits: the last dispatch was 5 min ago; is rqmail scheduler running?"
    assert said(beheerder) == "1 bericht wacht: de laatste ronde was 5 min geleden; draait rqmail scheduler?"
    application.redis.flushall()
    assert said(admin) == "1 message waits: no dispatch has run today; is rqmail scheduler running?"
    beat()
    application.redis.delete("rq:workers")
    assert said(beheerder) == "1 bericht wacht: geen worker luistert naar post; start rqmail worker."
    application.redis.delete(SCHEDULE)
    assert said(beheerder) == (
        "1 bericht wacht: niets houdt de rondes gaande: post wacht tot iemand erom vraagt; start rqmail scheduler."
    )


def test_a_problem_begins_with_a_capital_unless_it_begins_with_a_name(admin, beheerder, application, news):
    hand_in()
    application.limiter.pause("news@x.nl", 60_000, "a test")
    for person in (admin, beheerder):
        found = re.findall(
            r"<b>[^<]*</b>\s*(?:<details><summary>)?([^<]+)", person.look("/ui/").split('class="tiles"')[0]
        )
        assert found
        assert [text for text in found if text[0].islower() and not text.startswith("mailbox:")] == []


def test_mail_that_comes_back_too_much_is_warned_of_on_overview_and_doctor(
    admin, beheerder, news, application, clock, beat
):
    to = tuple(f"r{n}@x.nl" for n in range(40))
    [message_id] = hand_in(sender="mailbox:news", to=to)
    address = application.mailboxes.get(news).address
    with pooled_connection():
        Message.update(status="SENT", mailbox_key=address, attempted_on=clock(), sent_on=clock()).execute()
        for one in to[:3]:
            note_bounce(message_id, one, code="5.1.1", detail="no", at=clock(), probable=False)
    told = "7.5 % of the mail of mailbox:news came back in 7 days (3 of 40 recipients)"
    assert told in admin.look("/ui/")
    assert "7,5 % van de mail van mailbox:news kwam in 7 dagen terug (3 van 40 ontvangers)" in beheerder.look("/ui/")
    assert "7.5 % of its mail came back in 7 days (3 of 40 recipients)" in admin.look("/ui/doctor")
    assert "7,5 % van de mail kwam in 7 dagen terug (3 van 40 ontvangers)" in beheerder.look("/ui/doctor")


def test_redis_is_away(admin, beheerder, news, application, monkeypatch):
    hand_in()
    away = type("Health", (), {"state": "unreachable", "text": "refused"})()
    monkeypatch.setattr(application.limiter, "health", lambda: away)
    assert said(admin) == "1 message waits: Redis is away, so nothing can be handed to the workers."
    assert said(beheerder) == "1 bericht wacht: Redis is weg, dus er kan niets naar de workers."
    assert "Redis is onbereikbaar: refused" in beheerder.look("/ui/")


def shown(person, path="/ui/mailboxes"):
    """How the mailbox and its two windows look: the badge, the minute's bar and the day's."""
    page = person.look(path)
    [badge] = set(re.findall(r'<span class="badge ([a-z-]+)">', page)) or {""}
    return badge, *re.findall(r'<svg class="bar ([a-z]+)"', page)[:2]


def test_a_minute_that_is_used_up_is_well_and_a_day_that_is_used_up_warns(admin, beheerder, application, news, beat):
    assert shown(admin) == ("ok", "ok", "ok")
    defaults = application.overview.defaults
    for _ in range(defaults.per_minute):
        application.limiter.settle(application.limiter.check_and_reserve("news@x.nl", 1, defaults))
    assert shown(admin) == ("full-speed", "ok", "ok")
    assert "Op volle snelheid" in beheerder.look("/ui/mailboxes/news")
    assert 'id="m-news"' in admin.look("/ui/mailboxes?state=full-speed")
    assert 'id="m-news"' not in admin.look("/ui/mailboxes?state=limited")
    application.mailboxes.set("news", rate_limit_recipients_per_day=defaults.per_minute + 1)
    assert shown(admin) == ("near", "ok", "near")
    application.mailboxes.set("news", rate_limit_recipients_per_day=defaults.per_minute)
    assert shown(admin) == ("limited", "ok", "full")


def test_only_what_needs_a_person_is_red():
    style = (Path(rqmail.web.__file__).parent / "static" / "pages.css").read_text()
    red = re.findall(r"([^{}]*)\{[^{}]*(?:--bad-soft|--chart-failed)\)", style)
    assert len(red) > 3
    assert not [rule for rule in red if re.search(r"\.(full|near|limited|full-speed|throttled)\b", rule)]


def test_a_message_that_waits_for_a_full_day_says_so_and_when_it_is_expected(admin, news, application, beat):
    [mine] = hand_in()
    assert "due now" in admin.look(f"/ui/messages/{mine}")
    limits = RateLimits()
    application.limiter.settle(application.limiter.check_and_reserve("news@x.nl", 9000, limits))
    page = admin.look(f"/ui/messages/{mine}")
    assert "day budget" in page
    assert "next try" in page
