"""What is stored when messages are submitted, and that moments keep their meaning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import peewee
import pytest

from rqmail.errors import InvalidInputError
from rqmail.models import backlog
from rqmail.models.base import to_column
from rqmail.models.contents import load_contents
from rqmail.models.ledger import sends_since
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, MessageContent, MessageStatus, NewRecipient, Recipient, RecipientKind
from support.clock import START
from support.messages import ATTEMPT, message_in, new_message, reloaded, submitted
from support.statements import recorded

S = MessageStatus
NAIVE = datetime(2026, 3, 10, 9, 30)  # noqa: DTZ001 - what must be refused
MINUTE = timedelta(minutes=1)


def test_a_submitted_message_waits_for_the_moment_it_was_asked_for(database):
    at, until = START + MINUTE, START + 2 * MINUTE
    [message_id] = Message.submit([new_message(to=3, at=at, expires=until, subject="Zoë & co")], START)
    message = reloaded(message_id)
    assert (message.status, message.subject, message.recipient_count) == (S.SCHEDULED, "Zoë & co", 3)
    assert (message.created_on, message.requested_on, message.scheduled_on) == (START, at, at)
    assert (message.expires_on, message.attempts, message.deferrals) == (until, 0, 0)
    assert message.history == []


def test_a_message_without_a_moment_is_due_when_it_is_submitted(database):
    assert reloaded(submitted()[0]).scheduled_on == START


def test_postgresql_is_handed_many_messages_as_one_value_a_table(postgresql_database):
    odd = 'Zoë "&" co\\n\n\u2028{}%s'
    batch = [new_message(to=3, subject=odd, html=f"<p>{odd}</p>", text=None) for _ in range(3_000)]
    with recorded() as statements:
        ids = Message.submit(batch, START)
    [(sql, parameters)] = statements
    assert (sql.count("INSERT INTO"), len(parameters)) == (3, 3)
    contents = load_contents(ids[:1])[ids[0]]
    assert (reloaded(ids[-1]).subject, contents.html, contents.text) == (odd, f"<p>{odd}</p>", None)
    assert len(contents.recipients) == 3


def test_ids_are_answered_in_order_and_sort_by_the_time_they_were_made(database):
    batch = [new_message(subject=str(number)) for number in range(50)]
    ids = Message.submit(batch, START)
    assert ids == [new.id for new in batch] == sorted(ids)
    assert [reloaded(message_id).subject for message_id in ids] == [str(number) for number in range(50)]


def test_a_batch_that_cannot_be_stored_whole_is_not_stored_at_all(database):
    good, twice = new_message(), new_message()
    with pytest.raises(peewee.IntegrityError):
        Message.submit([good, twice, twice], START)
    assert (Message.select().count(), MessageContent.select().count(), Recipient.select().count()) == (0, 0, 0)


def test_nothing_is_stored_of_an_empty_batch(database):
    assert Message.submit([], START) == []


def test_more_messages_than_one_statement_can_carry_are_stored_whole(database):
    ids = Message.submit([new_message(to=3) for _ in range(3_000)], START)
    assert Message.select().count() == len(set(ids)) == 3_000
    assert Recipient.select().count() == 9_000


def test_contents_come_back_as_they_went_in_for_many_at_once(database):
    people = (
        NewRecipient(RecipientKind.TO, "zoe@example.org", "Zoë Krüger-Ðorđević"),
        NewRecipient(RecipientKind.CC, "cc@example.org"),
        NewRecipient(RecipientKind.BCC, "zoe@example.org", "'; DROP TABLE message; --"),
    )
    one = new_message(text="tékst", html="<p>&amp; 😀</p>")
    one = type(one)(sender=one.sender, subject="s", recipients=people, text=one.text, html=one.html)
    two = new_message(text=None, html=None, to=0)
    Message.submit([one, two], START)
    found = load_contents([two.id, one.id, "unknown"])
    assert set(found) == {one.id, two.id}
    assert (found[one.id].text, found[one.id].html) == ("tékst", "<p>&amp; 😀</p>")
    assert tuple(found[one.id].recipients) == people
    assert (found[two.id].text, found[two.id].html, found[two.id].recipients) == (None, None, [])
    assert load_contents([]) == {}


def test_content_and_recipients_go_when_their_message_goes(database):
    [message_id] = submitted(new_message(to=2))
    reloaded(message_id).delete_instance()
    assert (MessageContent.select().count(), Recipient.select().count()) == (0, 0)


# --- moments -------------------------------------------------------------------------------------------------------

MOMENTS = [
    datetime(2026, 3, 10, 9, 30, tzinfo=UTC),
    datetime(2026, 3, 10, 9, 30, 20, 1, tzinfo=UTC),
    datetime(2026, 3, 10, 9, 30, 20, 999999, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Amsterdam"), fold=1),
    datetime(2026, 3, 10, 23, 59, 59, 5, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
]


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_a_moment_keeps_its_microseconds_and_its_instant_and_comes_back_in_utc(database, moment):
    message = reloaded(submitted(new_message(at=moment))[0])
    assert message.scheduled_on == moment.astimezone(UTC)
    assert message.scheduled_on.utcoffset() == timedelta(0)
    assert message.scheduled_on.microsecond == moment.microsecond


def test_moments_are_compared_as_instants_whatever_their_zone(database):
    ahead, behind = timezone(timedelta(hours=5)), timezone(timedelta(hours=-5))
    due, just_due, not_due, _ = submitted(
        new_message(at=(START - MINUTE).astimezone(ahead)),
        new_message(at=START.astimezone(behind)),
        new_message(at=(START + timedelta.resolution).astimezone(behind)),
        new_message(at=(START + MINUTE).astimezone(ahead)),
    )
    for now in (START, START.astimezone(ahead), START.astimezone(behind)):
        claims = Message.claim_due(
            "mailbox:news", 1, now=now, calls=9, recipients=None, job_id="j", lease=timedelta(hours=1)
        )
        assert [claim.id for claim in claims] == [due, just_due]
        Message.put_back([due, just_due])
    assert reloaded(not_due).status == S.SCHEDULED


def test_stored_text_sorts_as_time_does():
    moments = sorted(MOMENTS, key=lambda moment: moment.astimezone(UTC))
    assert [to_column(moment) for moment in moments] == sorted(to_column(moment) for moment in moments)


REFUSES = {
    "submit now": lambda m: Message.submit([new_message()], NAIVE),
    "submit requested_on": lambda m: Message.submit([new_message(at=NAIVE)], START),
    "submit expires_on": lambda m: Message.submit([new_message(expires=NAIVE)], START),
    "claim_due": lambda m: Message.claim_due(
        m.sender, 1, now=NAIVE, calls=1, recipients=None, job_id="j", lease=MINUTE
    ),
    "start_sending now": lambda m: Message.start_sending([m.id], claim="c", now=NAIVE, lease_until=START),
    "start_sending lease": lambda m: Message.start_sending([m.id], claim="c", now=START, lease_until=NAIVE),
    "mark_sent": lambda m: m.mark_sent(NAIVE, ATTEMPT),
    "mark_unknown": lambda m: m.mark_unknown(ATTEMPT, look_at=NAIVE, error="e"),
    "retry_at": lambda m: m.retry_at(NAIVE, error="e", attempt=ATTEMPT),
    "defer": lambda m: m.defer(NAIVE, waiting_for="day"),
    "lose_lease": lambda m: m.lose_lease(START, look_at=NAIVE),
    "look_again_at": lambda m: m.look_again_at(NAIVE),
    "confirm_sent": lambda m: m.confirm_sent(NAIVE, "n"),
    "send_again": lambda m: m.send_again(NAIVE, "n"),
    "requeue": lambda m: Message.requeue([m.id], NAIVE),
    "bring_forward": lambda m: Message.bring_forward([m.id], NAIVE),
    "give_up_expired": lambda m: Message.give_up_expired(NAIVE),
    "leave_queued": lambda m: Message.leave_queued([m.id], NAIVE),
    "count_final": lambda m: Message.count_final(NAIVE),
    "delete_final": lambda m: Message.delete_final(NAIVE, limit=1),
    "due": lambda m: backlog.due(NAIVE),
    "overdue": lambda m: backlog.overdue(S.QUEUED, NAIVE, limit=1),
    "sends_since": lambda m: sends_since("m", NAIVE),
    "mailbox": lambda m: SystemMailbox.create(key="k", address="a", created_on=NAIVE, changed_on=START),
    "tenant": lambda m: TenantMailSetting.create(key="k", created_on=START, changed_on=NAIVE),
}


def test_a_moment_without_a_time_zone_is_refused_everywhere_and_nothing_is_written(sqlite_database):
    for name, use in REFUSES.items():
        Message.delete().execute()
        message = message_in(S.SENDING)
        with pytest.raises(InvalidInputError, match="time zone"):
            pytest.fail(f"{name} took a naive moment: {use(message)}")
        assert Message.select().count() == 1, name
        assert (SystemMailbox.select().count(), TenantMailSetting.select().count()) == (0, 0), name
        assert reloaded(message).status == S.SENDING, name
