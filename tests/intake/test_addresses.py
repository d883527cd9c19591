"""Addresses: the fast way in never lets through what the thorough one refuses."""

import pytest
from email_validator import EmailNotValidError, validate_email
from hypothesis import example, given
from hypothesis import strategies as st

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import check_address, parse_addresses

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
            text.strip(), check_deliverability=False, test_environment=True, strict=True
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
