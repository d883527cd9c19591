"""Reading the tenant's message trace."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from mailers.servers import Script, serving
from rqmail.errors import MailError, MailThrottledError, MailTransientError, TracesNotReadableError
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.traces import GraphTraces, Trace, TracePage

END = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
START = END - timedelta(hours=1)
ROW = {
    "id": "t1",
    "senderAddress": "News@contoso.example",
    "recipientAddress": "Jan@x.nl",
    "messageId": "<a@b>",
    "receivedDateTime": "2026-03-01T11:30:00Z",
    "subject": "Hello",
    "status": "delivered",
    "size": 1,
    "fromIP": None,
    "toIP": None,
}


class FixedToken:
    def token(self):
        return "token"

    def renewed(self, refused, claims):
        return "token-2"


@pytest.fixture
def read(transport, clock):
    def run(script: Script, next_link: str | None = None) -> TracePage:
        with serving(script) as url:
            traces = GraphTraces(GraphHttp(transport, FixedToken()), f"{url}/v1.0", clock=clock)
            return traces.page(START, END, next_link and next_link.replace("HERE", url))

    return run


def test_a_page_tells_of_each_recipient_and_where_it_goes_on(read):
    script = Script([(200, {}, {"value": [ROW], "@odata.nextLink": "https://graph/next"})])
    at = datetime(2026, 3, 1, 11, 30, tzinfo=UTC)
    expected = Trace("t1", "news@contoso.example", "Jan@x.nl", "<a@b>", "Hello", at, "delivered")
    assert read(script) == TracePage((expected,), "https://graph/next")
    asked = urlsplit(script.asked[0].path)
    assert asked.path == "/v1.0/admin/exchange/tracing/messageTraces"
    assert parse_qs(asked.query)["$filter"] == [
        "receivedDateTime ge 2026-03-01T11:00:05Z and receivedDateTime le 2026-03-01T12:00:05Z"
    ]


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("gettingStatus", "pending"),
        ("pending", "pending"),
        ("failed", "failed"),
        ("expanded", "expanded"),
        ("quarantined", "quarantined"),
        ("filteredAsSpam", "spam"),
        ("somethingNew", "pending"),
        (None, "pending"),
    ],
)
def test_every_status_has_a_word_of_ours_and_a_new_one_decides_nothing(read, told, status):
    assert [row.status for row in read(Script([(200, {}, {"value": [ROW | {"status": told}]})])).rows] == [status]


def test_a_row_that_cannot_be_used_is_passed_over(read):
    broken = [ROW | {"receivedDateTime": "soon"}, ROW | {"recipientAddress": None}, {}, ROW]
    assert len(read(Script([(200, {}, {"value": broken})])).rows) == 1


def test_the_next_page_is_asked_for_as_it_is_named_and_only_where_the_token_belongs(read):
    script = Script([(200, {}, {"value": []})])
    assert read(script, "HERE/v1.0/next?$skiptoken=7") == TracePage((), None)
    assert script.asked[0].path == "/v1.0/next?$skiptoken=7"
    with pytest.raises(MailTransientError, match="elsewhere"):
        read(script, "https://elsewhere.example/next")
    assert len(script.asked) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_without_the_permission_the_problem_names_it(read, status):
    answer = (status, {}, {"error": {"code": "Forbidden", "message": "no"}})
    with pytest.raises(TracesNotReadableError, match=f"ExchangeMessageTrace.Read.All is missing.*status {status}"):
        read(Script([answer]))


def test_a_throttle_and_an_answer_that_is_none_are_asked_again_later(read):
    with pytest.raises(MailThrottledError) as throttled:
        read(Script([(429, {"Retry-After": "17"}, {"error": {"code": "TooManyRequests", "message": ""}})]))
    assert throttled.value.retry_after == 17
    for body in (b"<html>", json.dumps({"value": 7}).encode()):
        with pytest.raises(MailError):
            read(Script([(200, {}, body)]))
