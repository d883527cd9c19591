"""Needs a decision: in groups of what was lost together, decided together, with the evidence at hand."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

import rqmail.delivery.recovery
from rqmail.models.base import pooled_connection
from rqmail.models.message import MessageStatus
from rqmail.web.pages import decisions
from support.messages import message_in, reloaded

S = MessageStatus


@pytest.fixture
def lost(clock):
    """Thirty-six messages of one mailbox, lost in one minute; one lost later; one of another mailbox."""
    with pooled_connection():
        common = {"last_error": "HTTP 504", "sender": "mailbox:news", "mailbox_key": "news@x.nl"}
        one_minute = clock().replace(second=0, microsecond=0)
        together = [
            message_in(
                S.UNKNOWN, attempted_on=one_minute + timedelta(seconds=number), subject="Newsletter", **common
            ).id
            for number in range(36)
        ]
        later = message_in(S.UNKNOWN, attempted_on=one_minute + timedelta(minutes=3), **common).id
        other = message_in(S.UNKNOWN, attempted_on=one_minute, **{**common, "sender": "mailbox:info"}).id
    return together, later, other


def form(page, text):
    """The form with this button: where it leads, and which messages it is about."""
    [found] = [one for one in re.findall(r"<form.*?</form>", page, re.S) if text in one and 'name="ids"' in one]
    return re.search(r'action="([^"]+)"', found)[1].replace("&amp;", "&"), re.findall(
        r'name="ids" value="([^"]+)"', found
    )


def states(ids):
    with pooled_connection():
        return {reloaded(one).status for one in ids}


def test_what_was_lost_together_is_one_group(admin, lost):
    together, *_ = lost
    page = admin.look("/ui/decisions")
    assert page.count("<article") == 3
    _, ids = form(page, "Confirm these 36")
    assert sorted(ids) == sorted(together)
    assert page.count("Newsletter") > 36


@pytest.mark.parametrize(
    ("action", "becomes"), [("confirm-sent", S.SENT), ("resend", S.SCHEDULED), ("discard", S.CANCELLED)]
)
def test_a_group_is_decided_at_once_and_one_stays_in_place(admin, application, lost, action, becomes):
    _, later, other = lost
    where, ids = form(admin.look("/ui/decisions"), "Confirm these 36")
    spared = ids.pop()
    answer = admin.send(where, {"sure": action, "scope": "selected", "ids": ids})
    assert answer.status_code == 303
    assert re.fullmatch(r"/ui/decisions(#d-.+)?", answer.headers["Location"])
    assert states(ids) == {becomes}
    assert states([spared, later, other]) == {S.UNKNOWN}
    assert application.audit.lines()[0].after == {"affected": 35}


def test_more_than_a_page_of_a_list_is_decided_at_once(admin, clock):
    with pooled_connection():
        ids = [message_in(S.UNKNOWN, attempted_on=clock(), last_error="lost").id for _ in range(70)]
    where, shown = form(admin.look("/ui/decisions"), "Confirm these 70")
    admin.send(where, {"sure": "confirm-sent", "scope": "selected", "ids": shown})
    assert states(ids) == {S.SENT}


def test_that_the_app_may_not_read_the_mailbox_is_said_once_and_what_to_do(admin, beheerder):
    text = Path(rqmail.delivery.recovery.__file__).read_text()
    assert decisions._MAY_NOT_READ in text  # what recovery writes is what is looked for
    with pooled_connection():
        for _ in range(5):
            message_in(S.UNKNOWN, last_error=f"… ({decisions._MAY_NOT_READ}).", sender="mailbox:news")
    assert admin.look("/ui/decisions").count("grant it to the app") == 1
    assert "Mail.Read ontbreekt voor mailbox:news" in beheerder.look("/ui/decisions")


def test_who_only_reads_sees_the_groups_and_no_button(reader, lost):
    page = reader.look("/ui/decisions")
    assert "36 messages" in page
    assert 'name="ids"' not in page
    assert "Confirm these" not in page
