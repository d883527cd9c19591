"""Addresses: the fast way in never lets through what the thorough one refuses."""

import sys
import time

import pytest
from email_validator import EmailNotValidError, validate_email
from hypothesis import example, given
from hypothesis import strategies as st

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import MAX_ADDRESSES, MAX_LINE_LENGTH, check_address, parse_addresses
from rqmail.mailers.base import wire_address
from rqmail.text.values import without_unseen_edges

LOCALS = st.text(st.sampled_from("abzAZ019_.+-!#'\"@ \\é\n"), max_size=70)
LABELS = st.text(st.sampled_from("abz019-_é"), max_size=8)
DOMAINS = st.lists(LABELS, max_size=5).map(".".join) | st.sampled_from(
    [
        "x.nl",
        "münchen.de",
        "xn--mnchen-3ya.de",
        "example.test",
        "localhost",
        "host.local",
        "[127.0.0.1]",
        "X.NL",
        "x.nl.",
    ]
)


@given(st.builds("{}@{}".format, LOCALS, DOMAINS) | st.text(max_size=40) | st.emails())
@example("a" * 64 + "@" + "b" * 60 + ".nl")
@example("INFO@x.nl")
@example("info@X.NL")
@example("a@" + ".".join(["b" * 60] * 4) + ".nl")
@example("a" * 65 + "@x.nl")
def test_an_address_is_accepted_and_written_just_as_email_validator_does(text):
    try:
        expected = validate_email(
            without_unseen_edges(text), check_deliverability=False, test_environment=True, strict=True
        ).normalized
    except EmailNotValidError:
        expected = None
    try:
        found = check_address(text, "to")
    except InvalidInputError as error:
        assert error.field == "to"
        found = None
    assert found == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a@x.nl", [("a@x.nl", "")]),
        (" a@x.nl ;b@x.nl, c@x.nl ;", [("a@x.nl", ""), ("b@x.nl", ""), ("c@x.nl", "")]),
        ("Jörg Müller <j@x.de>", [("j@x.de", "Jörg Müller")]),
        ('"Jansen, Jan; jr." <a@x.nl>, b@x.nl', [("a@x.nl", "Jansen, Jan; jr."), ("b@x.nl", "")]),
        (r'"Jan \"de Man\" Smit" <a@x.nl>', [("a@x.nl", 'Jan "de Man" Smit')]),
        ("<a@x.nl>", [("a@x.nl", "")]),
        ("O'Neill, S. <a@x.nl>", None),
        ("Jan <a@x.nl", None),
        ("Jan <>", None),
        ('"Jan <a@x.nl>', None),
        ("Jan a@x.nl", None),
        ("Jan <a@x.nl> <b@x.nl>", None),
        ("x" * 257 + " <a@x.nl>", None),
    ],
)
def test_a_line_of_addresses_is_split_and_named(line, expected):
    if expected is None:
        with pytest.raises(InvalidInputError):
            parse_addresses(line, "to")
    else:
        assert [(to.address, to.name) for to in parse_addresses(line, "to")] == expected


@given(st.text(max_size=60))
def test_any_text_is_either_addresses_or_an_error_that_names_the_field(text):
    try:
        for to in parse_addresses(text, "cc"):
            assert "@" in to.address
            assert "\n" not in to.address + to.name
    except InvalidInputError as error:
        assert error.field == "cc"


INVISIBLE = "\u200b\ufeff\u200e\u200f\u202a\u202e\u2066\u2069\u00ad\u2060\u00a0\u3000\u2028\t\n"


@pytest.mark.parametrize("sign", INVISIBLE, ids=[f"U+{ord(sign):04X}" for sign in INVISIBLE])
def test_what_cannot_be_seen_is_taken_off_the_edges_and_named_inside(sign):
    assert check_address(f"{sign}a@x.nl{sign}{sign}", "to") == "a@x.nl"
    [named] = parse_addresses(f"{sign}Jörg{sign} {sign}<{sign}j@x.de{sign}>{sign};{sign}", "to")
    assert (named.name, named.address) == ("Jörg", "j@x.de")
    [quoted] = parse_addresses(f'{sign}"{sign}Jörg{sign}"{sign}<j@x.de>', "to")
    assert (quoted.name, quoted.address) == ("Jörg", "j@x.de")
    for inside in (f"a{sign}b@x.nl", f"a@x{sign}.nl", f"a{sign}@x.nl"):
        with pytest.raises(InvalidInputError, match=f"U\\+{ord(sign):04X}"):
            check_address(inside, "to")


def steps_for(line):
    """Count the lines of Python that reading a line of addresses takes: no clock, no luck."""
    steps = 0

    def count(_frame, event, _argument):
        nonlocal steps
        steps += event in {"line", "c_call"}
        return count

    sys.settrace(count)
    try:
        parse_addresses(line, "to")
    except InvalidInputError:
        pass
    finally:
        sys.settrace(None)
    return steps


SEEDS = [
    "x,<",
    " ",
    "<",
    ">",
    '"',
    "\\",
    '\\"',
    "a@x.nl,",
    "Jan <a@x.nl>;",
    '"Jan, jr." <a@x.nl>,',
    "< >",
    '" <',
    "\u200b",
]


@pytest.mark.parametrize("before", ["", "x,<", '"'])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("after", ["", "x,<", ">"])
def test_four_times_the_text_takes_four_times_the_work(before, seed, after):
    once, four_times = (before + seed * length + after for length in (200, 800))
    assert steps_for(four_times) <= 6 * steps_for(once) + 1_000


@pytest.mark.parametrize(
    "line", [" " * 100_000 + "x,<", "<" * 100_000, '"\\' * 60_000, '"' * 100_000, "a" * 100_000 + ">"]
)
def test_a_hostile_line_is_refused_at_once(line):
    began = time.process_time()
    with pytest.raises(InvalidInputError) as refused:
        parse_addresses(line, "to")
    assert time.process_time() - began < 2  # the cubic expression took hours for these
    assert len(str(refused.value)) < 1_000


def test_length_and_number_of_addresses_are_bounded():
    with pytest.raises(InvalidInputError, match=r"200,000"):
        parse_addresses("a" * (MAX_LINE_LENGTH + 1), "to")
    assert len(parse_addresses("a@x.nl," * MAX_ADDRESSES, "to")) == MAX_ADDRESSES
    with pytest.raises(InvalidInputError, match=r"at most 1,000"):
        parse_addresses("a@x.nl," * (MAX_ADDRESSES + 1), "to")


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        ("a@x.nl", "a@x.nl"),
        ("a@münchen.de", "a@xn--mnchen-3ya.de"),
        ("a@MÜNCHEN.de", "a@xn--mnchen-3ya.de"),
        ("a@straße.de", "a@xn--strae-oqa.de"),  # 2008; the older rules made strasse of it
        ("jörg@müller.例え", "jörg@xn--mller-kva.xn--r8jz45g"),
    ],
)
def test_a_domain_in_another_script_is_stored_as_it_is_and_sent_as_ascii(stored, sent):
    assert wire_address(stored) == sent
    assert wire_address(check_address(stored, "to")) == sent
