"""What became of mail is read from the tenant's message trace, and written on its recipients."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from rqmail.delivery.traces import MOST_REQUESTS, Traces
from rqmail.errors import MailRejectedError, MailThrottledError, TracesNotReadableError
from rqmail.mailers.graph.traces import Trace, TracePage
from rqmail.models.base import pooled_connection
from rqmail.models.deliveries import deliveries_of, readings
from rqmail.models.message import Message
from support.clock import START
from support.messages import new_message
from support.office import Office

NEWS = "news@example.org"


class Tenant:
    """Stands for the message trace of a tenant."""

    def __init__(self) -> None:
        self.rows: list[Trace] = []
        self.trouble: Exception | None = None
        self.asked: list[tuple[datetime, datetime, str | None]] = []
        self.page_rows = 1_000

    def page(self, start: datetime, end: datetime, next_link: str | None = None) -> TracePage:
        self.asked.append((start, end, next_link))
        if self.trouble is not None:
            raise self.trouble
        rows = [row for row in self.rows if start <= row.received_on <= end]
        begin = int(next_link or 0)
        following = begin + self.page_rows
        return TracePage(tuple(rows[begin:following]), str(following) if following < len(rows) else None)


@pytest.fixture
def office(database, redis_client, clock):
    return Office(redis_client, clock)


@pytest.fixture
def tenant(office):
    office.mailbox()
    tenant = Tenant()
    office.senders.traces_of = lambda route: tenant
    return tenant


@pytest.fixture
def traces(office, tenant):
    return Traces(office.senders, office.clock)


def sent(
    to: tuple[str, ...] = ("jan@x.nl",), subject: str = "Hello", status: str = "SENT", at: datetime = START
) -> str:
    [message_id] = Message.submit([new_message("mailbox:news", to=to, subject=subject)], START)
    with pooled_connection():
        Message.update(status=status, mailbox_key=NEWS, attempted_on=at, sent_on=at).where(
            Message.id == message_id
        ).execute()
    return message_id


def traced(
    to: str = "jan@x.nl", status: str = "delivered", *, at: datetime = START, subject: str = "Hello", **more: str
) -> Trace:
    message_id, sender = more.get("message_id", "<x@prod.outlook.example>"), more.get("sender", NEWS)
    return Trace("t", sender, to, message_id, subject, at + timedelta(seconds=2), status)


def delivery(message_id: str) -> dict[str, tuple[str, bool]]:
    told = deliveries_of([message_id]).get(message_id, {})
    return {address: (one.status, one.probable) for address, one in told.items()}


def passes(office: Office, traces: Traces, **by: float) -> dict[str, int]:
    office.clock.advance(**(by or {"minutes": 5}))
    return traces.run()


def test_what_became_of_a_mail_is_written_on_each_of_its_recipients(office, tenant, traces):
    message_id = sent(("Jan@x.nl", "b@x.nl", "c@x.nl"))
    tenant.rows = [traced("jan@X.nl"), traced("b@x.nl", "quarantined"), traced("b@x.nl", "pending"), traced("d@x.nl")]
    assert passes(office, traces) == {"": 2}
    assert delivery(message_id) == {"Jan@x.nl": ("delivered", False), "b@x.nl": ("quarantined", False)}


def test_a_row_of_anybody_elses_mail_is_not_taken_for_ours(office, tenant, traces):
    message_id = sent()
    tenant.rows = [
        traced(sender="else@example.org"),
        traced(subject="Another"),
        traced(at=START - timedelta(minutes=5)),
        traced(message_id="<01920000-0000-7000-8000-000000000000@example.org>"),
    ]
    assert passes(office, traces) == {}
    assert delivery(message_id) == {}


def test_a_message_id_of_ours_names_its_mail_whatever_the_subject_became(office, tenant, traces):
    first, second = sent(), sent()
    tenant.rows = [traced(subject="[x] Hello", message_id=f"<{second}@example.org>", sender="alias@example.org")]
    passes(office, traces)
    assert (delivery(first), delivery(second)) == ({}, {"jan@x.nl": ("delivered", False)})


def test_of_two_mails_alike_the_nearest_in_time_is_meant_and_only_probably(office, tenant, traces):
    first, second = sent(status="UNKNOWN"), sent(status="UNKNOWN", at=START + timedelta(minutes=1))
    tenant.rows = [traced(at=START + timedelta(minutes=1))]
    passes(office, traces)
    assert (delivery(first), delivery(second)) == ({}, {"jan@x.nl": ("delivered", True)})
    assert {row.status for row in (Message.get_by_id(first), Message.get_by_id(second))} == {"UNKNOWN"}


@pytest.mark.parametrize("status", ["delivered", "failed"])
def test_an_unknown_mail_that_is_traced_was_accepted_whatever_became_of_it(office, tenant, traces, status):
    message_id = sent(status="UNKNOWN")
    tenant.rows = [traced(status=status)]
    passes(office, traces)
    message = Message.get_by_id(message_id)
    assert (message.status, message.sent_on, message.ended_on) == ("SENT", START, office.clock())
    assert message.history[-1]["detail"] == "Found in the tenant's message trace."
    assert delivery(message_id) == {"jan@x.nl": (status, False)}


def test_a_pending_mail_is_followed_until_it_is_settled_also_when_that_takes_hours(office, tenant, traces):
    message_id = sent()
    tenant.rows = [traced(status="pending")]
    assert passes(office, traces) == {"": 1}
    assert passes(office, traces, minutes=16) == {}
    tenant.rows = [traced(status="failed")]
    passes(office, traces, hours=20)
    assert delivery(message_id) == {"jan@x.nl": ("failed", False)}


def test_a_row_that_comes_late_is_found_and_an_older_trace_changes_nothing(office, tenant, traces):
    message_id = sent()
    passes(office, traces)
    tenant.rows = [traced()]
    assert passes(office, traces, minutes=20) == {"": 1}
    tenant.rows = [traced(status="pending", at=START - timedelta(seconds=5))]
    assert passes(office, traces) == {}
    assert delivery(message_id) == {"jan@x.nl": ("delivered", False)}


def test_a_tenant_where_nothing_is_new_is_asked_less_often_and_one_that_sends_nothing_never(office, tenant, traces):
    passes(office, traces)
    assert tenant.asked == []
    sent()
    for _ in range(60):
        passes(office, traces, minutes=1)
    assert 4 <= len(tenant.asked) <= 8


@pytest.mark.parametrize(
    ("trouble", "minutes"),
    [
        (TracesNotReadableError("ExchangeMessageTrace.Read.All is missing", status=403), 60),
        (MailThrottledError("slow down", retry_after=1200), 20),
        (OSError("oops"), 5),
    ],
)
def test_what_is_refused_is_remembered_and_asked_again_later_from_where_it_was(
    office, tenant, traces, trouble, minutes
):
    old = sent(status="UNKNOWN", at=START - timedelta(days=4))
    tenant.trouble = trouble
    passes(office, traces)
    assert readings()[""].problem
    passes(office, traces, minutes=minutes - 1)
    assert len(tenant.asked) == 1
    tenant.trouble, tenant.rows = None, [traced(at=START - timedelta(days=4))]
    sent()
    assert passes(office, traces, minutes=2) == {"": 1}
    assert (readings()[""].problem, Message.get_by_id(old).status) == (None, "SENT")


def test_no_more_is_asked_than_leaves_room_and_a_long_trace_goes_on_where_it_was(office, tenant, traces):
    sent(tuple(f"n{number}@x.nl" for number in range(100)))
    tenant.rows, tenant.page_rows = [traced(f"n{number}@x.nl") for number in range(100)], 1
    assert passes(office, traces) == {"": MOST_REQUESTS}
    assert passes(office, traces, minutes=4) == {}
    assert passes(office, traces, minutes=2) == {"": 20}
    assert len(tenant.asked) == 100
    assert readings()[""].period is None


def test_a_place_in_the_trace_that_is_gone_begins_its_period_anew(office, tenant, traces):
    message_id = sent(("a@x.nl", "b@x.nl"))
    tenant.rows, tenant.page_rows = [traced("a@x.nl"), traced("b@x.nl")], 1
    page = tenant.page

    def gone(start: datetime, end: datetime, next_link: str | None = None) -> TracePage:
        if next_link is not None:
            raise MailRejectedError("no such token", status=400)
        return page(start, end)

    tenant.page = gone
    passes(office, traces)
    tenant.page = page
    passes(office, traces, minutes=6)
    assert len(delivery(message_id)) == 2
    assert [link for _, _, link in tenant.asked] == [None, None, "1"]
