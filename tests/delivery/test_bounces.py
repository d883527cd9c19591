"""Reports of mail that did not arrive are found in the Inbox, written on their recipient, and acted on."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from rqmail.delivery.bounces import Bounces
from rqmail.errors import MailboxNotReadableError, MailTransientError
from rqmail.insight.bouncing import bouncing
from rqmail.mailers.graph.inbox import ReportItem
from rqmail.models import suppression
from rqmail.models.base import pooled_connection
from rqmail.models.bounces import BounceReading
from rqmail.models.message import Message
from rqmail.models.recipients import results_of
from rqmail.ratelimit.limits import RateLimits
from support.clock import START
from support.messages import new_message
from support.office import Office

NEWS = "news@example.org"
LIMITS = RateLimits()


class Inbox:
    """Stands for the Inbox of a mailbox."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[datetime, bytes]] = {}
        self.trouble: Exception | None = None
        self.looks: list[datetime] = []
        self.read: list[str] = []
        self.while_reading = lambda: None

    def reports(self, since: datetime, most: int) -> list[ReportItem]:
        self.looks.append(since)
        if self.trouble is not None:
            raise self.trouble
        found = [ReportItem(name, at) for name, (at, _) in self.items.items() if at >= since]
        return sorted(found, key=lambda one: one.received_on)[:most]

    def content(self, item: ReportItem, limit: int) -> bytes:
        self.while_reading()
        self.read.append(item.id)
        return self.items[item.id][1][:limit]


def report(*failed: tuple[str, str], message_id: str | None = None, about: str = "Undeliverable: Hello") -> bytes:
    groups = "".join(
        f"\nFinal-Recipient: rfc822;{address}\nAction: failed\nStatus: {code}\nDiagnostic-Code: smtp;550 {code} no\n"
        for address, code in failed
    )
    original = f"--b\nContent-Type: text/rfc822-headers\n\nx-rqmail-id: {message_id}\n" if message_id else ""
    return (
        f'Subject: {about}\nContent-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
        f"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns;mx\n{groups}\n{original}--b--\n"
    ).encode()


@pytest.fixture
def office(database, redis_client, clock):
    return Office(redis_client, clock)


@pytest.fixture
def inboxes(office):
    office.mailbox()
    found: dict[str, Inbox] = {NEWS: Inbox()}
    office.senders.inbox_of = lambda route: found.get(route.mailbox_key)
    return found


@pytest.fixture
def bounces(office, inboxes):
    return Bounces(office.senders, office.limiter, office.clock)


def sent(
    to: tuple[str, ...] = ("jan@x.nl",),
    subject: str = "Hello",
    mailbox: str = NEWS,
    sender="mailbox:news",
    status: str = "SENT",
) -> str:
    [message_id] = Message.submit([new_message(sender, to=to, subject=subject)], START)
    with pooled_connection():
        Message.update(status=status, mailbox_key=mailbox, attempted_on=START, sent_on=START).where(
            Message.id == message_id
        ).execute()
    return message_id


def arrives(inbox: Inbox, source: bytes, at: datetime, name: str | None = None) -> str:
    name = name or f"item{len(inbox.items)}"
    inbox.items[name] = (at, source)
    return name


def bounced(message_id: str) -> list[tuple[str, str | None, bool]]:
    return [(one.address, one.code, one.probable) for one in results_of([message_id]).get(message_id, [])]


def suppressed() -> dict[str, str]:
    return {one.address: one.reason.value for one in suppression.listed()}


def later(office: Office, **by: float) -> datetime:
    return office.clock.advance(**by)


@pytest.mark.parametrize("code", ["5.1.1", "5.1.10", "5.4.1", "5.1.0"])
def test_a_recipient_that_does_not_exist_bounces_and_is_suppressed(office, inboxes, bounces, code):
    message_id = sent(("a@x.nl", "Jan@x.nl"))
    arrives(inboxes[NEWS], report(("jan@X.nl", code), message_id=message_id), later(office, seconds=30))
    assert bounces.run() == {NEWS: 1}
    assert bounced(message_id) == [("Jan@x.nl", code, False)]
    assert suppressed() == {"jan@x.nl": "hard-bounce"}
    [result] = results_of([message_id])[message_id]
    assert result.detail == f"550 {code} no"


@pytest.mark.parametrize("code", ["5.2.2", "4.4.7", "5.7.1", "5.0.0"])
def test_a_bounce_for_another_reason_is_written_down_and_suppresses_nobody(office, inboxes, bounces, code):
    message_id = sent()
    arrives(inboxes[NEWS], report(("jan@x.nl", code), message_id=message_id), later(office, seconds=30))
    bounces.run()
    assert bounced(message_id) == [("jan@x.nl", code, False)]
    assert suppressed() == {}


