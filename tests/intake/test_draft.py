"""What an application hands in becomes a message that waits, or an error that names the field."""

from datetime import UTC, datetime, timedelta

import pytest

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import Draft, Intake, check
from rqmail.intake.recipients import MAX_RECIPIENTS
from rqmail.models.contents import load_contents
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, Priority, RecipientKind
from support.clock import START

GOOD = {"sender": "mailbox:news", "subject": "Hallo", "to": "jan@voorbeeld.nl", "text": "Dag Jan"}


@pytest.fixture
def nudges():
    return []


@pytest.fixture
def intake(database, clock, nudges):
    SystemMailbox.create(key="news", address="news@voorbeeld.nl", created_on=clock(), changed_on=clock())
    return Intake(clock, lambda: nudges.append(1))


def test_a_good_message_waits_with_all_that_was_handed_in(intake, clock):
    at = clock() + timedelta(hours=2)
    message_id = intake.submit(
        Draft(
            "mailbox:news",
            "Één bericht",
            to="Jörg Müller <joerg@beispiel.de>; a.b@voorbeeld.nl",
            cc=["c@voorbeeld.nl"],
            bcc='"Jansen, Jan" <d@voorbeeld.nl>',
            html="<p>ü</p>",
            at=at,
            expires=(at + timedelta(days=1)).isoformat(),
            priority="low",
        )
    )
    row = Message.get_by_id(message_id)
    assert (row.status, row.sender, row.subject, row.recipient_count) == ("SCHEDULED", "mailbox:news", "Één bericht", 4)
    assert (row.requested_on, row.scheduled_on, row.expires_on) == (at, at, at + timedelta(days=1))
    assert row.priority == Priority.LOW
    contents = load_contents([message_id])[message_id]
    assert (contents.text, contents.html) == (None, "<p>ü</p>")
    assert [(r.kind, r.address, r.name) for r in contents.recipients] == [
        (RecipientKind.TO, "joerg@beispiel.de", "Jörg Müller"),
        (RecipientKind.TO, "a.b@voorbeeld.nl", ""),
        (RecipientKind.CC, "c@voorbeeld.nl", ""),
        (RecipientKind.BCC, "d@voorbeeld.nl", "Jansen, Jan"),
    ]


BAD = {
    "no recipients": ({"to": ""}, "to"),
    "only separators": ({"to": " ; , "}, "to"),
    "no address": ({"to": "jan"}, "to"),
    "an address without domain": ({"cc": "jan@"}, "cc"),
    "one bad among good": ({"bcc": "a@x.nl; b@@x.nl"}, "bcc"),
    "a line break in an address": ({"to": "a@x.nl\nBcc: b@x.nl"}, "to"),
    "a line break in a name": ({"to": '"Jan\r\nBcc: b@x.nl" <a@x.nl>'}, "to"),
    "an address that is no text": ({"to": [7]}, "to"),
    "too many recipients": ({"to": ",".join(f"a{i}@x.nl" for i in range(MAX_RECIPIENTS + 1))}, "to"),
    "no subject": ({"subject": "  "}, "subject"),
    "a line break in the subject": ({"subject": "Hallo\r\nBcc: x@y.nl"}, "subject"),
    "a subject that is too long": ({"subject": "x" * 999}, "subject"),
    "half a character in the subject": ({"subject": "\ud83d"}, "subject"),
    "no body": ({"text": ""}, "text"),
    "NUL in the text": ({"text": "a\x00b"}, "text"),
    "half a character in the html": ({"html": "\udc00"}, "html"),
    "a body that is too large": ({"html": "x" * 3_000_001}, "html"),
    "a naive time": ({"at": datetime(2026, 3, 1, 9)}, "at"),  # noqa: DTZ001
    "a naive time as text": ({"at": "2026-03-01T09:00:00"}, "at"),
    "a time that is none": ({"at": "tomorrow"}, "at"),
    "a time at the end of the calendar": ({"at": "9999-12-31T23:59:59-12:00"}, "at"),
    "an expiry before the sending": ({"at": "2026-03-02T00:00Z", "expires": "2026-03-01T00:00Z"}, "expires"),
    "an expiry that has passed": ({"expires": "2026-03-10T09:30:20Z"}, "expires"),
    "a time more than five years away": ({"at": "2062-03-11T09:00:00Z"}, "at"),
    "an expiry more than five years away": ({"expires": "2062-03-11T09:00:00Z"}, "expires"),
    "an invisible character inside an address": ({"to": "a\u200bb@x.nl"}, "to"),
    "recipients that are neither text nor a list": ({"to": 7}, "to"),
    "a sender that is no text": ({"sender": None}, "sender"),
    "a priority that is none": ({"priority": "urgent"}, "priority"),
    "an unknown mailbox": ({"sender": "mailbox:none"}, "mailbox"),
    "an unknown tenant": ({"sender": "tenant:none"}, "tenant"),
    "a sender that is none": ({"sender": "news"}, "sender"),
}


