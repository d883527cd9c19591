"""Our copies in Sent Items, as rqmail's own client finds and removes them at the sandbox."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.errors import MailTransientError
from rqmail.mailers.graph.copies import SentCopies
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.message import ID_PROPERTY
from rqmail.mailers.http.transport import Transport
from sandbox.graph_client import SENDER, message


class _Token:
    def __init__(self, graph) -> None:
        self.token = graph.fresh_token
        self.renewed = lambda refused, claims: graph.fresh_token()


@pytest.fixture
def http(sandbox, graph):
    transport = Transport(connect_timeout=5, answer_timeout=5, ca_bundle=sandbox.ca_file)
    yield GraphHttp(transport, _Token(graph))
    transport.close()


@pytest.fixture
def copies(sandbox, http, sandbox_clock) -> SentCopies:
    return SentCopies(http, sandbox.base_url, SENDER, clock=sandbox_clock)


def ours(rqmail_id: str):
    return message(singleValueExtendedProperties=[{"id": ID_PROPERTY, "value": rqmail_id}])


def test_our_copies_are_listed_over_all_pages_and_nobody_elses(graph, copies, sandbox_clock):
    for number in range(103):
        graph.send(ours(f"m-{number}"), mailbox=SENDER)
        if number % 25 == 0:
            sandbox_clock.advance(minutes=2)
    graph.send(message())
    sandbox_clock.advance(minutes=5)
    listed = [copy.message_id for page in copies.pages(sandbox_clock()) for copy in page]
    assert sorted(listed) == sorted(f"m-{number}" for number in range(103))
    assert list(copies.pages(sandbox_clock() - timedelta(days=1))) == [[]]


def test_a_removed_copy_is_gone_for_good_and_removing_it_twice_is_well(graph, copies, http, sandbox, sandbox_clock):
    graph.send(ours("m-1"))
    sandbox_clock.advance(minutes=5)
    [[copy]] = copies.pages(sandbox_clock())
    copies.remove(copy)
    copies.remove(copy)
    assert list(copies.pages(sandbox_clock())) == [[]]
    assert graph.call("GET", "/messages").json()["value"] == []
    assert GraphMailbox(http, sandbox.base_url, SENDER).find_sent("m-1", sandbox_clock() - timedelta(days=1)) is None


def test_a_mailbox_that_cannot_be_pruned_now_says_why(control, copies, sandbox_clock):
    control.faults("status", status=409, operation="listMessages")
    with pytest.raises(MailTransientError):
        next(copies.pages(sandbox_clock()))
