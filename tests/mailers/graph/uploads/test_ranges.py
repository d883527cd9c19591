"""Ranges that fail are gone on with where the upload stands, begun again, or given up for now."""

from __future__ import annotations

import json

import pytest

from mailers.graph.uploads.sending import WHOLE, attached, drafts
from rqmail.errors import (
    MailThrottledError,
    MailTransientError,
)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 400},
        {"kind": "status", "status": 416},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "7"}},
        {"kind": "reset"},
        {"kind": "html", "status": 502},
        {"kind": "accept-then-reset"},
        {"kind": "accept-then-504"},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_range_that_failed_is_gone_on_with_where_the_upload_stands(control, mailer, large, sleeps, fault, at):
    put_one = {"kind": "latency", "operation": "putRange", "seconds": 0.0}
    for rule in [put_one] * at + [{**fault, "operation": "putRange"}]:
        control.faults(**rule)
    mailer.send(large)
    assert attached(control) == WHOLE
    assert sleeps == [7.0 if fault.get("status") == 429 else 1.0]


def test_a_range_that_was_taken_although_its_answer_was_lost_is_not_sent_again(control, mailer, transport, large):
    control.faults("accept-then-reset", operation="putRange")
    mailer.send(large)
    assert transport.steps.count("PUT") == 3
    assert attached(control) == WHOLE


def test_a_session_that_is_gone_is_begun_again(control, mailer, transport, large):
    control.faults("latency", operation="putRange", seconds=0.0)
    control.faults("status", status=404, code="ErrorItemNotFound", operation="putRange")
    mailer.send(large)
    assert transport.steps.count("POST createUploadSession") == 2
    assert attached(control) == WHOLE


def test_an_upload_that_is_forgotten_again_and_again_is_given_up_for_now(
    control, mailer, transport, large, sandbox, token
):
    control.faults("status", count=None, status=404, operation="putRange")
    with pytest.raises(MailTransientError, match="forgot an upload 3 times; nothing was sent"):
        mailer.send(large)
    assert transport.steps.count("POST createUploadSession") == 3
    assert drafts(sandbox, token) == []


def test_an_upload_that_does_not_get_on_is_given_up_for_now(control, mailer, large, sleeps, sandbox, token):
    control.faults("status", count=None, status=503, operation="putRange")
    with pytest.raises(MailThrottledError):
        mailer.send(large)
    assert sleeps == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert drafts(sandbox, token) == []


def test_a_long_wait_that_is_asked_for_pauses_the_mailbox_instead(control, mailer, large, sleeps):
    control.faults("status", status=429, headers={"Retry-After": "90"}, operation="putRange")
    with pytest.raises(MailThrottledError) as caught:
        mailer.send(large)
    assert (caught.value.retry_after, sleeps) == (90.0, [])


@pytest.mark.parametrize(
    ("ranges", "following"),
    [
        ({"nextExpectedRanges": ["100"]}, 100),
        ({"NextExpectedRanges": ["100-"]}, 100),
        ({"nextExpectedRanges": ["0-", "5-9"]}, 0),
        ({"nextExpectedRanges": ["26-199"]}, 26),
        ({"nextExpectedRanges": []}, None),
        ({"nextExpectedRanges": ["x"]}, None),
        ({"nextExpectedRanges": "7"}, None),
        ({}, None),
        ([], None),
    ],
)
def test_where_an_upload_stands_is_read_in_every_spelling(ranges, following):
    from rqmail.mailers.graph.upload_session import _next_expected
    from rqmail.mailers.http.transport import Answer

    assert _next_expected(Answer(200, {}, json.dumps(ranges).encode())) == following
