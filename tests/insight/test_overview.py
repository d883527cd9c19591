"""What is where, how much budget is left, when it is done, and why nothing goes out."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rqmail.administration.mailboxes import Mailboxes
from rqmail.administration.tenants import Tenants
from rqmail.errors import NotFoundError
from rqmail.insight.jsonable import as_json
from rqmail.insight.overview import Overview, Past
from rqmail.insight.standing import WindowView, told_state
from rqmail.intake.draft import Draft, Intake
from rqmail.models.bounces import note_bounce
from rqmail.models.counts import ended_by_sender
from rqmail.models.message import Message, MessageStatus
from rqmail.queue_state import WorkerState
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.scopes import TenantBudgets
from rqmail.terminal.board import bar, causes, denied
from rqmail.ticks import Timetable
from rqmail.vault import SecretBox

DEFAULTS = RateLimits()


@pytest.fixture
def mailboxes(database, limiter, clock):
    mailboxes = Mailboxes(clock, limiter)
    mailboxes.add("news", "news@x.nl", rate_limit_per_minute=2)
    mailboxes.add("post", "post@x.nl")
    return mailboxes


@pytest.fixture
def overview(mailboxes, limiter, queues, clock):
    return Overview(limiter, queues, clock, DEFAULTS, pacing="burst")


@pytest.fixture
def submit(mailboxes, clock):
    intake = Intake(clock, lambda: None)

    def submit(sender="mailbox:news", number=1, **fields):
        draft = Draft(sender, "Hallo", "a@x.nl;b@x.nl", text="dag", **fields)
        return intake.submit_all([draft] * number)

    return submit


def test_how_often_a_mailbox_was_denied_in_the_last_hour_is_told_by_reason(mailboxes, limiter, queues, clock):
    told = {"news@x.nl": {"minute": 3, "day": 1}}
    asked = []
    overview = Overview(limiter, queues, clock, DEFAULTS, denied_last_hour=lambda: asked.append(1) or told)
    status = overview.status()
    assert {key: one.denied_last_hour for key, one in status.mailboxes.items()} == {
        "news": {"minute": 3, "day": 1},
        "post": {},
    }
    assert as_json(status)["mailboxes"]["news"]["deniedLastHour"] == {"minute": 3, "day": 1}
    assert len(asked) == 1, "one round trip, however many mailboxes"
    assert denied(status.mailboxes["news"].denied_last_hour) == "3 minute, 1 day"
    unknown = Overview(limiter, queues, clock, DEFAULTS, denied_last_hour=lambda: None).mailbox("news")
    assert unknown.denied_last_hour is None


def test_every_status_is_counted_over_all_and_by_sender(overview, submit, clock):
    ids = submit(number=3) + submit("mailbox:post", 2)
    Message.update(status="SENT", sent_on=clock()).where(Message.id == ids[0]).execute()
    Message.cancel([ids[1]])
    status = overview.status()
    assert status.messages == dict.fromkeys(MessageStatus, 0) | {"SENT": 1, "CANCELLED": 1, "SCHEDULED": 3}
    assert status.mailboxes["news"].messages["SENT"] == 1
    assert (status.mailboxes["news"].waiting, status.mailboxes["news"].waiting_recipients) == (1, 2)
    assert status.mailboxes["post"].messages["SCHEDULED"] == 2


def test_a_past_that_takes_long_to_count_is_believed_for_a_while(mailboxes, submit, clock):
    moments = iter([0.0, 0.2, 3.9, 4.1, 4.12])  # it takes 0.2 s the first time, 0.02 s the second
    ended = Past(ended_by_sender, lambda: next(moments))
    ids = submit(number=2)
    Message.update(status="SENT", sent_on=clock()).where(Message.id == ids[0]).execute()
    assert ended.look() == {"mailbox:news": {"SENT": 1}}
    Message.update(status="SENT", sent_on=clock()).execute()
    assert ended.look() == {"mailbox:news": {"SENT": 1}}
    assert ended.look() == {"mailbox:news": {"SENT": 2}}


def test_a_mailbox_whose_mail_comes_back_too_much_is_warned_of_and_many_are_one_line(overview, submit, clock):
    told = {}
    for key, back in (("news", 1), ("post", 0)):
        ids = submit(f"mailbox:{key}", 10)  # two recipients each
        Message.update(status="SENT", attempted_on=clock(), sent_on=clock(), mailbox_key=f"{key}@x.nl").where(
            Message.id.in_(ids)
        ).execute()
        told[key] = ids
        for message_id in ids[:back]:
            note_bounce(message_id, "a@x.nl", code="5.1.1", detail="no", at=clock(), probable=False)
    assert overview.status().problems == ()
    note_bounce(told["news"][1], "a@x.nl", code="5.1.1", detail="no", at=clock(), probable=False)
    status = overview.status()
    [problem] = as_json(status)["problems"]
    assert (problem["code"], problem["level"], problem["sender"]) == ("bouncing", "warning", "mailbox:news")
    assert problem["text"].startswith("10 % of the mail of mailbox:news came back in 7 days (2 of 20 recipients)")
    assert [str(line) for line in causes(status)] == [f"warning: {problem['text']}"]
    for message_id in told["post"][:3]:
        note_bounce(message_id, "a@x.nl", code="5.1.1", detail="no", at=clock(), probable=False)
    [cause] = overview.status().causes
    assert (cause.code, cause.senders) == ("bouncing", ("mailbox:news", "mailbox:post"))
    assert str(cause.text).startswith("Of 2 senders so much mail came back")


def test_what_is_wanted_later_is_not_waiting_yet(overview, submit, clock):
    submit(at=clock() + timedelta(hours=1))
    news = overview.mailbox("news")
    assert (news.waiting, news.scheduled_later, news.oldest_waiting_on, news.done_on) == (0, 1, None, None)
    assert news.explanation.startswith("Nothing is due. The next of 1 goes out in 60 minutes")


def test_a_limit_says_whether_it_is_the_default_or_an_override(overview):
    budget = overview.mailbox("news").budget
    assert (budget.per_minute.limit, budget.per_minute.source) == (2, "override")
    assert (budget.recipients_per_day.limit, budget.recipients_per_day.source) == (9000, "default")


def test_a_used_up_minute_says_so_and_when_it_ends(overview, submit, limiter, clock):
    for _ in range(2):
        limiter.settle(limiter.check_and_reserve("news@x.nl", 1, RateLimits(per_minute=2)))
    submit(number=5)
    news = overview.mailbox("news")
    assert (news.state, news.deferred, news.budget.per_minute.remaining) == ("limited", 5, 0)
    assert abs(news.budget.next_free_on - clock() - timedelta(seconds=60)) < timedelta(milliseconds=1)
    assert abs(news.done_on - clock() - timedelta(minutes=3)) < timedelta(milliseconds=1)
    assert news.explanation.startswith("5 messages wait: the minute's budget is used up (2 of 2 calls)")


def test_a_used_up_day_says_so(overview, submit, limiter, mailboxes):
    mailboxes.set("news", rate_limit_per_minute=10, rate_limit_recipients_per_day=3)
    limiter.settle(limiter.check_and_reserve("news@x.nl", 3, RateLimits(10, 3)))
    submit()
    news = overview.mailbox("news")
    assert news.state == "limited"
    assert "the day's budget is used up (3 of 3 recipients)" in news.explanation


def test_with_minute_and_day_used_up_the_one_that_frees_last_is_told(overview, submit, limiter, mailboxes, clock):
    mailboxes.set("news", rate_limit_per_minute=2, rate_limit_recipients_per_day=3)
    limits = RateLimits(2, 3)
    limiter.settle(limiter.check_and_reserve("news@x.nl", 1, limits))
    clock.advance(hours=24, minutes=9, seconds=30)  # what was sent then is forgotten in ten seconds
    for _ in range(2):
        limiter.settle(limiter.check_and_reserve("news@x.nl", 1, limits))
    submit()
    news = overview.mailbox("news")
    assert (news.budget.recipients_per_day.remaining, news.budget.waits_for) == (0, "minute")
    assert "the minute's budget is used up" in news.explanation
    mailboxes.set("post", rate_limit_per_minute=1, rate_limit_recipients_per_day=1)
    limiter.settle(limiter.check_and_reserve("post@x.nl", 1, RateLimits(1, 1)))
    submit("mailbox:post")
    post = overview.mailbox("post")
    assert (post.budget.per_minute.remaining, post.budget.waits_for) == (0, "day")
    assert "the day's budget is used up" in post.explanation


def test_nine_tenths_of_a_budget_is_near_the_limit(overview, limiter, mailboxes):
    mailboxes.set("news", rate_limit_recipients_per_day=10)
    limiter.settle(limiter.check_and_reserve("news@x.nl", 9, RateLimits(2, 10)))
    assert overview.mailbox("news").state == "near"


def test_a_pause_says_why_and_until_when(overview, submit, mailboxes, clock):
    submit()
    mailboxes.pause("news", reason="wrong list", duration=timedelta(minutes=5))
    news = overview.mailbox("news")
    assert (news.state, news.deferred) == ("paused", 1)
    assert news.explanation == "1 message waits: the mailbox is paused until 09:35:20 UTC (wrong list)."
    assert any("wrong list" in problem.text for problem in overview.status().problems)
    assert not overview.status().is_wrong


def test_a_pause_of_a_person_shows_after_redis_forgot_it(overview, mailboxes, redis_client):
    mailboxes.pause("news", reason="wrong list")
    redis_client.flushall()
    assert overview.mailbox("news").budget.pause_reason == "wrong list"
    assert overview.mailbox("news").done_on is None


def test_two_senders_on_one_mailbox_share_the_estimate(overview, submit, mailboxes, clock):
    mailboxes.add("also", "NEWS@x.nl".lower(), rate_limit_per_minute=2)
    submit(number=2)
    submit("mailbox:also", 4)
    assert overview.mailbox("news").done_on == clock() + timedelta(minutes=2)


def test_the_estimate_follows_the_pace(submit, limiter, queues, mailboxes, clock):
    even = Overview(limiter, queues, clock, DEFAULTS, pacing="even")
    submit("mailbox:post", 60)
    # 25 over 48 s of the first minute, 25 of the second, 10 of the third: the last one 9 places after it began.
    assert even.mailbox("post").done_on == clock() + timedelta(minutes=2, seconds=9 * 1.92)
    mailboxes.set("post", pacing="burst")
    assert even.mailbox("post").done_on == clock() + timedelta(minutes=2)


def test_overdue_mail_without_ticks_or_workers_is_an_error(overview, submit, queues, clock):
    submit()
    clock.advance(minutes=2)
    queues.crew = [WorkerState("ticker", "idle", ("ticks",), clock())]
    status = overview.status()
    assert status.is_wrong
    assert [problem.text for problem in status.problems] == [
        "The last dispatch was 2 minutes ago; is `rqmail scheduler` running?",
        "No worker listens for mail; start `rqmail worker`.",
    ]
    assert "scheduler" in status.mailboxes["news"].explanation


def test_with_no_worker_something_is_wrong_though_nothing_waits_yet(overview, submit, queues):
    queues.crew = []
    assert [problem.text for problem in overview.status().problems] == [
        "No worker listens for mail; start `rqmail worker`."
    ]
    submit()
    assert overview.status().is_wrong
    assert "being sent now" in overview.mailbox("news").explanation  # a moment's delay is not told of each sender


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (MessageStatus.ERROR, "1 message could not be sent; `rqmail message list --status ERROR`."),
        (MessageStatus.UNKNOWN, "1 message may or may not have been sent and needs a decision."),
    ],
)
def test_one_message_is_told_as_one(overview, submit, status, told):
    submit()
    Message.update(status=status.value).execute()
    assert told in [str(problem.text) for problem in overview.status().problems]


def test_a_dispatch_that_somebody_asked_for_is_no_scheduler(overview, queues, clock):
    clock.advance(seconds=20)
    queues.end_dispatch(queues.begin_dispatch(5))  # a nudge, or `rqmail dispatch`
    assert [problem.text.code for problem in overview.status().problems] == ["no-scheduler"]


def test_ticks_that_a_flush_took_off_the_schedule_are_missed_at_once(overview, queues, redis_client, clock):
    redis_client.flushall()
    queues.end_dispatch(queues.begin_dispatch(5))
    assert [problem.text.code for problem in overview.status().problems] == ["no-scheduler"]
    Timetable(redis_client, clock, 1).register()
    assert not overview.status().is_wrong


def test_without_redis_the_counts_are_still_told(mailboxes, queues, submit, clock):
    submit()
    dead = MailRateLimiter.from_url("redis://127.0.0.1:1/0")
    status = Overview(dead, queues, clock, DEFAULTS).status()
    assert (status.redis, status.is_wrong, status.mailboxes["news"].state) == ("unreachable", True, "unknown")
    assert status.messages["SCHEDULED"] == 1


def test_without_redis_nobody_is_told_that_nothing_is_used(mailboxes, queues, clock):
    dead = MailRateLimiter.from_url("redis://127.0.0.1:1/0")
    budget = as_json(Overview(dead, queues, clock, DEFAULTS).mailbox("news"))["budget"]
    assert (budget["known"], budget["inFlight"]) == (False, None)
    for window, limit in (("perMinute", 2), ("recipientsPerDay", 9000)):
        told = budget[window]
        assert told["limit"] == limit
        assert {told[name] for name in ("used", "remaining", "bucket", "rolling")} == {None}


def window(used, limit):
    return WindowView(limit, "default", used, max(0, limit - used), used, used)


@pytest.mark.parametrize(
    ("minute", "day", "told", "colours"),
    [
        (0, 0, "ok", ("green", "green")),
        (25, 0, "full-speed", ("green", "green")),
        (24, 0, "ok", ("green", "green")),
        (25, 8100, "near", ("green", "yellow")),
        (0, 9000, "limited", ("green", "yellow")),
    ],
)
def test_a_minute_that_is_used_up_is_well_and_a_full_day_needs_no_person(overview, minute, day, told, colours):
    budget = replace(
        overview.mailbox("post").budget, per_minute=window(minute, 25), recipients_per_day=window(day, 9000)
    )
    state = "limited" if 25 - minute == 0 or day == 9000 else "near" if minute > 22 or day >= 8100 else "ok"
    sender = replace(overview.mailbox("post"), budget=budget, state=state)
    assert told_state(sender) == told
    drawn = [bar(one, budget).columns[0]._cells[0] for one in (budget.per_minute, budget.recipients_per_day)]
    assert tuple(one.complete_style for one in drawn) == colours


def test_no_end_is_promised_while_no_worker_or_scheduler_is_alive(overview, submit, queues, redis_client, clock):
    submit()
    assert overview.mailbox("news").done_on is not None
    crew, queues.crew = queues.crew, []
    assert overview.mailbox("news").done_on is None
    queues.crew = crew
    clock.advance(hours=1)
    assert overview.mailbox("news").done_on is None
    assert "All of it is through" not in overview.explain("news")


def test_an_unknown_mailbox_is_not_found(overview):
    with pytest.raises(NotFoundError, match="nobody"):
        overview.explain("nobody")


def test_json_is_camel_case_and_keeps_keys_that_are_data(overview, submit):
    submit()
    shown = as_json(overview.status())
    assert shown["messages"]["SCHEDULED"] == 1
    news = shown["mailboxes"]["news"]
    assert news["budget"]["perMinute"]["limit"] == 2
    assert news["oldestWaitingOn"] == "2026-03-10T09:30:20.123456Z"


@pytest.fixture
def tenants(database, limiter, clock):
    tenants = Tenants(clock, SecretBox("a key for the tests, long enough"), limiter)
    tenants.add("Acme", "sendgrid", sendgrid_from="post@acme.nl", sendgrid_api_key="SG.x")
    return tenants


@pytest.mark.parametrize(("name", "key"), [("tenant:Acme", "Acme"), ("default", "default")])
def test_a_pause_of_a_sender_without_a_budget_is_told_with_its_reason(
    overview, tenants, submit, limiter, clock, name, key
):
    submit(name, 2)
    limiter.back_off(name, 300_000, 3_600_000, "SendGrid refuses the sender")
    status = overview.status()
    sender = status.default if name == "default" else status.tenants[key]
    assert (sender.state, sender.pause_reason, sender.deferred) == ("paused", "SendGrid refuses the sender", 2)
    assert abs(sender.paused_until - clock() - timedelta(minutes=5)) < timedelta(milliseconds=1)
    assert sender.budget is None
    assert sender.explanation.startswith("2 messages wait: the mailbox is paused until ")
    [problem] = [problem.text for problem in status.problems]
    assert problem.startswith(f"{name} is paused until ")
    assert problem.endswith("(SendGrid refuses the sender); 2 messages wait.")


def test_mail_whose_files_wait_for_the_volume_of_uploads_says_so(overview, submit, limiter):
    limiter.settle(limiter.check_and_reserve("news@x.nl", 1, RateLimits(), upload_bytes=145_000_000))
    submit(number=2)
    Message.update(upload_bytes=9_000_000).execute()
    news = overview.mailbox("news")
    assert (news.budget.uploaded_bytes, news.budget.upload_bytes_limit) == (145_000_000, 150_000_000)
    assert "large files wait, as 145 of 150 MB were uploaded in five minutes" in news.explanation
    Message.update(upload_bytes=5_000_000).execute()
    assert "large files" not in overview.mailbox("news").explanation


def test_what_a_mailbox_shares_with_others_is_told_and_that_it_is_used_up(mailboxes, limiter, queues, submit, clock):
    shared = TenantBudgets.told(None, {}, {"": 10}, {})
    overview = Overview(limiter, queues, clock, DEFAULTS, shared=shared)
    scopes = shared.of(None, "news@x.nl").scopes
    limiter.check_and_reserve("post@x.nl", 4, DEFAULTS, external_count=4, scopes=scopes)
    [scope] = as_json(overview.mailbox("news"))["budget"]["scopes"]
    assert scope == {"name": "tenant", "limit": 10, "used": 4, "remaining": 6, "nextFreeOn": None}
    limiter.check_and_reserve("post@x.nl", 6, DEFAULTS, external_count=6, scopes=scopes)
    submit()
    assert overview.explain("news") == (
        "1 message waits: the whole Entra tenant has reached 10 external recipients, as many as a day allows;"
        " the next place comes free in 24 hours (2026-03-11 09:40 UTC). Mail to recipients inside the tenant goes."
    )
