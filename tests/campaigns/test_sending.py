"""Campaigns going out: everybody once, shared by what the budgets have left, stopped and steered within a tick."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqmail.administration.fields import refuse_while_open
from rqmail.campaigns.window import parse_window
from rqmail.content_store import ContentStore
from rqmail.delivery.retention import Retention
from rqmail.errors import ConflictError
from rqmail.insight.planning import Planning
from rqmail.insight.progress import CampaignProgress
from rqmail.models import audience, campaigns, progress
from rqmail.models.audience import CampaignRecipient, Taking
from rqmail.models.campaigns import Campaign
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus, Priority
from rqmail.ratelimit.limits import RateLimits
from support.messages import new_message, submitted

S = MessageStatus


def counts(name="Spring"):
    campaign = campaigns.find(name)
    return progress.counts([campaign.id])[campaign.id]


def state(name="Spring"):
    return campaigns.find(name).state


@pytest.fixture
def news(office):
    office.mailbox()
    return office


def test_everybody_gets_one_mail_rendered_for_them_and_the_campaign_is_done(news):
    news.create(html="<p>{{ name }}</p>", reply_to=("desk@example.org",))
    news.campaigns.start("Spring")
    news.run(3)
    assert sorted(news.addresses()) == [f"p{n}@example.org" for n in range(10)]
    mail = next(mail for _, mail in news.mails if mail.to[0].address == "p4@example.org")
    assert (mail.subject, mail.text, mail.html) == ("Hello Name4", "Dear Name4 at p4@example.org", "<p>Name4</p>")
    assert [one.address for one in mail.reply_to] == ["desk@example.org"]
    assert state() == "DONE"
    assert counts() == {S.SENT: 10}


def test_everybody_may_unsubscribe_by_a_link_of_their_own(news):
    news.create(people=2, unsubscribe=True, html='<a href="{{ unsubscribe_url }}">Stop</a>')
    shown = news.campaigns.preview("Spring")
    assert "List-Unsubscribe" in dict(shown.headers)
    news.campaigns.start("Spring")
    news.run(2)
    for _, mail in news.mails:
        link = f"https://x.example/{mail.id}/{mail.to[0].address}"
        assert mail.headers["List-Unsubscribe"] == f"<{link}>"
        assert mail.html == f'<a href="{link}">Stop</a>'


def test_a_mailbox_never_exceeds_its_budget_and_its_line_stays_short(news, clock):
    news.create(people=120)
    news.campaigns.start("Spring")
    longest = 0
    for _ in range(170):
        news.run(1)
        longest = max(longest, Message.select().where(Message.status == S.SCHEDULED.value).count())
    assert longest <= 26
    times = [at for at, _, _ in news.taken]
    for start in times:
        assert sum(start <= one < start + timedelta(seconds=60) for one in times) <= 25
    assert len(times) == 75


def test_a_pool_shares_by_what_the_budgets_have_left(office):
    for key, per_minute in (("a", 25), ("b", 10), ("c", 5)):
        office.mailbox(key, rate_limit_per_minute=per_minute)
    office.create(people=200, mailboxes=("a", "b", "c"))
    office.campaigns.start("Spring")
    office.run(62)
    sent = Counter(sender for sender, _ in office.mails)
    assert sent == {"mailbox:a": 50, "mailbox:b": 20, "mailbox:c": 10}
    assert len(set(office.addresses())) == 80


def test_what_a_paused_member_had_goes_to_the_others(office, clock):
    office.mailbox("a")
    office.mailbox("b")
    office.create(people=60, mailboxes=("a", "b"))
    office.campaigns.start("Spring")
    office.limiter.pause("a@example.org", 3_600_000, "by hand")
    office.run(182)
    assert {sender for sender, _ in office.mails} == {"mailbox:b"}
    assert len(set(office.addresses())) == 60
    assert state() == "DONE"


def test_what_a_member_had_in_its_line_when_it_was_paused_goes_to_the_others(office):
    office.mailbox("a", rate_limit_per_minute=5)
    office.mailbox("b", rate_limit_per_minute=5)
    office.create(people=20, mailboxes=("a", "b"))
    office.campaigns.start("Spring")
    office.run(1)
    office.limiter.pause("a@example.org", 36_000_000, "by hand")
    office.run(130)
    assert len(set(office.addresses())) == len(office.addresses()) == 20


def test_a_mailbox_without_a_day_left_gives_its_part_to_the_others(office):
    office.mailbox("a", rate_limit_recipients_per_day=3)
    office.mailbox("b")
    office.create(people=40, mailboxes=("a", "b"))
    office.campaigns.start("Spring")
    office.run(65)
    sent = Counter(sender for sender, _ in office.mails)
    assert (sent["mailbox:a"], sum(sent.values())) == (3, 40)


def test_a_sticky_campaign_lets_a_person_hear_from_the_same_mailbox_always(office):
    for key in ("a", "b", "c"):
        office.mailbox(key)
    for name in ("One", "Two"):
        office.create(name, people=30, mailboxes=("a", "b", "c"), sticky=True)
        office.campaigns.start(name)
        office.run(62)
    by_person = {}
    for sender, mail in office.mails:
        by_person.setdefault(mail.to[0].address, []).append(sender)
    assert all(len(them) == 2 and len(set(them)) == 1 for them in by_person.values())
    assert len({them[0] for them in by_person.values()}) == 3


def test_two_campaigns_of_one_mailbox_share_it(news):
    news.create("One", people=40)
    news.create("Two", people=40)
    for name in ("One", "Two"):
        news.campaigns.start(name)
    news.run(3)
    sent = Counter(Message.get_by_id(mail.id).campaign_id for _, mail in news.mails)
    assert sorted(sent.values()) == [12, 13]


def test_other_mail_of_the_mailbox_goes_before_a_campaign(news, clock):
    news.create(people=100)
    news.campaigns.start("Spring")
    news.run(2)
    clock.advance(seconds=61)
    ids = submitted(*(new_message("mailbox:news") for _ in range(25)), now=clock())
    news.run(2)
    assert [mail.id for _, mail in news.mails[25:]] == ids


def test_a_pause_takes_back_what_has_not_begun_within_one_tick(news, clock):
    news.create(people=60)
    news.campaigns.start("Spring")
    news.tick()
    assert Counter(row.status for row in Message.select()) == {S.QUEUED: 25, S.SCHEDULED: 1}
    news.campaigns.pause("Spring")
    news.tick()
    assert (Message.select().count(), news.work()) == (0, [])
    news.run(120)
    assert news.mails == []
    assert counts() == {"WAITING": 60}
    news.campaigns.resume("Spring")
    news.run(122)
    assert len(set(news.addresses())) == len(news.addresses()) == 60


def test_what_was_tried_before_a_pause_keeps_its_mailbox_and_waits_for_the_end_of_the_pause(news, clock):
    news.create(people=1)
    news.campaigns.start("Spring")
    news.tick()
    [row] = Message.select()
    Message.update(status=S.SCHEDULED.value, attempts=1, attempted_on=clock(), job_id=None).execute()
    news.campaigns.pause("Spring")
    for _ in range(3):
        news.run(1)
        clock.advance(hours=2)
    assert (news.mails, Message.get_by_id(row.id).waiting_for) == ([], "campaign-paused")
    news.campaigns.resume("Spring")
    news.run(2)
    assert [mail.id for _, mail in news.mails] == [row.id]


def test_what_was_tried_goes_on_with_the_next_tick_after_a_pause(news, clock):
    news.create(people=1)
    news.campaigns.start("Spring")
    news.tick()
    Message.update(status=S.SCHEDULED.value, attempted_on=clock(), job_id=None).execute()
    news.campaigns.pause("Spring")
    news.run(2)
    assert news.mails == []
    news.campaigns.resume("Spring")
    news.run(2)
    assert len(news.mails) == 1


def test_what_was_tried_is_cancelled_with_its_campaign(news, clock):
    news.create(people=2)
    news.campaigns.start("Spring")
    news.tick()
    Message.update(status=S.SCHEDULED.value, attempted_on=clock(), attempts=1, job_id=None).execute()
    news.campaigns.cancel("Spring")
    news.run(3)
    assert (news.mails, counts()) == ([], {S.CANCELLED: 2})


def test_nobody_is_taken_any_more_once_a_pause_is_written_whatever_a_tick_has_read_before(news, clock):
    news.create()
    news.campaigns.start("Spring")
    running = campaigns.find("Spring").id
    news.campaigns.pause("Spring")
    taking = Taking(clock(), lambda _: set(), lambda campaign, _: campaign.subject)
    assert audience.take(running, {"mailbox:news": 5}, taking) == 0
    assert Message.select().count() == 0


def test_a_mailbox_that_has_urgent_mail_for_more_than_a_minute_gives_its_part_to_the_others(office):
    for key in ("a", "b"):
        office.mailbox(key)
    submitted(*(new_message("mailbox:a") for _ in range(80)))
    office.create(people=40, mailboxes=("a", "b"))
    office.campaigns.start("Spring")
    office.run(62)
    sent = Counter(
        Message.get_by_id(mail.id).sender for _, mail in office.mails if Message.get_by_id(mail.id).campaign_id
    )
    assert sent == {"mailbox:b": 40}


def test_a_cancelled_campaign_ends_what_is_in_flight_and_sends_nobody_else(news, clock):
    news.create(people=60)
    news.campaigns.start("Spring")
    news.run(1)
    news.campaigns.cancel("Spring")
    news.run(65)
    assert len(news.mails) == 25
    assert counts() == {S.SENT: 25, "WAITING": 35}
    assert (state(), campaigns.find("Spring").ended_on is not None) == ("CANCELLED", True)
    for steer in (news.campaigns.start, news.campaigns.resume, news.campaigns.retry_failed):
        with pytest.raises(ConflictError, match="CANCELLED"):
            steer("Spring")


def test_an_expired_campaign_sends_nobody_else_and_is_done(news, clock):
    news.create(people=60, expires=clock() + timedelta(seconds=30))
    news.campaigns.start("Spring")
    news.run(40)
    assert len(news.mails) == 25
    assert (state(), counts()) == ("DONE", {S.SENT: 25, "WAITING": 35})


def test_only_what_failed_is_sent_again_and_never_what_may_have_been_sent(news, clock):
    news.create(people=4)
    news.campaigns.start("Spring")
    news.run(2)
    for row, status in zip(
        Message.select().order_by(Message.id), (S.SENT, S.ERROR, S.UNKNOWN, S.CANCELLED), strict=True
    ):
        Message.update(status=status.value, lease_until=None).where(Message.id == row.id).execute()
    before = len(news.mails)
    assert news.campaigns.retry_failed("Spring") == 2
    news.run(2)
    assert len(news.mails) - before == 2
    assert counts() == {S.SENT: 3, S.UNKNOWN: 1}
    assert state() == "RUNNING", "nobody knows yet what became of one"


def test_a_row_that_cannot_be_rendered_fails_alone(news):
    news.create(text="to,name\na@x.nl,1\nb@x.nl,0\nc@x.nl,2\n", subject="Hi", html="{{ 10 // name|int }}")
    news.campaigns.start("Spring")
    news.run(2)
    assert sorted(news.addresses()) == ["a@x.nl", "c@x.nl"]
    [failed] = progress.outcomes(campaigns.find("Spring"), progress.Wanted(status="ERROR"))
    assert (failed.address, state()) == ("b@x.nl", "DONE")
    assert "cannot be rendered" in failed.error


def test_a_worker_without_the_library_for_templates_burns_no_mail(news, monkeypatch):
    news.create(people=2)
    news.campaigns.start("Spring")
    news.tick()
    monkeypatch.setattr("rqmail.campaigns.rendering.find_spec", lambda _: None)
    news.work()
    assert {(row.status, row.waiting_for) for row in Message.select()} == {(S.SCHEDULED, "fault")}
    assert news.mails == []


def test_a_subject_is_that_of_the_person_even_if_the_dispatcher_could_not_render_it(news, monkeypatch):
    news.create(people=1)
    news.campaigns.start("Spring")
    monkeypatch.setattr("rqmail.delivery.feeding.subject_of", lambda campaign, _: campaign.subject)
    news.run(2)
    [(_, mail)] = news.mails
    assert mail.subject == "Hello Name0"


def test_who_is_suppressed_meanwhile_gets_no_mail(news):
    news.create(people=60)
    news.campaigns.start("Spring")
    news.run(1)
    news.suppressed = {f"p{n}@example.org" for n in range(50, 60)}
    news.run(125)
    assert counts() == {S.SENT: 50, "SUPPRESSED": 10}
    assert state() == "DONE"


def test_nobody_hears_from_a_second_campaign_too_soon(news, clock):
    news.create("One", people=5)
    news.create("Two", people=8, not_within_hours=24)
    news.campaigns.start("One")
    news.run(2)
    news.campaigns.start("Two")
    news.run(3)
    assert sorted(news.addresses()[5:]) == ["p5@example.org", "p6@example.org", "p7@example.org"]
    assert counts("Two")["HELD"] == 5
    clock.advance(hours=23, minutes=59)
    news.run(2)
    assert len(news.mails) == 8
    clock.advance(minutes=2)
    news.run(3)
    assert (len(news.mails), state("Two")) == (13, "DONE")


def test_mail_of_another_campaign_that_failed_keeps_nobody_waiting(news):
    news.create("One", people=3)
    news.create("Two", people=3, not_within_hours=24)
    news.campaigns.start("One")
    news.run(2)
    Message.update(status=S.ERROR.value).execute()
    news.campaigns.start("Two")
    news.run(2)
    assert counts("Two") == {S.SENT: 3}


def test_when_it_is_done_is_told_by_the_hours_in_which_it_may_send(news, clock):
    clock.now = datetime(2026, 12, 3, 8, 0, 0, tzinfo=UTC)
    news.create(people=100, window=parse_window("08:00-08:02", None, "UTC"))
    news.campaigns.start("Spring")
    planning = Planning(news.limiter, clock, RateLimits(), pacing="burst")
    told = CampaignProgress(planning, clock).show("Spring")
    assert told.done_on == datetime(2026, 12, 4, 8, 1, 0, tzinfo=UTC)


def test_mail_goes_out_in_the_sending_window_only(news, clock):
    clock.now = datetime(2026, 12, 3, 18, 59, 30, tzinfo=UTC)
    news.create(people=60, window=parse_window("08:00-20:00", None, "Europe/Amsterdam"))
    news.campaigns.start("Spring")
    news.run(90)
    assert len(news.mails) == 25
    clock.now = datetime(2026, 12, 4, 7, 0, 0, tzinfo=UTC)
    news.run(70)
    assert len(set(news.addresses())) == len(news.addresses()) == 60


def test_a_campaign_begins_when_it_is_to_and_not_before(news, clock):
    news.create(at=clock() + timedelta(minutes=5))
    news.campaigns.start("Spring")
    news.run(200, step=10)
    assert news.mails == []
    news.run(200, step=10)
    assert len(news.mails) == 10


def test_the_pool_can_change_while_it_runs(office):
    for key in ("a", "b"):
        office.mailbox(key, rate_limit_per_minute=5)
    office.create(people=30, mailboxes=("a",), sticky=True)
    office.campaigns.start("Spring")
    office.run(2)
    office.campaigns.change("Spring", mailboxes=("b",))
    office.run(310)
    sent = Counter(sender for sender, _ in office.mails)
    assert sum(sent.values()) == len(set(office.addresses())) == 30
    assert sent["mailbox:b"] == 25


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["tick", "work", "minute", "pause", "resume", "swap", "flush", "fail"]), max_size=25))
def test_whatever_happens_nobody_gets_two_mails_and_in_the_end_everybody_has_one(sqlite_office, steps):
    office = sqlite_office
    for table in (CampaignRecipient, Message, campaigns.CampaignMailbox, campaigns.Campaign):
        table.delete().execute()
    office.mails.clear()
    office.redis.flushall()
    SystemMailbox.delete().execute()
    office.mailbox("a", rate_limit_per_minute=7)
    office.mailbox("b", rate_limit_per_minute=4)
    office.create(people=40, mailboxes=("a", "b"))
    office.campaigns.start("Spring")
    for step in [*steps, "resume"]:
        if step == "tick":
            office.tick()
        elif step == "work":
            office.work()
        elif step == "minute":
            office.clock.advance(seconds=61)
        elif step == "swap":
            office.campaigns.change("Spring", mailboxes=("b",))
            office.campaigns.change("Spring", mailboxes=("a", "b"))
        elif step == "flush":
            office.redis.flushall()
            lost = [row.id for row in Message.select().where(Message.status == S.QUEUED.value)]
            Message.put_back(lost)  # as recovery does
        elif step == "fail":
            office.limiter.pause("a@example.org", 30_000, "throttled")
        else:
            with suppress(ConflictError):
                getattr(office.campaigns, step)("Spring")
    office.run(700, step=5)
    assert sorted(office.addresses()) == sorted(f"p{n}@example.org" for n in range(40))
    assert state() == "DONE"


def test_two_ticks_at_once_make_no_second_mail(news):
    """Two processes that feed at the same moment, whatever became of the lock that keeps them apart."""
    news.create(people=200)
    news.campaigns.start("Spring")
    together = threading.Barrier(4)

    def feed():
        together.wait()
        news.dispatcher._feed()

    threads = [threading.Thread(target=feed) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    taken = [row.message_id for row in CampaignRecipient.select() if row.message_id]
    assert len(taken) == len(set(taken)) == Message.select().count()
    assert {row.priority for row in Message.select()} == {Priority.LOW}


def test_a_mailbox_that_sends_for_a_campaign_cannot_be_removed(news):
    news.create()
    with pytest.raises(ConflictError, match="sends for campaign 'Spring'"):
        refuse_while_open("mailbox:news")
    news.campaigns.cancel("Spring")
    refuse_while_open("mailbox:news")


def test_retention_forgets_a_campaign_with_all_of_its_mail_long_after_its_end(news, clock):
    news.create(people=3)
    news.create("Later", people=2)
    for name in ("Spring", "Later"):
        news.campaigns.start(name)
    news.run(4)
    news.campaigns.retry_failed("Later")
    retention = Retention(clock, ContentStore(clock))
    clock.advance(days=29)
    assert (retention.purge(timedelta(days=30)).campaigns, Message.select().count()) == (0, 5)
    Campaign.update(ended_on=None, state="RUNNING").where(Campaign.name == "Later").execute()
    clock.advance(days=2)
    assert retention.count(timedelta(days=30)).campaigns == 1
    assert retention.purge(timedelta(days=30)).campaigns == 1
    assert [one.name for one in campaigns.all_campaigns()] == ["Later"]
    assert (Message.select().count(), CampaignRecipient.select().count()) == (2, 2)
