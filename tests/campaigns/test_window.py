"""Sending windows: hours and days, by the clocks of a zone, past midnight and over the change of summer time."""

from __future__ import annotations

from datetime import datetime

import pytest

from rqmail.campaigns.window import parse_window, window_of
from rqmail.errors import InvalidInputError

ZONE = "Europe/Amsterdam"


@pytest.mark.parametrize(
    ("between", "weekdays", "moment", "is_open"),
    [
        ("08:00-20:00", None, "2026-12-03T07:59:59+01:00", False),
        ("08:00-20:00", None, "2026-12-03T08:00:00+01:00", True),
        ("08:00-20:00", None, "2026-12-03T18:59:00+00:00", True),
        ("08:00-20:00", None, "2026-12-03T20:00:00+01:00", False),
        ("08:00-20:00", "mon-fri", "2026-12-05T12:00:00+01:00", False),
        ("08:00-20:00", "sat, sun", "2026-12-05T12:00:00+01:00", True),
        ("22:00-02:00", "fri", "2026-12-05T01:00:00+01:00", True),
        ("22:00-02:00", "fri", "2026-12-06T01:00:00+01:00", False),
        ("8:00-24:00", None, "2026-12-03T23:59:00+01:00", True),
        (None, "fri-mon", "2026-12-06T03:00:00+01:00", True),
        (None, "fri-mon", "2026-12-08T03:00:00+01:00", False),
        ("08:00-20:00", None, "2026-07-03T06:00:00+00:00", True),
        ("08:00-20:00", None, "2026-12-03T07:00:00+00:00", True),
        ("08:00-20:00", None, "2026-12-03T06:59:00+00:00", False),
    ],
)
def test_mail_goes_out_in_these_hours_of_these_days(between, weekdays, moment, is_open):
    window = parse_window(between, weekdays, ZONE)
    assert window.is_open(datetime.fromisoformat(moment)) is is_open
    assert window_of(window.to_column()) == window


@pytest.mark.parametrize(
    ("between", "weekdays", "moment", "opens"),
    [
        ("08:00-20:00", None, "2026-12-03T12:00:00+01:00", "2026-12-03T12:00:00+01:00"),
        ("08:00-20:00", None, "2026-12-03T21:00:00+01:00", "2026-12-04T08:00:00+01:00"),
        ("08:00-20:00", "mon-fri", "2026-12-04T21:00:00+01:00", "2026-12-07T08:00:00+01:00"),
        ("08:00-20:00", None, "2026-03-28T21:00:00+01:00", "2026-03-29T08:00:00+02:00"),
        ("08:00-20:00", "thu", "2026-12-03T21:00:00+01:00", "2026-12-10T08:00:00+01:00"),
    ],
)
def test_it_opens_next_at_this_moment(between, weekdays, moment, opens):
    window = parse_window(between, weekdays, ZONE)
    assert window.opens_after(datetime.fromisoformat(moment)) == datetime.fromisoformat(opens)


@pytest.mark.parametrize(
    ("between", "weekdays", "zone", "field"),
    [
        ("8-20", None, ZONE, "between"),
        ("08:00-25:00", None, ZONE, "between"),
        ("08:00-20:00", "workdays", ZONE, "weekdays"),
        ("08:00-20:00", None, "Europe/Amsterdm", "timezone"),
        ("08:00-20:00", None, None, "timezone"),
        (None, None, ZONE, "timezone"),
    ],
)
def test_what_cannot_be_read_is_named(between, weekdays, zone, field):
    with pytest.raises(InvalidInputError, match=field):
        parse_window(between, weekdays, zone)


def test_nothing_typed_is_no_window():
    assert parse_window(None, None, None) is None