@pytest.mark.parametrize(("change", "field"), BAD.values(), ids=BAD)
def test_bad_input_names_its_field_and_stores_nothing(intake, change, field):
    with pytest.raises(InvalidInputError) as refused:
        intake.submit_all([Draft(**GOOD), Draft(**(GOOD | change))])
    assert refused.value.field == field
    assert Message.select().count() == 0


def test_a_time_in_another_zone_is_kept_as_the_same_moment_in_utc():
    message = check(Draft(**GOOD, at="2026-03-01T09:00:00+01:00"), START).message
    assert message.requested_on == datetime(2026, 3, 1, 8, tzinfo=UTC)


def test_ids_come_back_in_order(intake):
    drafts = [Draft(**(GOOD | {"subject": f"nr {i}"})) for i in range(2500)]
    ids = intake.submit_all(drafts)
    subjects = {row.id: row.subject for row in Message.select()}
    assert [subjects[i] for i in ids] == [f"nr {i}" for i in range(2500)]


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_a_message_that_is_due_asks_for_a_tick(intake, nudges, priority):
    intake.submit(Draft(**GOOD, priority=priority))
    assert nudges == [1]


def test_a_later_message_waits_for_the_poll(intake, nudges, clock):
    intake.submit(Draft(**GOOD, priority=Priority.HIGH, at=clock() + timedelta(seconds=1)))
    assert nudges == []


def test_a_message_is_taken_in_even_when_nobody_can_be_nudged(intake, clock):
    def fail():
        raise ConnectionError("no Redis here")

    message_id = Intake(clock, fail).submit(Draft(**GOOD, priority="high"))
    assert Message.get_by_id(message_id).status == "SCHEDULED"


def test_an_error_while_a_stream_is_read_undoes_the_batches_before_it(intake):
    def stream():
        for _ in range(1500):
            yield check(Draft(**GOOD), START).message
        raise InvalidInputError("row", 1501, "a row that can be read")

    with pytest.raises(InvalidInputError):
        intake.store(stream())
    assert Message.select().count() == 0


def test_everyone_receives_a_message_once_and_counts_once(intake):
    [taken] = intake.take(
        [
            Draft(
                "mailbox:news",
                "Hallo",
                to="a@x.nl, A@X.NL",
                cc=["Ann <a@X.nl>", "b@münchen.de"],
                bcc="b@xn--mnchen-3ya.de; c@x.nl",
                text="Dag",
            )
        ]
    )
    row = Message.get_by_id(taken.message.id)
    kept = [(to.kind.value, to.name, to.address) for to in load_contents([row.id])[row.id].recipients]
    assert kept == [("to", "Ann", "a@x.nl"), ("cc", "", "b@münchen.de"), ("bcc", "", "c@x.nl")]
    assert row.recipient_count == 3
    assert [(fold.address, fold.kept, fold.left_out) for fold in taken.folded] == [
        ("a@x.nl", "to", "to"),
        ("a@x.nl", "to", "cc"),
        ("b@münchen.de", "cc", "bcc"),
    ]


def test_repeated_addresses_do_not_count_against_the_most_a_message_may_have(intake):
    assert intake.submit(Draft(**(GOOD | {"to": [f"a{i % 400}@x.nl" for i in range(900)]})))


@pytest.mark.parametrize(("provider", "taken"), [("microsoft-graph", True), ("sendgrid", False), ("default", False)])
def test_an_address_beyond_ascii_before_the_at_is_for_graph_alone(intake, clock, provider, taken):
    TenantMailSetting.create(key="t", provider=provider, address="t@x.nl", created_on=clock(), changed_on=clock())
    draft = Draft(**(GOOD | {"sender": "tenant:t", "to": "jörg@münchen.de"}))
    if taken:
        assert intake.submit(draft)
    else:
        with pytest.raises(InvalidInputError, match="SendGrid") as refused:
            intake.submit(draft)
        assert refused.value.field == "to"
    assert intake.submit(Draft(**(GOOD | {"sender": "tenant:t", "to": "joerg@münchen.de"})))
    assert intake.submit(Draft(**(GOOD | {"to": "jörg@x.nl"})))
