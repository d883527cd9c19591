"""The sandbox's message trace: a row a recipient, within Microsoft's limits."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from rqmail.sandbox.client import SandboxControlError
from sandbox.graph_client import SENDER, message


@pytest.fixture
def traces(graph, sandbox):
    def ask(condition: str | None = None, **options: str):
        wanted = {f"${name}": value for name, value in options.items()}
        query = wanted if condition is None else wanted | {"$filter": condition}
        return graph.call("GET", f"{sandbox.base_url}/admin/exchange/tracing/messageTraces", params=query)

    return ask


def between(start: datetime, end: datetime) -> str:
    return f"receivedDateTime ge {start:%Y-%m-%dT%H:%M:%SZ} and receivedDateTime le {end:%Y-%m-%dT%H:%M:%SZ}"


def statuses(answer) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {row["recipientAddress"]: row["status"] for row in answer.json()["value"]}


def test_each_recipient_of_an_accepted_mail_has_a_row_with_its_status(graph, traces, control):
    control.configure(traces={"B@x.nl": "quarantined"}, bounces={"c@x.nl": "5.1.1", "d@x.nl": "4.4.7"})
    graph.send(message(("a@x.nl", "b@x.nl", "c@x.nl", "d@x.nl"), subject="Open dag"))
    found = traces()
    expected = {"a@x.nl": "delivered", "b@x.nl": "quarantined", "c@x.nl": "failed", "d@x.nl": "pending"}
    assert statuses(found) == expected
    [accepted] = control.accepted()
    row = found.json()["value"][0]
    assert (row["senderAddress"], row["subject"], row["messageId"]) == (
        SENDER, "Open dag", accepted["internetMessageId"],
    )  # fmt: skip
    control.configure(traces={"b@x.nl": "delivered"})
    assert statuses(traces("recipientAddress eq 'b@x.nl'")) == {"b@x.nl": "delivered"}


def test_rows_come_newest_first_a_page_at_a_time_and_late_if_wanted(graph, traces, control, sandbox_clock):
    for number in range(3):
        graph.send(message((f"n{number}@x.nl",)))
        sandbox_clock.advance(seconds=60)
    first = traces(top="2")
    assert list(statuses(first)) == ["n2@x.nl", "n1@x.nl"]
    assert list(statuses(graph.call("GET", first.json()["@odata.nextLink"]))) == ["n0@x.nl"]
    control.configure(trace_delay_seconds=90)
    assert list(statuses(traces())) == ["n1@x.nl", "n0@x.nl"]


def test_a_period_is_within_ten_days_of_the_last_ninety_and_not_in_the_future(graph, traces, sandbox_clock):
    now, day = sandbox_clock(), timedelta(days=1)
    graph.send()
    assert len(traces(between(now - 10 * day, now)).json()["value"]) == 1
    for start, end in ((now - 11 * day, now), (now - 91 * day, now - 89 * day), (now - day, now + day)):
        assert traces(between(start, end)).status_code == 400
    assert traces(f"receivedDateTime ge {now:%Y-%m-%dT%H:%M:%SZ}").status_code == 400
    assert traces("nonsense eq 'x'").status_code == 400
    assert traces(top="5001").status_code == 400


def test_a_hundred_requests_pass_in_five_minutes_whoever_asks_and_the_next_is_throttled(traces, control, sandbox_clock):
    control.configure(limits={"trace_requests_per_five_minutes": 2})
    assert [traces().status_code for _ in range(3)] == [200, 200, 429]
    sandbox_clock.advance(minutes=6)
    assert traces().status_code == 200
    assert control.stats()["maxTraceCalls"] == 3


def test_without_the_permission_it_is_refused_and_faults_meet_it_only_where_they_name_it(graph, traces, control):
    control.configure(directory={"may_read_traces": False})
    assert traces().status_code == 403
    control.configure(directory={"may_read_traces": True})
    control.faults("status", status=503)
    control.faults("status", target="traces", status=500)
    assert [traces().status_code, traces().status_code, graph.send().status_code] == [500, 200, 503]
    with pytest.raises(SandboxControlError, match="quarantined"):
        control.configure(traces={"a@x.nl": "lost"})
