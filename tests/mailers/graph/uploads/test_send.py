"""Only the send leaves it open whether a mail was accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailers.graph.uploads.sending import drafts
from rqmail.errors import (
    MailClaimLostError,
    MailError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailTransientError,
)
from rqmail.mailers.base import Permit
from rqmail.mailers.graph.size import RANGE_BYTES


@pytest.mark.parametrize("kind", ["accept-then-reset", "reset", "accept-then-504"])
def test_only_the_send_leaves_it_open_whether_the_mail_was_accepted(control, mailer, large, sandbox, token, kind):
    control.faults(kind, operation="send")
    with pytest.raises(MailOutcomeUnknownError):
        mailer.send(large)
    assert large.permit.taken is True
    assert len(drafts(sandbox, token)) == (kind == "reset"), "it proves that the mail was not sent"


def test_a_send_that_is_refused_leaves_no_draft(control, mailer, large, sandbox, token):
    control.faults("status", operation="send", status=400, code="ErrorInvalidRecipients")
    with pytest.raises(MailRejectedError):
        mailer.send(large)
    assert drafts(sandbox, token) == []


def test_a_draft_that_was_taken_away_before_the_send_is_certainly_not_sent(control, mailer, large):
    control.faults("status", operation="send", status=404, code="ErrorItemNotFound")
    with pytest.raises(MailTransientError, match="removed before it was sent"):
        mailer.send(large)


def test_the_permit_is_taken_for_the_send_alone(control, mailer, large, transport):
    taken = []
    mailer.send(replace(large, permit=Permit(lambda: taken.append(transport.steps[-1]))))
    assert taken == ["POST send"]


def test_the_claim_is_held_before_each_call_for_as_long_as_it_may_take(mailer, large, transport):
    held = []
    large.permit.holds.append(lambda seconds: held.append((len(transport.asked), round(seconds))))
    mailer.send(large)
    assert {asked for asked, _ in held} == set(range(len(transport.asked)))
    whole_range = round(2 * RANGE_BYTES / 100_000)
    assert [seconds for asked, seconds in held if asked in (2, 3)] == [whole_range, whole_range]


@pytest.mark.parametrize("lost_after", range(6))
def test_a_claim_that_is_lost_ends_the_upload_and_removes_its_draft(
    control, mailer, large, transport, sandbox, token, lost_after
):
    def hold(_seconds):
        if len(transport.asked) >= lost_after:
            raise MailClaimLostError("another has it")

    large.permit.holds.append(hold)
    with pytest.raises(MailClaimLostError):
        mailer.send(large)
    assert control.accepted() == []
    assert drafts(sandbox, token) == []


def test_no_error_and_no_cause_of_it_tells_the_address_to_upload_to(control, mailer, large, transport):
    control.faults("reset", count=None, operation="putRange")
    with pytest.raises(MailError) as caught:
        mailer.send(large)
    [token, *_] = {url.rsplit("/", 1)[1] for method, url, _, _ in transport.asked if method == "PUT"}
    link = caught.value
    while link is not None:
        assert token not in f"{link} {link!r}"
        link = link.__cause__ or link.__context__
