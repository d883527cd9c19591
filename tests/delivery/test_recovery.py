"""What was lost on the way is found by its lease, and brought to where the truth about it can be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
import structlog

from rqmail.delivery.recovery import (
    ACCESS_GONE_NOTE,
    NO_COPY_NOTE,
    NOT_READABLE_NOTE,
    NOT_WRITABLE_NOTE,
    Recovery,
    RecoveryReport,
)
from rqmail.delivery.senders import Sender
from rqmail.errors import (
    MailAuthError,
    MailboxNotReadableError,
    MailboxNotWritableError,
    MailError,
    MailThrottledError,
    NotFoundError,
)
from rqmail.mailers.graph.mailbox import Sighting
from rqmail.models.bounces import note_bounce
from rqmail.models.deliveries import Delivery, note_delivery
from rqmail.models.message import Message, MessageContent, MessageStatus, Route
from rqmail.queues import MailQueues
from support.clock import START
from support.messages import MAILBOX, message_in, reloaded, row

S = MessageStatus
GRACE = timedelta(minutes=10)
OVER = {"lease_until": START - timedelta(seconds=1)}


@dataclass
class Mailboxes:
    """Stands for every sender's mailbox: what lies in them, and why one cannot be looked into."""

    sent: set[str] = field(default_factory=set)
    trouble: dict[str, Exception] = field(default_factory=dict)
    gone: set[str | None] = field(default_factory=set)
    #: Messages whose draft, made to upload to, lies in Drafts; ``removal`` is what comes of removing it.
    uploads: set[str] = field(default_factory=set)
    removal: bool | Exception = True
    removed: list[str] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    on_look: object = None

    def find(self, name: str) -> Sender:
        if name == "mailbox:gone":
            raise NotFoundError("mailbox", "gone")
        return Sender(name, MAILBOX, None, None)

    def mailbox_of(self, route: Route) -> _Mailbox | None:
        return None if route.app_id in self.gone else _Mailbox(self, route.mailbox_key)


@dataclass
class _Mailbox:
    all: Mailboxes
    name: str

    def find_sent(self, message_id: str, since: datetime) -> Sighting | None:
        self.all.looks.append(message_id)
        if self.all.on_look is not None:
            self.all.on_look(message_id)
        if self.name in self.all.trouble:
            raise self.all.trouble[self.name]
        if message_id in self.all.uploads and message_id not in self.all.sent:
            return Sighting("drafts", "AAMk2", START, is_upload=True)
        return Sighting("sentitems", "AAMk1", START) if message_id in self.all.sent else None

    def remove_uploads(self, message_id: str) -> bool:
        self.all.removed.append(message_id)
        if isinstance(self.all.removal, Exception):
            raise self.all.removal
        self.all.uploads.discard(message_id)
        return self.all.removal


