"""Until the draft is sent everything is certain: what breaks leaves no draft and sends nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mailers.graph.uploads.sending import WHOLE, attached, drafts, file
from rqmail.errors import (
    MailboxNotWritableError,
    MailboxUnavailableError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
)


@pytest.mark.parametrize("operation", ["createDraft", "addAttachment", "createUploadSession", "listAttachments"])
@pytest.mark.parametrize("kind", ["accept-then-reset", "reset", "accept-then-504", "truncated-json"])
def test_whatever_is_lost_before_the_send_is_certain_and_leaves_no_draft(
    control, mailer, large, sandbox, token, operation, kind
):
    if operation == "listAttachments":
        control.faults("status", status=404, operation="putRange")
    status = {"status": 500} if kind == "truncated-json" else {}
    control.faults(kind, operation=operation, **status)
    with pytest.raises(MailTransientError, match="nothing was sent"):
        mailer.send(replace(large, files=(file("a.txt", b"a"), file())))
    assert control.accepted() == []
    assert drafts(sandbox, token) == []
    assert large.permit.taken is False


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"status": 429, "headers": {"Retry-After": "9"}}, MailThrottledError),
        ({"status": 507, "code": "ErrorQuotaExceeded"}, MailboxUnavailableError),
        ({"status": 400, "code": "ErrorInvalidRecipients"}, MailRejectedError),
        ({"status": 403, "code": "ErrorAccessDenied"}, MailboxNotWritableError),
        ({"status": 403, "code": "ErrorAccessDenied", "message": "[RAOP] no"}, MailboxUnavailableError),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("operation", ["createDraft", "createUploadSession"])
def test_what_graph_answers_before_the_send_means_what_it_means(control, mailer, large, fault, expected, operation):
    control.faults("status", operation=operation, **fault)
    with pytest.raises(expected) as caught:
        mailer.send(large)
    assert (type(caught.value) is MailboxNotWritableError) == (expected is MailboxNotWritableError)


def test_without_mail_readwrite_a_large_mail_waits_with_just_that_reason_and_a_small_one_goes(
    control, mailer, large, mail
):
    control.configure(directory={"may_write_mail": False})
    with pytest.raises(MailboxNotWritableError, match=r"^Mail\.ReadWrite is missing for mails over 4 MB"):
        mailer.send(large)
    with pytest.raises(MailboxNotWritableError, match=r"^Mail\.ReadWrite is missing for mails over 4 MB"):
        mailer.send(replace(large, tried_before=True))
    mailer.send(mail)
    assert len(control.accepted()) == 1


def test_a_mailbox_that_is_full_in_the_middle_is_said_to_be_full_at_once(control, mailer, large, sleeps):
    control.faults("status", status=507, code="ErrorQuotaExceeded", operation="putRange")
    with pytest.raises(MailboxUnavailableError, match="full"):
        mailer.send(large)
    assert sleeps == []


def test_what_an_earlier_attempt_left_is_removed_before_a_new_draft_is_made(control, mailer, large, sandbox, token):
    control.faults("accept-then-reset", operation="createDraft")
    control.faults("status", status=503, operation="deleteMessage", count=None)
    with pytest.raises(MailTransientError):
        mailer.send(large)
    assert len(drafts(sandbox, token)) == 1
    control.clear_faults()
    mailer.send(replace(large, tried_before=True))
    assert attached(control) == WHOLE
    assert drafts(sandbox, token) == []


def test_a_draft_of_an_earlier_attempt_that_just_left_may_have_been_sent(control, mailer, large):
    control.faults("accept-then-reset", operation="createDraft")
    control.faults("status", status=503, operation="deleteMessage")
    with pytest.raises(MailTransientError):
        mailer.send(large)
    control.faults("status", status=404, code="ErrorItemNotFound", operation="deleteMessage")
    with pytest.raises(MailOutcomeUnknownError, match="may have sent the mail after all"):
        mailer.send(replace(large, tried_before=True))
    assert control.accepted() == []
