"""Frozen in the middle of a send, past lease and grace: what others have sent by then is not sent again on waking."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliability.dying import Moment, frozen_at
from reliability.running import Running
from rqmail.models.message import MessageStatus
from support.messages import new_message, reloaded

S = MessageStatus

#: Every wait between the claim and the first byte of the request.
WAITS = {
    "SENDING": Moment("worker", "after", "rqmail.models.message:Message.start_sending"),
    "before the reservation": Moment("worker", "before", "rqmail.ratelimit.limiter:MailRateLimiter.check_and_reserve"),
    "reserved": Moment("worker", "after", "rqmail.ratelimit.limiter:MailRateLimiter.check_and_reserve"),
    "before the token": Moment("worker", "before", "rqmail.mailers.graph.token:GraphTokenSource.token"),
    "token in hand": Moment("worker", "after", "rqmail.mailers.graph.token:GraphTokenSource.token"),
    "connected": Moment("worker", "after", "rqmail.mailers.http.pool:TlsConnection.connect"),
}


#: A second lane might be frozen in the middle of a write, and SQLite has one writer.
ONE_LANE = {"RQMAIL_SEND_LANES": "1"}


@pytest.mark.parametrize("name", WAITS)
def test_what_others_sent_while_a_worker_was_frozen_is_not_sent_again_when_it_wakes(
    running: Running, tmp_path: Path, name: str
):
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    ids = running.submit(*(new_message() for _ in range(6)))
    running.app.dispatcher.tick()
    with frozen_at(WAITS[name], running.environment | ONE_LANE, ahead):
        running.settle()
        assert sorted(running.accepted()) == sorted(ids)
        ahead.write_text(str(running.clock.ahead.total_seconds()))
    running.settle()
    assert sorted(running.accepted()) == sorted(ids)
    assert {reloaded(message_id).status for message_id in ids} == {S.SENT}


@pytest.mark.parametrize("name", WAITS)
def test_frozen_for_a_moment_only_a_worker_goes_on_with_what_it_has(running: Running, tmp_path: Path, name: str):
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    ids = running.submit(new_message(), new_message())
    running.app.dispatcher.tick()
    with frozen_at(WAITS[name], running.environment | ONE_LANE, ahead):
        ahead.write_text("3")
        running.clock.advance(seconds=3)
        running.app.recovery.run()
    assert sorted(running.accepted()) == sorted(ids)
    assert [reloaded(message_id).status for message_id in ids] == [S.SENT, S.SENT]
