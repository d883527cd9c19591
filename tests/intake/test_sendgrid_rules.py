"""What SendGrid's ``mail/send`` cannot carry is refused when it is handed in, and named with what is allowed."""

from __future__ import annotations

import pytest

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import Draft, check
from rqmail.intake.sender_rules import SenderRules, require_sender
from support.clock import START

SENDGRID = SenderRules(ascii_only=True, through_graph=False)
GOOD = {"sender": "default", "subject": "Hallo", "to": "jan@x.nl", "html": "<p>Dag"}


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"to": "", "bcc": "stil@x.nl"}, "to", "an address in to or cc too"),
        ({"headers": [("X-SG-EID", "1")]}, "headers", "no X-SG-EID: this sender's mail leaves through SendGrid"),
        ({"headers": [("x-sg-id", "1")]}, "headers", "which writes it"),
        ({"to": "zoë@x.nl"}, "to", "letters of ASCII before the @"),
    ],
)
def test_what_sendgrid_takes_in_no_mail_is_refused_for_it_and_taken_for_graph(change, field, said):
    with pytest.raises(InvalidInputError) as refused:
        check(Draft(**(GOOD | change)), START, SENDGRID)
    assert refused.value.field == field
    assert said in refused.value.allowed
    check(Draft(**(GOOD | change)), START)


@pytest.mark.parametrize(
    "change",
    [
        {"to": "", "cc": "jan@x.nl"},
        {"to": '"Vries, Jan de" <jan@x.nl>'},
        {"reply_to": ["a@x.nl", "A@x.nl"]},
        {"headers": [("X-Naam", "Zoë")]},
    ],
)
def test_what_sendgrid_takes_in_another_form_is_taken(change):
    check(Draft(**(GOOD | change)), START, SENDGRID)


def test_a_mail_of_a_sender_through_sendgrid_is_bounded_by_what_sendgrid_takes(database):
    assert require_sender("default", 35 * 1024 * 1024).max_message_bytes < 30 * 1024 * 1024
    assert require_sender("default", 1_000_000).max_message_bytes == 1_000_000