def test_a_report_without_our_mark_is_matched_by_address_and_subject_as_probable(office, inboxes, bounces):
    wanted, other, elsewhere = sent(), sent(subject="Another"), sent(mailbox="other@example.org")
    arrives(inboxes[NEWS], report(("JAN@x.nl", "5.1.1"), about="Onbestelbaar: Hello"), later(office, seconds=30))
    bounces.run()
    assert bounced(wanted) == [("jan@x.nl", "5.1.1", True)]
    assert (bounced(other), bounced(elsewhere), suppressed()) == ([], [], {})


def test_a_report_names_no_message_of_another_mailbox_and_nobody_the_message_did_not_go_to(office, inboxes, bounces):
    elsewhere, mine = sent(mailbox="other@example.org", subject="x"), sent(("a@x.nl", "b@x.nl"))
    now = later(office, seconds=30)
    arrives(inboxes[NEWS], report(("jan@x.nl", "5.1.1"), message_id=elsewhere, about="y"), now)
    arrives(inboxes[NEWS], report(("c@x.nl", "5.1.1"), message_id=mine), now)
    assert bounces.run() == {NEWS: 2}
    assert (bounced(elsewhere), bounced(mine), suppressed()) == ([], [], {})


def test_the_only_recipient_bounces_under_whatever_name_it_was_forwarded_to(office, inboxes, bounces):
    message_id = sent()
    arrives(inboxes[NEWS], report(("j.jansen@mx.x.nl", "5.1.1"), message_id=message_id), later(office, seconds=30))
    bounces.run()
    assert bounced(message_id) == [("jan@x.nl", "5.1.1", False)]
    assert suppressed() == {"jan@x.nl": "hard-bounce"}


@pytest.mark.parametrize("by", ["our id", "Message-ID"])
def test_a_report_of_an_unknown_message_proves_that_it_was_accepted(office, inboxes, bounces, by):
    message_id = sent(status="UNKNOWN")
    source = report(("jan@x.nl", "5.2.2"), message_id=message_id)
    if by == "Message-ID":
        source = source.replace(f"x-rqmail-id: {message_id}".encode(), f"Message-ID: <{message_id}@x.nl>".encode())
    arrives(inboxes[NEWS], source, later(office, seconds=30))
    bounces.run()
    message = Message.get_by_id(message_id)
    assert (message.status, message.sent_on, message.ended_on) == ("SENT", START, office.clock())
    assert message.history[-1]["outcome"] == "confirmed-sent"
    assert "non-delivery report (5.2.2)" in message.history[-1]["detail"]
    assert bounced(message_id) == [("jan@x.nl", "5.2.2", False)]


def test_a_probable_match_leaves_an_unknown_message_unknown_and_one_being_sent_again_goes_on(office, inboxes, bounces):
    probable, again = sent(status="UNKNOWN"), sent(("b@x.nl",), status="SCHEDULED")
    arrives(inboxes[NEWS], report(("jan@x.nl", "5.1.1")), later(office, seconds=30))
    arrives(inboxes[NEWS], report(("b@x.nl", "5.1.1"), message_id=again), office.clock())
    assert bounces.run() == {NEWS: 2}
    assert bounced(probable) == [("jan@x.nl", "5.1.1", True)]
    assert Message.get_by_id(probable).status == "UNKNOWN"
    assert Message.get_by_id(again).status == "SCHEDULED"


def test_each_report_is_read_once_also_those_that_come_in_the_same_second(office, inboxes, bounces):
    message_id, inbox = sent(("a@x.nl", "b@x.nl", "c@x.nl")), inboxes[NEWS]
    now = later(office, seconds=30)
    arrives(inbox, report(("a@x.nl", "5.1.1"), message_id=message_id), now)
    bounces.run()
    arrives(inbox, report(("b@x.nl", "5.1.1"), message_id=message_id), now)
    later(office, minutes=2)
    assert bounces.run() == {NEWS: 1}
    arrives(inbox, report(("c@x.nl", "5.1.1"), message_id=message_id), later(office, minutes=2))
    bounces.run()
    later(office, minutes=5)
    bounces.run()
    assert sorted(inbox.read) == ["item0", "item1", "item2"]
    assert len(bounced(message_id)) == 3


def test_a_mailbox_where_nothing_comes_is_looked_at_less_often_and_one_that_sends_nothing_never(
    office, inboxes, bounces
):
    bounces.run()
    assert inboxes[NEWS].looks == []
    sent()
    looks = []
    for _ in range(120):
        before = len(inboxes[NEWS].looks)
        bounces.run()
        looks.append(len(inboxes[NEWS].looks) - before)
        later(office, seconds=30)
    assert sum(looks[:10]) == 2
    assert 4 <= sum(looks) <= 8


