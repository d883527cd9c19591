from __future__ import annotations

import dataclasses

import pytest

from rqmail.errors import InvalidInputError
from rqmail.ratelimit.limits import RateLimits, mailbox_key, resolve_limits
from rqmail.ratelimit.scopes import TenantBudgets, external_of_licences
from rqmail.ratelimit.spread import compute_spread_ms


def test_the_defaults_stay_below_what_exchange_allows():
    assert RateLimits() == RateLimits(per_minute=25, recipients_per_day=9000, in_flight=3)


def test_limits_are_a_value_that_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RateLimits().per_minute = 30  # type: ignore[misc]


@pytest.mark.parametrize("field", ["per_minute", "recipients_per_day", "in_flight"])
def test_no_limit_is_below_one(field):
    with pytest.raises(InvalidInputError, match=field):
        RateLimits(**{field: 0})


@pytest.mark.parametrize(
    ("per_minute", "per_day", "expected"),
    [
        (None, None, RateLimits(25, 9000)),
        (0, -1, RateLimits(25, 9000)),
        (10, None, RateLimits(10, 9000)),
        (None, 500, RateLimits(25, 500)),
        (1, 1, RateLimits(1, 1)),
    ],
)
def test_a_limit_that_is_empty_or_not_positive_falls_back_to_the_default(per_minute, per_day, expected):
    assert resolve_limits(per_minute, per_day) == expected


def test_the_defaults_may_be_those_of_the_settings():
    own = RateLimits(5, 50, 2)
    assert resolve_limits(None, 60, defaults=own) == RateLimits(5, 60, 2)


@pytest.mark.parametrize("address", ["Info@Example.org", " info@example.org ", "INFO@EXAMPLE.ORG\n"])
def test_a_mailbox_has_one_key_however_its_address_is_written(address):
    assert mailbox_key(address) == "info@example.org"


#: What JavaScript's trim() takes off, and what cannot be seen although it is no white space.
UNSEEN = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f"
    "\u3000\ufeff\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u00ad\u2060"
)


@pytest.mark.parametrize("around", [*UNSEEN, UNSEEN])
def test_what_cannot_be_seen_around_an_address_makes_no_second_mailbox(around):
    assert mailbox_key(f"{around}Info@example.org{around}") == "info@example.org"


def test_what_cannot_be_seen_inside_an_address_stays():
    assert mailbox_key("in\u200bfo@example.org") == "in\u200bfo@example.org"


@pytest.mark.parametrize(
    ("message_id", "fnv1a"),
    [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)],
)
def test_the_spread_is_fnv1a_of_the_id_within_thirty_seconds(message_id, fnv1a):
    assert compute_spread_ms(message_id) == fnv1a % 30_000


def test_the_spread_counts_bytes_of_utf8():
    assert compute_spread_ms("é") == compute_spread_ms(b"\xc3\xa9".decode())
    assert 0 <= compute_spread_ms("é" * 100) < 30_000


def test_two_hundred_messages_do_not_come_back_in_one_instant():
    assert len({compute_spread_ms(f"message-{n}") for n in range(200)}) > 190


@pytest.mark.parametrize(("licences", "external"), [(1, 10_000), (100, 22_059), (1_000, 72_446)])
def test_a_tenant_may_reach_as_many_people_outside_as_microsofts_formula_says(licences, external):
    assert external_of_licences(licences) == external


def test_a_mailbox_shares_the_day_of_its_own_entra_tenant_and_knows_who_is_inside():
    tenants = TenantBudgets.told(
        "Contoso",
        {"": 100, "other": 1},
        {"third": 7},
        {"": frozenset({"bücher.example"}), "other": frozenset({"x.nl"})},
    )
    own, same = tenants.of(None, "a@contoso.example"), tenants.of("CONTOSO", "b@contoso.example")
    assert own == same
    assert [(one.name, one.key, one.external_per_day) for one in own.scopes] == [("tenant", "entra/contoso", 22_059)]
    addresses = ("B@Contoso.Example", "c@bücher.example", "d@xn--bcher-kva.example", "e@x.nl", "f@x.nl")
    assert own.external_of(addresses) == 2
    assert tenants.of("other", "a@b.example").scopes[0].external_per_day == 10_000
    assert tenants.of("third", "a@b.example").external_of(addresses) == 5
    assert tenants.of("fourth", "a@b.example").external_of(addresses) == 0
    raw = tenants.of(None, "a@Contoso.onmicrosoft.com").scopes
    assert [(one.name, one.external_per_day) for one in raw] == [("tenant", 22_059), ("onmicrosoft", 100)]
    assert [one.key for one in tenants.of("fourth", "a@b.onmicrosoft.com").scopes] == ["entra/fourth/onmicrosoft"]
