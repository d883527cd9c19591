"""The limiter on fakeredis, for the tests of applications that have no server; and what makes its scripts run there."""

from __future__ import annotations

from pathlib import Path

import fakeredis
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rqmail.ratelimit import limiter as module
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits

MAILBOX = "news@example.org"
STAND_IN = (
    (Path(module.__file__).parent / "struct.lua")
    .read_text()
    .replace("local struct = struct or (function()", "local stand_in = (function()")
)
SAME = """
local d, b, i, text = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local theirs = struct.pack('<dBI4dBc0', d, b, i, d, #text, text)
local ours = stand_in.pack('<dBI4dBc0', d, b, i, d, #text, text)
if theirs ~= ours then return 'packed otherwise' end
local one, two = {struct.unpack('<dBI4dBc0', theirs)}, {stand_in.unpack('<dBI4dBc0', theirs)}
for at = 1, 6 do if one[at] ~= two[at] then return 'unpacked otherwise at ' .. at end end
return struct.unpack('<I4', theirs, 10) == stand_in.unpack('<I4', theirs, 10) and 'same' or 'unpacked otherwise inside'
"""


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(double=0.0, small=0, large=0, text=b"")
@example(double=-1.5, small=255, large=2**32 - 1, text=b"\x00\xff")
@given(
    double=st.floats(min_value=-1e300, max_value=1e300, allow_subnormal=False).filter(lambda d: str(d) != "-0.0"),
    small=st.integers(0, 255),
    large=st.integers(0, 2**32 - 1),
    text=st.binary(max_size=20),
)
def test_the_stand_in_packs_and_unpacks_as_the_servers_own(redis_client, double, small, large, text):
    assert redis_client.eval(STAND_IN + SAME, 0, repr(double), small, large, text) == b"same"


@pytest.fixture
def limiter(clock):
    with fakeredis.FakeRedis() as redis:
        yield MailRateLimiter(redis, clock=clock)


def test_on_fakeredis_the_limiter_counts_denies_releases_and_pauses(limiter, clock):
    limits = RateLimits(per_minute=2, recipients_per_day=10)
    first = limiter.check_and_reserve(MAILBOX, 3, limits)
    second = limiter.check_and_reserve(MAILBOX, 4, limits)
    assert isinstance(first, Reservation)
    assert first.counted
    assert second.counted
    denial = limiter.check_and_reserve(MAILBOX, 1, limits)
    assert isinstance(denial, Denial)
    assert denial.reason == "minute"
    limiter.release(second)
    limiter.settle(first)
    usage = limiter.usage({MAILBOX: limits})[MAILBOX]
    assert (usage.minute.used, usage.day.used, usage.in_flight.used) == (1, 3, 0)
    clock.advance(seconds=61)
    assert limiter.check_and_reserve(MAILBOX, 8, limits).reason == "day"
    limiter.pause(MAILBOX, 5_000, "a reason")
    assert limiter.check_and_reserve(MAILBOX, 1, limits).pause_reason == "a reason"
    assert limiter.back_off(MAILBOX, 1_000, 9_000, "429") == 1_000
