"""Everything that can be made to go wrong."""

from __future__ import annotations

import base64

import pytest
import requests

from rqmail.sandbox.client import SandboxControlError
from sandbox.graph_client import SENDER


def test_the_next_calls_get_the_status_asked_for_and_the_rest_do_not(control, graph):
    control.faults("status", count=2, status=429, code="ApplicationThrottled", headers={"Retry-After": "3"})
    answers = [graph.send() for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 202]
    assert answers[0].headers["Retry-After"] == "3"
    assert answers[0].json()["error"]["code"] == "ApplicationThrottled"
    assert (control.stats()["accepted"], control.stats()["faultsFired"]) == (1, {"status": 2})


def test_a_raw_body_is_answered_as_it_is(control, graph):
    control.faults("status", status=500, body='{"error":{"innererror":{}}}')
    assert graph.send().text == '{"error":{"innererror":{}}}'


def test_accept_then_504_takes_the_mail_and_denies_it(control, graph):
    control.faults("accept-then-504")
    assert graph.send(rqmail_id="m-1").status_code == 504
    assert [mail["rqmailId"] for mail in control.accepted()] == ["m-1"]
    found = graph.call("GET", "/mailFolders/SentItems/messages").json()["value"]
    assert len(found) == 1


@pytest.mark.parametrize(("kind", "accepted"), [("reset", 0), ("accept-then-reset", 1)])
def test_a_reset_cuts_the_connection_before_or_after_the_mail_is_taken(control, graph, kind, accepted):
    control.faults(kind)
    with pytest.raises(requests.ConnectionError, match="Connection aborted"):
        graph.send()
    assert control.stats()["accepted"] == accepted
    assert graph.send().status_code == 202


@pytest.mark.parametrize(("kind", "accepted"), [("hang", 0), ("accept-then-hang", 1)])
def test_a_hanging_call_never_answers_and_lets_go_when_the_client_does(control, graph, kind, accepted):
    control.faults(kind, seconds=30)
    with pytest.raises(requests.ReadTimeout):
        graph.send_with_timeout(0.2)
    assert control.stats()["accepted"] == accepted
    assert any(control.stats()["mailboxes"][SENDER]["inFlight"] == 0 for _ in range(1000))


def test_a_hang_that_ends_cuts_the_connection(control, graph):
    control.faults("hang", seconds=0.05)
    with pytest.raises(requests.ConnectionError):
        graph.send()


def test_extra_latency_only_delays(control, graph):
    control.faults("latency", seconds=0.3)
    with pytest.raises(requests.ReadTimeout):
        graph.send_with_timeout(0.1)
    assert graph.send().status_code == 202


def test_a_bad_token_may_come_with_a_claims_challenge(control, graph):
    claims = '{"access_token":{"nbf":{"essential":true,"value":"1"}}}'
    control.faults("bad-token", claims=claims)
    answer = graph.send()
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "InvalidAuthenticationToken")
    header = answer.headers["WWW-Authenticate"]
    assert 'error="insufficient_claims"' in header
    assert base64.b64encode(claims.encode()).decode() in header


def test_truncated_json_is_no_json(control, graph):
    control.faults("truncated-json", status=500)
    answer = graph.send()
    assert answer.status_code == 500
    with pytest.raises(requests.JSONDecodeError):
        answer.json()


def test_a_page_of_html_may_come_instead(control, graph):
    control.faults("html", status=502)
    answer = graph.send()
    assert (answer.status_code, answer.headers["Content-Type"].split(";")[0]) == (502, "text/html")


def test_a_body_may_end_before_it_said_it_would(control, graph):
    control.faults("short-body", status=500)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        graph.send()


def test_a_fault_meets_only_its_mailbox_and_operation(control, graph):
    control.faults("status", count=None, mailbox=SENDER.upper(), operation="sendMail")
    assert graph.send().status_code == 503
    assert graph.send(mailbox="ander@voorbeeld.nl").status_code == 202
    assert graph.call("GET", "").status_code == 200


def test_a_probability_with_a_seed_repeats_itself(control, graph):
    def run() -> list[int]:
        control.reset()
        control.faults("status", count=None, probability=0.5, seed=7)
        return [graph.send().status_code for _ in range(20)]

    first = run()
    assert set(first) == {202, 503}
    assert run() == first


def test_faults_can_be_listed_and_taken_back(control, graph):
    first, second = control.faults("status", count=5), control.faults("hang", count=None)
    assert [(fault["id"], fault["count"]) for fault in control.faults_in_force()] == [(first, 5), (second, None)]
    control.clear_faults(second)
    assert [fault["id"] for fault in control.faults_in_force()] == [first]
    control.clear_faults()
    assert graph.send().status_code == 202


def test_a_fault_leaves_nothing_in_flight(control, graph):
    for kind in ("status", "html", "truncated-json", "bad-token", "accept-then-504"):
        control.faults(kind)
        graph.send()
    assert control.stats()["mailboxes"][SENDER]["inFlight"] == 0


@pytest.mark.parametrize(
    ("kind", "rule", "part"),
    [
        ("explode", {}, "explode"),
        ("status", {"status": 99}, "status"),
        ("status", {"target": "mars"}, "mars"),
        ("status", {"often": 1}, "often"),
        ("status", {"count": 0}, "count"),
        ("status", {"headers": {"Retry-After": 3}}, "headers"),
        ("status", {"probability": "half"}, "probability"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(control, kind, rule, part):
    with pytest.raises(SandboxControlError, match=part) as refused:
        control.faults(kind, **rule)
    assert refused.value.status == 400
    assert control.faults_in_force() == []


def test_the_control_api_takes_only_json(graph, sandbox):
    answer = graph.call("POST", f"{sandbox.authority}/_sandbox/reset", data="x")
    assert answer.status_code == 415
