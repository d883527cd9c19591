"""The last hour, drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqmail.metrics import Minute
from rqmail.web.pages.chart import HEIGHT, draw, round_up
from support.clock import START

counts = st.integers(0, 100_000)


@pytest.mark.parametrize(
    ("number", "top"), [(0, 10), (10, 10), (11, 20), (29, 30), (41, 60), (61, 80), (81, 100), (801, 1000), (4001, 6000)]
)
def test_the_top_line_is_a_round_number(number, top):
    assert round_up(number) == top


@given(st.lists(st.builds(Minute, st.just(START), counts, counts, counts), min_size=1, max_size=60))
def test_no_bar_is_higher_than_the_chart_and_all_stand_on_each_other(hour):
    for column in draw(hour).columns:
        heights = [bar.height for bar in column.bars]
        assert sum(heights) <= HEIGHT + 0.1
        assert sum(heights) == pytest.approx(HEIGHT - min((bar.y for bar in column.bars), default=HEIGHT), abs=0.1)


def test_an_hour_nobody_can_tell_of_is_empty():
    assert draw([]).columns == ()
