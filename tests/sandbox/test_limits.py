"""Exchange Online's limits, with a clock that the tests move."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqmail.sandbox.windows import RollingWindow
from sandbox.graph_client import SENDER, message


def people(count: int, start: int = 0) -> tuple[str, ...]:
    return tuple(f"p{number}@example.org" for number in range(start, start + count))


def test_a_fifth_call_in_flight_on_one_mailbox_is_throttled(control, graph):
    control.configure(latency_ms=300)
    with ThreadPoolExecutor(12) as pool:
        same = [pool.submit(graph.send) for _ in range(6)]
        other = [pool.submit(graph.send, mailbox="ander@voorbeeld.nl") for _ in range(4)]
        answers = [future.result() for future in same]
        assert {future.result().status_code for future in other} == {202}
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 2
    error = refused[0].json()["error"]
    assert error["code"] == "ApplicationThrottled"
    assert "MailboxConcurrency" in error["message"]
    assert int(refused[0].headers["Retry-After"]) > 0
    stats = control.stats()
    assert (stats["maxInFlight"], stats["mailboxes"][SENDER]["inFlight"]) == (4, 0)


def test_recipients_over_the_rolling_day_are_accepted_and_dropped(control, graph, sandbox_clock):
    control.configure(limits={"recipients_per_day": 5}, directory={"token_lifetime_seconds": 10**6})
    token = {"Authorization": f"Bearer {graph.fresh_token()}"}

    def send(count: int) -> int:
        return graph.call("POST", "/sendMail", json={"message": message(people(count))}, headers=token).status_code

    assert send(5) == 202
    sandbox_clock.advance(hours=23, minutes=59)
    assert send(1) == 202
    sandbox_clock.advance(minutes=1)
    assert send(4) == 202
    dropped = [mail["nonDelivery"] is not None for mail in control.accepted()]
    assert dropped == [False, True, False]
    stats = control.stats()
    assert (stats["accepted"], sum(stats["nonDelivered"].values()), stats["maxRecipientsPerDay"]) == (3, 1, 6)


def test_recipients_over_the_rolling_day_may_be_refused_instead(control, graph):
    control.configure(limits={"recipients_per_day": 5, "refuse_over_day": True})
    graph.send(to=people(4))
    answer = graph.send(to=people(2))
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "ErrorExceededMessageLimit")
    assert graph.send(to=people(1)).status_code == 202


def test_a_mail_to_more_than_five_hundred_is_accepted_and_never_delivered(control, graph):
    graph.send(to=people(500))
    graph.send(to=people(501))
    assert [mail["nonDelivery"] is not None for mail in control.accepted()] == [False, True]


def test_mail_above_thirty_a_minute_is_carried_over_not_refused(control, graph, sandbox_clock):
    for _ in range(31):
        assert graph.send().status_code == 202
    sandbox_clock.advance(seconds=60)
    graph.send()
    assert [mail["seq"] for mail in control.accepted() if mail["carriedOver"]] == [31]
    stats = control.stats()
    assert (stats["overMinute"], stats["maxPerMinute"]) == (1, 31)


def test_calls_above_the_ten_minute_limit_are_throttled(control, graph, sandbox_clock):
    control.configure(limits={"requests_per_ten_minutes": 2})
    assert [graph.send().status_code for _ in range(3)] == [202, 202, 429]
    sandbox_clock.advance(minutes=10)
    assert graph.send().status_code == 202


@pytest.mark.parametrize("size", [4 * 1024 * 1024, 17 * 1024 * 1024])
def test_a_request_above_four_megabytes_is_too_large(control, graph, size):
    answer = graph.send(attachments=[{"name": "a", "contentBytes": base64.b64encode(bytes(size * 3 // 4)).decode()}])
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "ErrorMessageSizeExceeded")
    assert control.accepted() == []


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"latency_ms": -1}, "negative"),
        ({"limits": {"in_flight": "4"}}, "in_flight"),
        ({"limits": {"per_hour": 4}}, "per_hour"),
        ({"limits": 4}, "JSON object"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(control, settings, part):
    with pytest.raises(Exception, match=part) as refused:
        control.configure(**settings)
    assert refused.value.status == 400


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=40))
def test_a_rolling_window_sums_what_came_within_its_length(steps):
    window, history, now = RollingWindow(60), [], 0
    peak = 0
    for wait, amount in steps:
        now += wait
        history.append((now, amount))
        expected = sum(amount for moment, amount in history if moment > now - 60)
        assert window.add(now, amount) == expected
        peak = max(peak, expected)
    assert window.peak == peak