class Seconds:
    """A monotonic clock that moves only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def mailboxes() -> Mailboxes:
    return Mailboxes()


@pytest.fixture
def queues(redis_client, clock) -> MailQueues:
    return MailQueues(redis_client, clock, poll_seconds=1, job_timeout_seconds=60)


@pytest.fixture
def recovery_for(mailboxes, queues, clock):
    def make(policy="hold", seconds=None) -> Recovery:
        return Recovery(
            mailboxes,
            queues,
            clock,
            unknown_policy=policy,
            grace=GRACE,
            max_attempts=3,
            monotonic=seconds or Seconds(),
        )

    return make


@pytest.fixture
def recovery(recovery_for) -> Recovery:
    return recovery_for()


def unknown(**fields) -> Message:
    """A message whose send was unclear, due to be looked for, and old enough to be decided about."""
    return message_in(S.UNKNOWN, **{**OVER, "attempted_on": START - GRACE, "attempts": 1, **fields})


def put_back(recovery: Recovery) -> int:
    return recovery.run().put_back


# --- jobs that vanished --------------------------------------------------------------------------------------------


def test_a_queued_message_whose_job_is_gone_is_put_back_as_if_never_claimed(database, recovery):
    message = message_in(S.QUEUED, **OVER)
    assert put_back(recovery) == 1
    after = reloaded(message)
    assert (after.status, after.job_id, after.lease_until) == (S.SCHEDULED, None, None)
    assert (after.attempts, after.deferrals, after.scheduled_on) == (0, 0, message.scheduled_on)


def test_a_claim_just_made_is_left_to_its_dispatcher(database, recovery):
    message = message_in(S.QUEUED, lease_until=START + timedelta(seconds=1))
    assert put_back(recovery) == 0
    assert reloaded(message).status == S.QUEUED


def test_a_message_whose_job_still_waits_in_its_queue_stays_there(database, recovery, queues):
    message = message_in(S.QUEUED, **OVER)
    queues.push([("job-1", [message.id])], high=False)
    assert put_back(recovery) == 0
    assert reloaded(message).lease_until > START


@pytest.mark.parametrize(("age", "back"), [(5, 0), (29, 0), (31, 1)])
def test_a_started_job_keeps_its_messages_only_while_it_may_still_begin_them(
    database, recovery, queues, redis_client, age, back
):
    message_in(S.QUEUED, **OVER)
    started = (START - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    redis_client.hset("rq:job:job-1", mapping={"status": "started", "started_at": started})
    assert put_back(recovery) == back


@pytest.mark.parametrize("status", ["finished", "failed", "queued", "canceled"])
def test_a_job_that_is_over_or_was_popped_by_a_worker_that_died_keeps_nothing(database, recovery, redis_client, status):
    message_in(S.QUEUED, **OVER)
    redis_client.hset("rq:job:job-1", mapping={"status": status, "started_at": "2026-03-10T09:30:20.000000Z"})
    assert put_back(recovery) == 1


def test_after_a_flush_everything_queued_comes_back(database, recovery, queues, redis_client):
    messages = [message_in(S.QUEUED, job_id=f"job-{n}", **OVER) for n in range(5)]
    queues.push([(m.job_id, [m.id]) for m in messages], high=True)
    redis_client.flushall()
    assert put_back(recovery) == 5


def test_a_message_claimed_anew_meanwhile_is_not_taken_from_its_new_job(database, recovery, queues, monkeypatch):
    message = message_in(S.QUEUED, **OVER)
    alive = queues.alive

    def claimed_meanwhile(job_ids):
        answer = alive(job_ids)
        Message.update(job_id="job-2").where(Message.id == message.id).execute()
        return answer

    monkeypatch.setattr(queues, "alive", claimed_meanwhile)
    assert put_back(recovery) == 0
    assert (reloaded(message).status, reloaded(message).job_id) == (S.QUEUED, "job-2")


# --- workers that were lost ----------------------------------------------------------------------------------------


def test_a_message_whose_worker_is_gone_is_unknown_with_the_evidence_and_looked_for_soon(database, recovery):
    message = message_in(S.SENDING, **OVER)
    assert recovery.run().worker_lost == 1
    after = reloaded(message)
    assert (after.status, after.attempts) == (S.UNKNOWN, 1)
    assert START < after.lease_until < START + timedelta(minutes=1)
    assert "worker stopped" in after.last_error
    assert [entry["outcome"] for entry in after.history] == ["worker-lost"]


def test_a_message_whose_lease_runs_is_left_to_its_worker(database, recovery):
    message = message_in(S.SENDING)
    before = row(message)
    assert recovery.run() == RecoveryReport()
    assert row(message) == before


@pytest.mark.parametrize("status", [S.QUEUED, S.SENDING, S.UNKNOWN])
def test_a_row_that_lost_its_lease_by_hand_is_found_all_the_same(database, recovery, mailboxes, status):
    message = message_in(status, lease_until=None, claim=None, job_id=None, attempted_on=None)
    mailboxes.sent.add(message.id)
    recovery.run()
    assert reloaded(message).status != status


# --- what nobody knew ----------------------------------------------------------------------------------------------


def test_a_mail_found_in_the_mailbox_is_sent_from_when_it_was_attempted(database, recovery, mailboxes):
    message = unknown()
    mailboxes.sent.add(message.id)
    assert recovery.run().found_sent == 1
    after = reloaded(message)
    assert (after.status, after.sent_on, after.last_error) == (S.SENT, message.attempted_on, None)
    assert after.history[-1]["detail"] == "Found in sentitems."


def note_report(message_id: str, probable: bool) -> None:
    note_bounce(message_id, "jan@x.nl", code="5.1.1", detail="no", at=START, probable=probable)


def note_trace(message_id: str, probable: bool) -> None:
    note_delivery(message_id, Delivery("jan@x.nl", "pending", START, START, probable))


@pytest.mark.parametrize(
    ("note", "probable", "status"),
    [
        (note_report, False, S.SENT),
        (note_report, True, S.UNKNOWN),
        (note_trace, False, S.SENT),
        (note_trace, True, S.UNKNOWN),
    ],
)
def test_what_was_read_before_a_mail_became_unknown_proves_its_acceptance_unless_it_is_only_probable(
    database, recovery, mailboxes, note, probable, status
):
    message = unknown()
    mailboxes.trouble[message.mailbox_key] = MailboxNotReadableError("Mail.Read is missing", status=403)
    note(message.id, probable)
    recovery.run()
    assert reloaded(message.id).status == status
    assert bool(mailboxes.looks) is probable


def test_a_mail_absent_for_longer_than_the_grace_period_is_sent_again(database, recovery):
    message = unknown()
    assert recovery.run().sent_again == 1
    after = reloaded(message)
    assert (after.status, after.scheduled_on, after.attempts) == (S.SCHEDULED, START, 1)


def test_absence_before_the_grace_period_is_over_proves_nothing(database, recovery, clock):
    message = unknown(attempted_on=START - GRACE + timedelta(seconds=1))
    assert recovery.run().still_unknown == 1
    assert reloaded(message).status == S.UNKNOWN
    clock.advance(minutes=1)
    assert recovery.run().sent_again == 1


def test_the_grace_counts_from_when_the_worker_was_found_missing_not_from_when_it_began(database, recovery, clock):
    """A machine that slept in the middle of a send goes on with it when it wakes."""
    message = message_in(S.SENDING, attempted_on=START - timedelta(hours=3), **OVER)
    assert recovery.run().worker_lost == 1
    for _ in range(3):
        clock.advance(minutes=3)
        assert recovery.run().sent_again == 0
    clock.advance(minutes=3)
    assert recovery.run().sent_again == 1
    assert reloaded(message).status == S.SCHEDULED


def test_a_history_nobody_can_read_leaves_the_grace_counting_from_the_attempt(database, recovery):
    unknown(attempt_log='{"at": "soon", "duration_ms": 5}\n')
    unknown(attempt_log='{"at": "2026-03-10T09:30:20", "duration_ms": 5}\n')
    unknown(attempt_log='{"at": 7}\n')
    assert recovery.run().sent_again == 3


def test_absent_with_its_attempts_used_up_it_ends_in_error(database, recovery):
    message = unknown(attempts=3, last_error="No answer within 30 s")
    assert recovery.run().gave_up == 1
    after = reloaded(message)
    assert after.status == S.ERROR
    assert after.last_error == "Gave up after 3 attempts; the last one: No answer within 30 s"


def test_a_decision_made_about_an_earlier_send_does_not_touch_a_newer_one(database, recovery, mailboxes):
    message = unknown(claim="first")

    def sent_again_meanwhile(_message_id):
        Message.update(claim="second").where(Message.id == message.id).execute()

    mailboxes.on_look = sent_again_meanwhile
    report = recovery.run()
    assert (report.sent_again, report.found_sent) == (0, 0)
    assert reloaded(message).status == S.UNKNOWN


def test_an_acceptance_reported_while_it_was_looked_for_stands(database, recovery, mailboxes):
    from support.messages import ATTEMPT

    message = unknown()
    mailboxes.on_look = lambda _id: message.mark_sent(START, ATTEMPT)
    assert recovery.run().sent_again == 0
    assert reloaded(message).status == S.SENT


def test_two_recoveries_at_once_send_again_once(database, recovery_for, mailboxes):
    unknown()
    other = recovery_for()
    reports = []

    def beside(_message_id):
        mailboxes.on_look = None
        reports.append(other.run())

    mailboxes.on_look = beside
    reports.append(recovery_for().run())
    assert [report.sent_again for report in reports] == [1, 0]


# --- drafts that a lost upload left ---


def test_a_draft_made_to_upload_to_is_removed_and_only_then_the_mail_is_sent_again(database, recovery, mailboxes):
    message = unknown()
    mailboxes.uploads.add(message.id)
    assert recovery.run().sent_again == 1
    assert mailboxes.removed == [message.id]
    assert reloaded(message).status == S.SCHEDULED


def test_a_removed_draft_does_not_shorten_the_grace_period(database, recovery, mailboxes, clock):
    message = unknown(attempted_on=START - GRACE + timedelta(minutes=1))
    mailboxes.uploads.add(message.id)
    assert recovery.run().still_unknown == 1
    assert (mailboxes.removed, reloaded(message).status) == ([message.id], S.UNKNOWN)
    clock.advance(minutes=2)
    assert recovery.run().sent_again == 1


def test_a_draft_that_left_before_it_was_removed_may_have_been_sent(database, recovery, mailboxes, clock):
    message = unknown()
    mailboxes.uploads.add(message.id)
    mailboxes.removal = False
    assert recovery.run().still_unknown == 1
    for _ in range(3):
        clock.advance(minutes=3)
        assert recovery.run().sent_again == 0
    mailboxes.sent.add(message.id)
    clock.advance(minutes=2)
    assert recovery.run().found_sent == 1
    assert reloaded(message).status == S.SENT


def test_a_draft_that_may_not_be_removed_leaves_the_mail_to_a_person(database, recovery, mailboxes):
    message = unknown(last_error="No answer within 30 s.")
    mailboxes.uploads.add(message.id)
    mailboxes.removal = MailboxNotWritableError("no", status=403)
    assert recovery.run().still_unknown == 1
    after = reloaded(message)
    assert (after.status, after.last_error) == (S.UNKNOWN, f"No answer within 30 s. {NOT_WRITABLE_NOTE}")


# --- mailboxes that cannot be looked into --------------------------------------------------------------------------


def forbid(mailboxes: Mailboxes) -> None:
    mailboxes.trouble[MAILBOX] = MailboxNotReadableError("we may not read this mailbox", status=403)


@pytest.mark.parametrize(("policy", "status"), [("hold", S.UNKNOWN), ("resend", S.SCHEDULED), ("assume-sent", S.SENT)])
@pytest.mark.parametrize("why", ["forbidden", "no mailbox"])
def test_where_nobody_may_look_the_policy_decides(database, recovery_for, mailboxes, policy, status, why):
    message = unknown(last_error="No answer within 30 s")
    match why:
        case "forbidden":
            forbid(mailboxes)
        case "no mailbox":
            Message.update(provider="sendgrid").where(Message.id == message.id).execute()
    recovery_for(policy).run()
    assert reloaded(message).status == status
    assert mailboxes.looks == ([message.id] if why == "forbidden" else [])


@pytest.mark.parametrize("policy", ["hold", "resend", "assume-sent"])
@pytest.mark.parametrize("attempts", [1, 3])
def test_where_the_access_it_went_with_is_gone_it_is_held_whatever_the_policy(
    database, recovery_for, mailboxes, policy, attempts, clock
):
    message = unknown(app_id="former-app", attempts=attempts, last_error="No answer within 30 s.")
    mailboxes.gone.add("former-app")
    for _ in range(3):
        assert recovery_for(policy).run().still_unknown == 1
        clock.advance(hours=2)
    after = reloaded(message)
    assert (after.status, after.last_error) == (S.UNKNOWN, f"No answer within 30 s. {ACCESS_GONE_NOTE}")
    mailboxes.gone.clear()
    mailboxes.sent.add(message.id)
    assert recovery_for(policy).run().found_sent == 1


def test_a_message_whose_sender_is_gone_is_looked_for_where_it_went(database, recovery, mailboxes):
    message = unknown(sender="mailbox:gone")
    mailboxes.sent.add(message.id)
    assert recovery.run().found_sent == 1


def test_a_message_sent_before_routes_were_kept_is_looked_for_only_in_the_mailbox_it_went_through(
    database, recovery, mailboxes
):
    same, other = unknown(provider=None), unknown(provider=None, mailbox_key="former@contoso.example")
    gone = unknown(provider=None, sender="mailbox:gone")
    assert recovery.run().sent_again == 1
    assert [reloaded(message).status for message in (same, other, gone)] == [S.SCHEDULED, S.UNKNOWN, S.UNKNOWN]


@pytest.mark.parametrize("policy", ["hold", "resend", "assume-sent"])
def test_no_policy_acts_before_the_grace_period_is_over(database, recovery_for, mailboxes, policy):
    forbid(mailboxes)
    message = unknown(attempted_on=START)
    recovery_for(policy).run()
    assert reloaded(message).status == S.UNKNOWN


def test_sending_again_without_knowing_ends_when_the_attempts_are_used_up(database, recovery_for, mailboxes):
    forbid(mailboxes)
    message = unknown(attempts=3)
    recovery_for("resend").run()
    assert reloaded(message).status == S.UNKNOWN


def test_held_messages_keep_their_evidence_and_the_note_is_said_once(database, recovery, mailboxes, clock):
    forbid(mailboxes)
    messages = [unknown(last_error="No answer within 30 s") for _ in range(3)]
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            recovery.run()
            clock.advance(hours=2)
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["mail.recovery.notReadable"]
    for message in messages:
        assert reloaded(message).last_error == f"No answer within 30 s {NOT_READABLE_NOTE}"


def test_a_mailbox_that_may_not_be_read_is_asked_once_a_pass(database, recovery, mailboxes):
    forbid(mailboxes)
    for _ in range(4):
        unknown()
    recovery.run()
    assert len(mailboxes.looks) == 1


@pytest.mark.parametrize(
    "problem", [MailThrottledError("busy", status=429), MailAuthError("no token"), MailError("whatever")]
)
def test_what_keeps_us_from_looking_now_says_nothing_about_the_message(database, recovery, mailboxes, problem):
    message = unknown()
    mailboxes.trouble[MAILBOX] = problem
    assert recovery.run().still_unknown == 1
    assert reloaded(message).status == S.UNKNOWN
    assert reloaded(message).lease_until > START


def test_one_broken_mailbox_keeps_none_of_the_others_waiting(database, recovery, mailboxes):
    mailboxes.trouble[MAILBOX] = MailThrottledError("busy", status=429)
    broken = [unknown() for _ in range(3)]
    fine = unknown(mailbox_key="fine@contoso.example")
    mailboxes.sent.add(fine.id)
    assert recovery.run().found_sent == 1
    assert len(mailboxes.looks) == 2  # one try for the three, one for the other
    assert all(reloaded(message).lease_until > START for message in broken)


def test_one_message_nobody_can_make_sense_of_is_set_aside(database, recovery, mailboxes):
    odd, plain = unknown(), unknown()
    mailboxes.sent.add(plain.id)

    def trip(message_id):
        if message_id == odd.id:
            raise RuntimeError("what is this?")

    mailboxes.on_look = trip
    with structlog.testing.capture_logs() as logs:
        assert recovery.run().found_sent == 1
    assert [entry["messageUuid"] for entry in logs if entry["event"] == "mail.recovery.failed"] == [odd.id]
    assert reloaded(odd).status == S.UNKNOWN


def test_a_pass_begins_no_look_when_its_time_is_over(database, recovery_for, mailboxes):
    seconds = Seconds()
    for _ in range(5):
        unknown()

    def slow(_message_id):
        seconds.now += 8

    mailboxes.on_look = slow
    assert recovery_for(seconds=seconds).run().sent_again == 2


# --- what came too late --------------------------------------------------------------------------------------------


def test_a_waiting_message_past_its_time_expires_and_one_being_sent_does_not(database, recovery):
    waiting = message_in(S.SCHEDULED, expires_on=START)
    sending = message_in(S.SENDING, expires_on=START)
    in_time = message_in(S.SCHEDULED, expires_on=START + timedelta(seconds=1))
    assert recovery.run().expired == 1
    statuses = [reloaded(message).status for message in (waiting, sending, in_time)]
    assert statuses == [S.EXPIRED, S.SENDING, S.SCHEDULED]


def test_a_pass_that_did_something_says_so_in_one_line(database, recovery):
    message_in(S.QUEUED, **OVER)
    message_in(S.SENDING, **OVER)
    with structlog.testing.capture_logs() as logs:
        recovery.run()
        recovery.run()
    [entry] = [entry for entry in logs if entry["event"] == "mail.recovery.pass"]
    assert (entry["put_back"], entry["worker_lost"]) == (1, 1)


# --- attempts of which no copy was kept ----------------------------------------------------------------------------


def test_an_attempt_without_a_copy_in_sent_items_is_never_sent_again_because_it_is_not_there(database, recovery):
    message = unknown(provider="microsoft-graph", mailbox_key=MAILBOX, copied=False, attempted_on=START - 9 * GRACE)
    assert recovery.run().sent_again == 0
    after = reloaded(message)
    assert after.status == S.UNKNOWN
    assert NO_COPY_NOTE in after.last_error


@pytest.mark.parametrize(("policy", "ends"), [("resend", S.SCHEDULED), ("assume-sent", S.SENT)])
def test_an_attempt_without_a_copy_is_settled_as_the_policy_says(database, recovery_for, policy, ends):
    message = unknown(provider="microsoft-graph", mailbox_key=MAILBOX, copied=False, attempted_on=START - 9 * GRACE)
    recovery_for(policy).run()
    assert reloaded(message).status == ends


def test_an_attempt_without_a_copy_that_is_seen_in_the_mailbox_all_the_same_is_sent(database, recovery, mailboxes):
    message = unknown(provider="microsoft-graph", mailbox_key=MAILBOX, copied=False)
    mailboxes.sent.add(message.id)
    recovery.run()
    assert reloaded(message).status == S.SENT


def test_a_mail_in_mime_form_is_looked_for_by_its_header_as_its_draft_has_no_other_mark_at_first(
    database, recovery, mailboxes, monkeypatch
):
    looked = []
    monkeypatch.setattr(mailboxes, "mailbox_of", lambda route: looked.append(route.marked) or _Mailbox(mailboxes, "x"))
    raw, plain = unknown(), unknown()
    MessageContent.update(extras='{"raw": true}').where(MessageContent.message == raw.id).execute()
    recovery.run()
    assert sorted(looked) == [False, True]
    assert {message.id for message in (raw, plain)} == set(mailboxes.looks)


def test_what_waited_in_a_restored_backup_is_looked_up_and_sent_again_only_where_it_is_not_there(
    database, clock, recovery, mailboxes
):
    waited, queued, later = message_in(S.SCHEDULED), message_in(S.QUEUED), message_in(S.SCHEDULED)
    next_week = START + timedelta(days=7)
    Message.update(scheduled_on=next_week).where(Message.id == later.id).execute()
    mailboxes.sent = {waited.id}
    route = mailboxes.find("mailbox:news").route
    moved = Message.doubt([waited.id, queued.id, later.id], START, clock(), "ops", route)
    assert len(moved) == 3

    assert recovery.run() == RecoveryReport(found_sent=1, still_unknown=2)
    clock.advance(seconds=GRACE.total_seconds() + 60)
    assert recovery.run() == RecoveryReport(sent_again=2)
    assert reloaded(waited).status == S.SENT
    assert (reloaded(queued).status, reloaded(queued).scheduled_on) == (S.SCHEDULED, clock())
    assert (reloaded(later).status, reloaded(later).scheduled_on) == (S.SCHEDULED, next_week)