@pytest.mark.parametrize(
    "trouble",
    [MailboxNotReadableError("Mail.Read is missing", status=403), MailTransientError("away"), OSError("oops")],
)
def test_one_mailboxs_trouble_is_never_anothers(office, inboxes, bounces, trouble):
    office.mailbox("info")
    inboxes["info@example.org"] = Inbox()
    inboxes["info@example.org"].trouble = trouble
    sent(mailbox="info@example.org", sender="mailbox:info")
    message_id = sent()
    arrives(inboxes[NEWS], report(("jan@x.nl", "5.1.1"), message_id=message_id), later(office, seconds=30))
    assert bounces.run() == {NEWS: 1}
    assert BounceReading.all()["info@example.org"].problem
    later(office, minutes=3)
    bounces.run()
    assert len(inboxes["info@example.org"].looks) == 1


@pytest.mark.parametrize(("code", "cause"), [("5.1.8", "blocked"), ("5.1.90", "quota")])
def test_a_report_about_the_sender_pauses_its_mailbox_with_that_reason(office, inboxes, bounces, code, cause):
    office.mailbox("info")
    message_id = sent()
    arrives(inboxes[NEWS], report(("jan@x.nl", code), message_id=message_id), later(office, seconds=30))
    bounces.run()
    usage = office.limiter.usage({NEWS: LIMITS, "info@example.org": LIMITS})
    assert code in usage[NEWS].pause_reason
    assert usage["info@example.org"].paused_until_ms is None
    assert suppressed() == {}
    assert cause in str(usage[NEWS])


@pytest.mark.parametrize("code", ["5.7.233", "5.7.705", "5.7.750"])
def test_a_report_about_the_tenant_pauses_all_of_its_mailboxes_until_that_is_long_ago(office, inboxes, bounces, code):
    office.mailbox("info")
    message_id, old = sent(), sent(subject="old")
    arrives(inboxes[NEWS], report(("jan@x.nl", code), message_id=old), START - timedelta(hours=10))
    bounces.run()
    keys = {NEWS: LIMITS, "info@example.org": LIMITS}
    assert all(one.paused_until_ms is None for one in office.limiter.usage(keys).values())
    arrives(inboxes[NEWS], report(("jan@x.nl", code), message_id=message_id), later(office, minutes=5))
    bounces.run()
    assert all(code in one.pause_reason for one in office.limiter.usage(keys).values())


def test_reading_takes_a_place_in_flight_and_nothing_of_the_budgets(office, inboxes, bounces):
    message_id, inbox = sent(), inboxes[NEWS]
    used = []
    inbox.while_reading = lambda: used.append(office.limiter.usage({NEWS: LIMITS})[NEWS].in_flight.used)
    arrives(inbox, report(("jan@x.nl", "5.1.1"), message_id=message_id), later(office, seconds=30))
    before = office.limiter.usage({NEWS: LIMITS})[NEWS]
    bounces.run()
    after = office.limiter.usage({NEWS: LIMITS})[NEWS]
    assert used == [before.in_flight.used + 1]
    assert [after.in_flight.used, after.minute.used, after.day.used] == [
        before.in_flight.used, before.minute.used, before.day.used,
    ]  # fmt: skip
    looks = len(inbox.looks)
    later(office, minutes=3)
    taken = [office.limiter.check_and_reserve(NEWS, 1, LIMITS) for _ in range(LIMITS.in_flight)]
    bounces.run()
    assert len(inbox.looks) == looks
    for one in taken:
        office.limiter.release(one)
    bounces.run()
    assert len(inbox.looks) == looks + 1


def test_a_mailbox_tells_its_bounce_rate_and_warns_above_five_percent(office, inboxes, bounces):
    ids = [sent(tuple(f"r{n}-{m}@x.nl" for m in range(10))) for n in range(2)]
    at = later(office, seconds=30)
    arrives(inboxes[NEWS], report(("r0-1@x.nl", "5.1.1"), message_id=ids[0]), at)
    bounces.run()
    told = bouncing([NEWS, "info@example.org"], office.clock())
    assert (told[NEWS].recipients, told[NEWS].bounced, told[NEWS].rate, told[NEWS].level) == (20, 1, 0.05, "ok")
    assert (told["info@example.org"].rate, told["info@example.org"].read_to) == (None, None)
    arrives(inboxes[NEWS], report(("r1-1@x.nl", "5.2.2"), message_id=ids[1]), later(office, minutes=2))
    bounces.run()
    assert bouncing([NEWS], office.clock())[NEWS].level == "warning"
    later(office, days=8)
    assert bouncing([NEWS], office.clock())[NEWS].bounced == 0
