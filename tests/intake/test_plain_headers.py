"""Headers as nearly all programs write them are read the short way, and come out as they do the long way."""

from __future__ import annotations

from email.header import Header
from email.parser import HeaderParser
from email.policy import compat32

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rqmail.intake.eml.headers import Address, addresses_of, read_addresses
from rqmail.intake.eml.plain import message_of, names_and_addresses

_LINES = st.lists(
    st.one_of(
        st.text("aX-: \t\r\n=é\x0b\x85\u2028", max_size=12),
        st.sampled_from(["From: a@x", "From a", "Subject:  hello ", " folded", "\tfolded", "To:", "\r", ""]),
    ),
    max_size=6,
)


@given(_LINES, st.sampled_from(["\r\n", "\n"]), st.sampled_from(["", "\r\n", "\n"]))
@settings(max_examples=300, deadline=None)
def test_headers_are_told_apart_as_the_library_does(lines: list[str], newline: str, end: str) -> None:
    text = newline.join(lines) + end
    plain = message_of(text)
    if plain is not None:
        read = HeaderParser(policy=compat32).parsestr(text, headersonly=True)
        assert list(plain.raw_items()) == list(read.raw_items())
        assert (plain.get_content_type(), plain.get_content_charset()) == (
            read.get_content_type(),
            read.get_content_charset(),
        )


_NAMES = st.one_of(
    st.text("abZé漢1 ,.()'&-_\"\\@=?:;\t", max_size=10),
    st.text(max_size=6),
    st.text(max_size=8).map(lambda name: Header(name, "utf-8").encode()),
    st.sampled_from(
        ["=?utf-8?q?Zo=C3=AB?=", "=?UTF-8?B?Wm/Dqw==?=", "=?utf-8?q?_a__b_?=", "=?utf-8?q?=ff?=", "=?utf-8?b?x?="]
    ),
)
_ADDRESSES = st.one_of(st.emails(), st.text("ab1.-+_@", max_size=8), st.sampled_from(["a@x.nl", "a.b+c@x-y.example"]))
_ONES = st.one_of(
    _ADDRESSES,
    st.builds(lambda name, address: f"{name} <{address}>", _NAMES, _ADDRESSES),
    st.builds(lambda name, address: f'"{name}" <{address}>', _NAMES, _ADDRESSES),
    st.text('a@x.,;<> \t"()', max_size=8),
)


@given(st.lists(_ONES, min_size=1, max_size=3), st.sampled_from([",", ", ", ",\t"]))
@example(['"Berg, Zoë van den (NL)" <a@x.nl>', "Jörg <j.m@y-z.de>"], ", ")
@example(["=?utf-8?b?x?= <a@x.nl>", "=?utf-8?q?=ff?= <a@x.nl>"], ",")
@settings(max_examples=300, deadline=None)
def test_addresses_are_read_as_the_library_reads_them(ones: list[str], between: str) -> None:
    text = between.join(ones)
    assert addresses_of("to", text) == read_addresses("to", text)


@pytest.mark.parametrize(
    "text",
    [
        "a@x.nl",
        "Zoe van den Berg <a@x.nl>",
        '"Berg, Zoë" <a@x.nl>',
        "=?utf-8?q?Zo=C3=AB?= <a@x.nl>",
        "a@x.nl, B <b@y.de>",
    ],
)
def test_what_most_programs_write_goes_the_short_way(text: str) -> None:
    short = names_and_addresses(text)
    assert short is not None
    assert [Address(address, name) for name, address in short] == read_addresses("to", text)
