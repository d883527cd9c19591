"""Moments and milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqmail.clock import from_epoch_ms, to_epoch_ms, utc_now
from support.clock import START, MovableClock

moments = st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def test_the_present_is_aware_and_in_utc():
    assert utc_now().utcoffset() == timedelta(0)


def test_milliseconds_count_from_1970_in_any_zone():
    assert to_epoch_ms(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    moment = datetime(2026, 3, 10, 9, 30, 20, 123456, tzinfo=UTC)
    assert to_epoch_ms(moment) == 1773135020123
    assert to_epoch_ms(moment.astimezone(timezone(timedelta(hours=5, minutes=45)))) == 1773135020123


@given(moments)
def test_a_moment_in_milliseconds_is_never_later_and_less_than_one_millisecond_earlier(moment):
    back = from_epoch_ms(to_epoch_ms(moment))
    assert timedelta(0) <= moment - back < timedelta(milliseconds=1)


@given(st.integers(0, 7_000_000_000_000))
def test_milliseconds_survive_the_way_there_and_back(milliseconds):
    assert to_epoch_ms(from_epoch_ms(milliseconds)) == milliseconds


def test_the_clock_of_the_tests_moves_only_when_it_is_moved():
    clock = MovableClock()
    assert clock() == clock() == START
    assert clock.advance(seconds=1.5) == clock() == START + timedelta(seconds=1.5)
    assert clock.advance(timedelta(minutes=1), hours=-1) == START + timedelta(minutes=-59, seconds=1.5)
    assert clock.set(START) == clock.now == START
    with pytest.raises(ValueError, match="aware"):
        clock.set(datetime(2026, 3, 10))  # noqa: DTZ001
