"""The dispatcher: never more than a mailbox's budget admits, in the right order, fair, and harmless beside another."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rqmail.delivery.dispatch import CLAIM_LEASE
from rqmail.models.mailbox import Provider, SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, MessageStatus, Priority
from rqmail.queue_state import MAIL, MAIL_HIGH
from rqmail.queues import SEND_JOB, MailJob
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from support.clock import START
from support.messages import message_in, new_message, submitted
from support.office import Office

S = MessageStatus


@pytest.fixture
def office(database, redis_client, clock):
    return Office(redis_client, clock)


@pytest.fixture
def sqlite_office(sqlite_database, redis_client, clock):
    return Office(redis_client, clock)


def statuses():
    return Counter(row.status for row in Message.select(Message.status))


def test_no_more_is_claimed_than_the_minute_admits_and_the_rest_stays_untouched(office):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(60)))
    report = office.tick()
    assert report.claimed == 25
    assert statuses() == {S.QUEUED: 25, S.SCHEDULED: 35}
    untouched = Message.select().where(Message.status == S.SCHEDULED.value)
    assert {(m.deferrals, m.attempts, m.waiting_for) for m in untouched} == {(0, 0, None)}
    assert office.tick().claimed == 0, "what is queued already counts against the minute"


def test_what_was_sent_in_the_last_minute_leaves_only_the_rest_of_it(office, clock):
    sender = office.mailbox()
    for _ in range(10):
        office.limiter.settle(office.limiter.check_and_reserve("news@example.org", 1, RateLimits()))
    submitted(*(new_message(sender) for _ in range(60)))
    assert office.tick().claimed == 15
    clock.advance(seconds=61)
    assert office.tick().claimed == 10, "15 are still queued"


def test_the_day_admits_recipients_and_a_large_message_is_not_overtaken(office):
    sender = office.mailbox(rate_limit_recipients_per_day=100)
    first, second, third = (
        submitted(new_message(sender, to=count), now=START - timedelta(seconds=age))[0]
        for count, age in ((60, 3), (50, 2), (1, 1))
    )
    assert office.tick().claimed == 1
    assert Message.get_by_id(first).status == S.QUEUED
    assert {Message.get_by_id(other).status for other in (second, third)} == {S.SCHEDULED}


def test_a_message_for_more_than_a_whole_day_is_claimed_so_that_it_fails_and_takes_no_room(office):
    sender = office.mailbox(rate_limit_recipients_per_day=10)
    submitted(new_message(sender, to=11), new_message(sender, to=10))
    assert office.tick().claimed == 2


def uploading(sender, *sizes):
    """Messages that upload so many MB each (0: none), oldest first."""
    ids = []
    for age, size in enumerate(sizes):
        ids += submitted(new_message(sender), now=START - timedelta(seconds=100 - age))
        Message.update(upload_bytes=size * 1_000_000 or None).where(Message.id == ids[-1]).execute()
    return ids


def queued_of(ids):
    return [Message.get_by_id(one).status == S.QUEUED for one in ids]


def test_no_more_is_claimed_than_the_mailbox_may_upload_and_mail_without_uploads_goes_past(office):
    ids = uploading(office.mailbox(), 100, 60, 0, 10, 0)
    office.tick()
    assert queued_of(ids) == [True, False, True, False, True], "the second upload is not overtaken by a smaller one"


def test_uploads_that_wait_hold_up_no_other_mail_however_many_they_are(office):
    sender = office.mailbox(rate_limit_per_minute=3)
    office.limiter.check_and_reserve("news@example.org", 1, RateLimits(), upload_bytes=149_000_000)
    ids = uploading(sender, 9, 9, 9, 9, 0, 0)
    assert office.tick().claimed == 2
    assert queued_of(ids) == [False] * 4 + [True] * 2


def test_a_mail_larger_than_the_window_of_uploads_goes_when_it_is_empty(office):
    ids = uploading(office.mailbox(), 200, 200)
    office.tick()
    assert queued_of(ids) == [True, False]


def test_two_senders_on_one_mailbox_share_its_budget(office):
    one = office.mailbox("one", "Shared@Example.org")
    other = office.mailbox("other", "shared@example.org ", rate_limit_per_minute=20)
    submitted(*(new_message(sender) for _ in range(30) for sender in (one, other)))
    assert office.tick().claimed == 20, "the tighter of both limits holds"
    claimed = Counter(m.sender for m in Message.select().where(Message.status == S.QUEUED.value))
    assert sum(claimed.values()) == 20
    assert len(office.jobs()) == 1, "one mailbox, one job"


def test_a_tenant_on_graph_shares_the_budget_of_a_system_mailbox_with_its_address(office):
    sender = office.mailbox("news")
    TenantMailSetting.create(
        key="acme",
        provider=Provider.MICROSOFT_GRAPH.value,
        address="NEWS@example.org",
        created_on=START,
        changed_on=START,
    )
    office.senders.forget()
    submitted(*(new_message(name) for _ in range(30) for name in (sender, "tenant:acme")))
    assert office.tick().claimed == 25


def test_mail_without_a_budget_of_ours_is_not_held_back_by_one_but_kept_in_bounds(office):
    TenantMailSetting.create(key="acme", provider=Provider.SENDGRID.value, created_on=START, changed_on=START)
    office.senders.forget()
    submitted(*(new_message("tenant:acme") for _ in range(900)))
    assert office.tick().claimed == 512
    assert office.tick().claimed == 0


def test_more_of_a_sender_without_limits_is_claimed_once_half_is_begun_and_urgent_mail_at_once(office):
    TenantMailSetting.create(key="acme", provider=Provider.SENDGRID.value, created_on=START, changed_on=START)
    office.senders.forget()
    submitted(*(new_message("tenant:acme") for _ in range(400)))
    office.tick()
    [high] = submitted(new_message("tenant:acme", priority=Priority.HIGH))
    submitted(*(new_message("tenant:acme") for _ in range(300)))
    assert office.tick().claimed == 1
    assert office.jobs(MAIL_HIGH) == [[high]]
    Message.update(status="SENT").where(Message.id.in_(office.jobs(MAIL)[0][:200])).execute()
    assert office.tick().claimed == 300


def test_high_priority_goes_first_and_has_a_queue_of_its_own(office):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(30)))
    submitted(*(new_message(sender, priority=Priority.LOW) for _ in range(3)), now=START - timedelta(hours=1))
    high = submitted(*(new_message(sender, priority=Priority.HIGH) for _ in range(3)))
    office.tick()
    assert office.jobs(MAIL_HIGH) == [high]
    [normal] = office.jobs(MAIL)
    assert len(normal) == 22
    assert {Message.get_by_id(m).priority for m in normal} == {Priority.NORMAL}


def test_places_reserved_for_high_priority_are_not_given_to_other_mail(database, redis_client, clock):
    office = Office(redis_client, clock, reserve_for_high=5)
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(30)))
    assert office.tick().claimed == 20
    submitted(*(new_message(sender, priority=Priority.HIGH) for _ in range(9)))
    assert office.tick().claimed == 5


def test_nothing_is_claimed_for_a_mailbox_that_is_paused_and_others_go_on(office, clock):
    paused, other = office.mailbox("paused"), office.mailbox("other")
    submitted(*(new_message(sender) for _ in range(3) for sender in (paused, other)))
    office.limiter.pause("paused@example.org", 60_000, "Exchange pushed back")
    assert office.tick().claimed == 3
    assert {m.sender for m in Message.select().where(Message.status == S.QUEUED.value)} == {other}
    clock.advance(seconds=61)
    assert office.tick().claimed == 1, "after a pause one message probes the mailbox"


def test_a_persons_pause_holds_even_when_redis_forgot_it(office, clock):
    sender = office.mailbox(paused_until=START + timedelta(minutes=5))
    submitted(new_message(sender))
    assert office.tick().claimed == 0
    clock.advance(minutes=6)
    assert office.tick().claimed == 1


def test_what_is_not_due_stays(office, clock):
    sender = office.mailbox()
    submitted(new_message(sender, at=START + timedelta(minutes=1)))
    assert office.tick().claimed == 0
    clock.advance(minutes=1)
    assert office.tick().claimed == 1


def test_the_number_of_queued_ids_is_bounded_over_all_mailboxes(sqlite_database, redis_client, clock):
    office = Office(redis_client, clock, queued_at_most=30)
    for number in range(4):
        sender = office.mailbox(f"m{number}")
        submitted(*(new_message(sender) for _ in range(20)))
    assert office.tick().claimed == 30
    assert office.tick().claimed == 0


def test_all_ids_of_a_mailbox_are_in_one_job_and_jobs_are_cut_to_size(sqlite_database, redis_client, clock):
    office = Office(redis_client, clock, lanes=3, rounds=10)
    for number in range(5):
        sender = office.mailbox(f"m{number}")
        submitted(*(new_message(sender) for _ in range(20)))
    office.tick()
    senders_of_jobs = [{Message.get_by_id(m).sender for m in ids} for ids in office.jobs()]
    assert sorted(len(senders) for senders in senders_of_jobs) == [1, 2, 2]
    assert sum(len(senders) for senders in senders_of_jobs) == 5, "no mailbox is in two jobs"


def test_where_few_mailboxes_have_much_to_send_as_many_share_a_job_as_fill_its_lanes(
    sqlite_database, redis_client, clock
):
    office = Office(redis_client, clock, lanes=9, rounds=4)
    for number in range(4):
        sender = office.mailbox(f"m{number}", rate_limit_per_minute=100)
        submitted(*(new_message(sender) for _ in range(20)))
    assert office.tick().claimed == 80
    jobs = [Counter(Message.get_by_id(m).sender for m in ids) for ids in office.jobs()]
    assert [sorted(job.values()) for job in jobs] == [[12, 12, 12], [8, 8, 8, 12], [8]], "three at once, four rounds"


@pytest.mark.parametrize("rounds", [100, 1], ids=["one-job", "several"])
def test_what_a_pace_gives_out_is_the_same_in_several_jobs_as_in_one(sqlite_database, redis_client, clock, rounds):
    office = Office(redis_client, clock, pacing="even", rounds=rounds)
    sender = office.mailbox(rate_limit_per_minute=600)
    submitted(*(new_message(sender) for _ in range(700)))
    claimed = []
    for _ in range(3):
        claimed.append(office.tick().claimed)
        clock.advance(seconds=1)
    assert claimed == [12, 13, 12]


def test_no_mailbox_is_always_last_when_not_all_fit(sqlite_database, redis_client, clock):
    office = Office(redis_client, clock, queued_at_most=25)
    served = Counter()
    for number in range(3):
        sender = office.mailbox(f"m{number}")
        submitted(*(new_message(sender) for _ in range(30)))
    for _ in range(20):
        office.tick()
        queued = Message.select().where(Message.status == S.QUEUED.value)
        served.update(m.sender for m in queued)
        Message.update(status=S.SCHEDULED.value).where(Message.status == S.QUEUED.value).execute()
        office.redis.flushdb()
    assert len(served) == 3


def test_a_claim_remembers_its_job_and_is_left_alone_for_a_while(office):
    sender = office.mailbox()
    [message_id] = submitted(new_message(sender))
    office.tick()
    message = Message.get_by_id(message_id)
    [job_id] = office.redis.lrange("rq:queue:mail", 0, -1)
    job = MailJob.fetch(job_id.decode(), connection=office.redis)
    assert message.job_id == job.id
    assert message.lease_until == START + CLAIM_LEASE
    assert message.mailbox_key == "news@example.org"
    assert (job.func_name, job.args) == (SEND_JOB, [[message_id]])


def test_after_an_edit_of_the_address_what_is_being_sent_takes_room_where_it_is(office):
    sender = office.mailbox("news", address="new@example.org", rate_limit_per_minute=4)
    other = office.mailbox("other", address="former@example.org", rate_limit_per_minute=4)
    submitted(*(new_message(sender) for _ in range(6)), *(new_message(other) for _ in range(6)))
    for _ in range(3):
        message_in(S.SENDING, sender=sender, mailbox_key="former@example.org")
    office.tick()
    claimed = Counter(m.sender for m in Message.select().where(Message.status == S.QUEUED.value))
    assert claimed == {sender: 4, other: 1}


def test_what_cannot_be_pushed_goes_back_at_once(office, monkeypatch):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(3)))

    def refuse(*_args, **_kwargs):
        raise ConnectionError("no Redis")

    monkeypatch.setattr(office.queues, "push", refuse)
    with pytest.raises(ConnectionError):
        office.tick()
    assert statuses() == {S.SCHEDULED: 3}
    assert office.queues.last_tick() is None, "a dispatch that failed is no sign of life"
    monkeypatch.undo()
    assert office.tick().claimed == 3


def test_while_one_process_dispatches_another_leaves_it_alone(office):
    submitted(new_message(office.mailbox()))
    token = office.queues.begin_dispatch(30)
    assert office.tick().skipped
    office.queues.end_dispatch(token)
    assert office.tick().claimed == 1


def test_dispatchers_that_do_run_at_once_never_claim_a_message_twice(office):
    sender = office.mailbox(rate_limit_per_minute=1_000)
    ids = submitted(*(new_message(sender) for _ in range(200)))
    office.queues.begin_dispatch = lambda _seconds: "everyone"
    threads = [threading.Thread(target=office.tick) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handed_over = [message_id for job in office.jobs() for message_id in job]
    assert sorted(handed_over) == sorted(ids)


def test_with_a_limiter_that_cannot_answer_mail_is_claimed_in_bounds(office, monkeypatch):
    sender = office.mailbox()
    submitted(*(new_message(sender) for _ in range(150)))
    nobody = MailRateLimiter.from_url("redis://127.0.0.1:1/0")
    monkeypatch.setattr(office.limiter._server, "redis", nobody._server.redis)
    monkeypatch.setattr(office.limiter._server, "_connections", nobody._server._connections)
    assert office.tick().claimed == 100


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    waiting=st.lists(
        st.tuples(st.sampled_from(["one", "other", "third"]), st.sampled_from(list(Priority)), st.integers(1, 12)),
        max_size=60,
    ),
    sent=st.integers(0, 30),
    limit=st.integers(1, 30),
    reserve=st.integers(0, 5),
)
def test_whatever_waits_no_budget_is_exceeded_and_none_is_left_unused(
    sqlite_database, redis_client, clock, waiting, sent, limit, reserve
):
    redis_client.flushall()
    Message.delete().execute()
    SystemMailbox.delete().execute()
    office = Office(redis_client, clock, reserve_for_high=reserve)
    # Two of the three share an address: they share its budget too.
    addresses = {"one": "shared@example.org", "other": "shared@example.org", "third": "third@example.org"}
    for key, address in addresses.items():
        office.mailbox(key, address, rate_limit_per_minute=limit, rate_limit_recipients_per_day=60)
    limits = RateLimits(limit, 60)
    used = Counter()
    for _ in range(sent):
        if hasattr(answer := office.limiter.check_and_reserve("third@example.org", 1, limits), "id"):
            office.limiter.settle(answer)
            used["third@example.org"] += 1
    submitted(*(new_message(f"mailbox:{key}", to=to, priority=priority) for key, priority, to in waiting))
    office.tick()
    for address in set(addresses.values()):
        names = [f"mailbox:{key}" for key, its in addresses.items() if its == address]
        claimed = list(Message.select().where(Message.status == S.QUEUED.value, Message.sender.in_(names)))
        left = list(Message.select().where(Message.status == S.SCHEDULED.value, Message.sender.in_(names)))
        room = limit - used[address]
        recipients_left = 60 - used[address] - sum(m.recipient_count for m in claimed)
        assert len(claimed) <= room
        assert recipients_left >= 0
        assert sum(m.priority != Priority.HIGH for m in claimed) <= max(0, room - reserve)
        if left and len(claimed) < room - reserve:
            assert min(m.recipient_count for m in left) <= 12
            assert max(m.recipient_count for m in left) > recipients_left, "only a message too large for the day waits"


@pytest.mark.parametrize("sender", ["tenant:Acme", "mailbox:Gone"])
def test_a_sender_whose_key_has_capitals_is_dispatched_and_its_pause_is_kept(office, clock, sender):
    now = clock()
    TenantMailSetting.create(key="Acme", provider=Provider.SENDGRID, created_on=now, changed_on=now)
    submitted(new_message(sender))
    office.limiter.pause(sender, 60_000, "SendGrid refuses the sender")
    assert office.tick().claimed == 0
    clock.advance(seconds=61)
    assert office.tick().claimed == 1


def test_what_was_left_waiting_is_told_once_a_minute_for_every_mailbox_with_its_reason(office, clock):
    full, day, paused, fine = (office.mailbox(key) for key in ("full", "day", "paused", "fine"))
    SystemMailbox.update(rate_limit_recipients_per_day=4).where(SystemMailbox.key == "day").execute()
    office.senders.forget()
    submitted(*(new_message(sender) for sender in (full, day, paused) for _ in range(30)), new_message(fine))
    office.limiter.pause("paused@example.org", 90_000, "429")
    with capture_logs() as logs:
        office.tick()
        office.tick()
    told = {one["mailboxKey"]: one for one in logs if one["event"] == "mail.dispatch.waiting"}
    assert len([one for one in logs if one["event"] == "mail.dispatch.waiting"]) == 3
    assert told["paused@example.org"]["retryAfterMs"] - 90_000 in {0, 1}, "rounded up to a millisecond"
    told["paused@example.org"]["retryAfterMs"] = 90_000
    assert {key: (one["reason"], one["waiting"], one["retryAfterMs"]) for key, one in told.items()} == {
        "full@example.org": ("minute", 5, 60_000),
        "day@example.org": ("day", 26, None),
        "paused@example.org": ("paused", 30, 90_000),
    }
    assert {one["log_level"] for one in told.values()} == {"info"}
    counted = {s.label: s.count for s in office.metrics.samples() if s.event == "left-waiting"}
    assert counted == {"minute": 5, "day": 26, "paused": 30}
    untouched = Message.select().where(Message.status == S.SCHEDULED.value)
    assert {(m.deferrals, m.waiting_for) for m in untouched} == {(0, None)}
    clock.advance(seconds=60)
    with capture_logs() as logs:
        office.tick()
    assert {one["mailboxKey"] for one in logs} == {"full@example.org", "day@example.org", "paused@example.org"}


def test_mail_that_waits_for_its_turn_in_the_minute_is_told_so(sqlite_database, redis_client, clock):
    office = Office(redis_client, clock, pacing="even")
    submitted(*(new_message(office.mailbox()) for _ in range(1)), *(new_message("mailbox:news") for _ in range(59)))
    with capture_logs() as logs:
        office.tick()
    [told] = [one for one in logs if one["event"] == "mail.dispatch.waiting"]
    assert (told["reason"], told["waiting"]) == ("pacing", 59)
    assert 1920 <= told["retryAfterMs"] <= 1921
