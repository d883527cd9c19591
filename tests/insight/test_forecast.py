"""When a backlog will be through: what its mailbox has used, its pace and its pauses in the limiter's own windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rqmail.clock import to_epoch_ms
from rqmail.insight.forecast import Backlog, budgets_of, done_on
from rqmail.insight.simulation import Lot
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.usage import Held
from support.clock import START

NOW = START.replace(microsecond=0)
AGO_20_S = to_epoch_ms(NOW) - 20_000


def ends(backlog, *, limits=RateLimits(), pacing="burst", rolling=True, held=Held(), paused_until=None):  # noqa: B008
    budgets = budgets_of(limits, held, rolling=rolling, pacing=pacing, paused_until=paused_until)
    return done_on(budgets, backlog.lots, NOW)


@pytest.mark.parametrize(
    ("messages", "used", "seconds"),
    [(0, 0, 0), (25, 0, 0), (26, 0, 60), (100, 0, 180), (100, 25, 40 + 180), (20, 10, 40)],
)
def test_a_burst_leaves_as_the_minutes_calls_come_free(messages, used, seconds):
    held = Held(calls=((AGO_20_S, used),)) if used else Held()
    assert ends(Backlog(messages, messages), held=held) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("messages", "limit", "used", "seconds"),
    [(25, 25, 0, 0), (26, 25, 0, 60), (40, 20, 0, 60 + 19 * 2.4), (20, 20, 20, 40 + 19 * 2.4)],
)
def test_an_even_pace_is_told_place_by_place_and_who_need_not_wait_is_not_paced(messages, limit, used, seconds):
    held = Held(calls=((AGO_20_S, used),)) if used else Held()
    done = ends(Backlog(messages, messages), limits=RateLimits(limit), pacing="even", held=held)
    assert (done - NOW).total_seconds() == pytest.approx(seconds, abs=0.001)


def test_a_days_recipients_come_free_with_the_ten_minutes_in_which_they_were_counted():
    assert ends(Backlog(9_000, 9_000)) == NOW + timedelta(minutes=359)
    assert ends(Backlog(9_001, 9_001)) == datetime(2026, 3, 11, 9, 40, tzinfo=UTC)
    third_day = datetime(2026, 3, 12, 9, 51, tzinfo=UTC)
    assert ends(Backlog(18_040, 18_040)) == third_day
    assert ends(Backlog(18_040, 18_040), pacing="even") == third_day + timedelta(seconds=14 * 1.92)
    assert ends(Backlog(9_001, 9_001), rolling=False) == datetime(2026, 3, 11, tzinfo=UTC)


def test_a_pause_is_waited_for_where_it_ends_and_nobody_is_told_an_end_where_there_is_none():
    assert ends(Backlog(1, 1), paused_until=NOW + timedelta(hours=3)) == NOW + timedelta(hours=3)
    assert ends(Backlog(1, 1), paused_until=NOW + timedelta(days=3_650)) is None
    assert ends(Backlog(1, 101), limits=RateLimits(25, 100)) is None
    assert ends(Backlog(100_000_000, 100_000_000), limits=RateLimits(25, 1)) is None


@pytest.mark.parametrize("backlog", [Backlog(), Backlog(7, 7), Backlog(7, 20), Backlog(3, 1_500)])
def test_the_lots_of_a_backlog_are_all_of_its_messages_with_all_of_its_recipients(backlog):
    assert sum(lot.messages for lot in backlog.lots) == backlog.messages
    assert sum(lot.messages * lot.recipients_each for lot in backlog.lots) == backlog.recipients
    assert backlog.without(2).messages == max(0, backlog.messages - 2)
    assert Lot(0, 1) not in backlog.without(100).lots
