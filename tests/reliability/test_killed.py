"""Killed at any step of a send, without warning: the mail is accepted once in the end, or nobody claims to know."""

from __future__ import annotations

import signal

import pytest

from reliability.dying import Moment, die_at
from reliability.running import Running
from rqmail import Attachment, Draft
from rqmail.models.message import MessageStatus
from support.messages import new_message, reloaded

S = MessageStatus

#: Every step of a send in order: who is at it, and the function before or after which the process is gone.
STEPS = {
    "before the claim": Moment("dispatcher", "before", "rqmail.models.message:Message.claim_due"),
    "claimed, not committed": Moment("dispatcher", "after", "rqmail.models.claims:_fitting"),
    "claimed": Moment("dispatcher", "after", "rqmail.models.message:Message.claim_due"),
    "before the job is pushed": Moment("dispatcher", "before", "rqmail.queues:MailQueues.push"),
    "job pushed": Moment("dispatcher", "after", "rqmail.queues:MailQueues.push"),
    "job taken": Moment("worker", "before", "rqmail.delivery.lanes:Lanes.send"),
    "before it is SENDING": Moment("worker", "before", "rqmail.models.message:Message.start_sending"),
    "SENDING": Moment("worker", "after", "rqmail.models.message:Message.start_sending"),
    "before the reservation": Moment("worker", "before", "rqmail.ratelimit.limiter:MailRateLimiter.check_and_reserve"),
    "reserved": Moment("worker", "after", "rqmail.ratelimit.limiter:MailRateLimiter.check_and_reserve"),
    "token in hand": Moment("worker", "after", "rqmail.mailers.graph.token:GraphTokenSource.token"),
    "connected, before the permit": Moment(
        "worker", "before", "rqmail.delivery.outcomes:MailProviderService._check_claim"
    ),
    "permitted": Moment("worker", "after", "rqmail.delivery.outcomes:MailProviderService._check_claim"),
    "POST written": Moment("worker", "after", "http.client:HTTPConnection.endheaders"),
    "before the answer is read": Moment("worker", "before", "urllib3.connection:HTTPConnection.getresponse"),
    "202 read": Moment("worker", "after", "rqmail.mailers.graph.mailer:MicrosoftGraphMailer.send"),
    "before it is settled": Moment("worker", "before", "rqmail.ratelimit.limiter:MailRateLimiter.settle"),
    "settled": Moment("worker", "after", "rqmail.ratelimit.limiter:MailRateLimiter.settle"),
    "before the outcome is written": Moment("worker", "before", "rqmail.models.message:Message.mark_sent"),
    "outcome written": Moment("worker", "after", "rqmail.models.message:Message.mark_sent"),
    "job done": Moment("worker", "after", "rqmail.bootstrap:Application.send"),
}

#: From here on a provider may have it as far as anyone can tell: the row says SENDING.
PERHAPS_SENT = list(STEPS)[list(STEPS).index("SENDING") : list(STEPS).index("outcome written")]


#: Every step of a mail that goes up in parts: before each nothing of it has happened, after each all of it.
UPLOAD_STEPS = {
    f"{when} the {name}": Moment("worker", when, where)
    for name, where in {
        "draft": "rqmail.mailers.graph.upload:UploadingMailer._draft",
        "attachment": "rqmail.mailers.graph.upload:UploadingMailer._fill",
        "session": "rqmail.mailers.graph.upload_session:FileUpload._open",
        "range": "rqmail.mailers.graph.upload_session:FileUpload._ask",
        "send": "rqmail.mailers.graph.upload:UploadingMailer._send",
    }.items()
    for when in ("before", "after")
}


def kill_at(running: Running, name: str) -> None:
    moment = (STEPS | UPLOAD_STEPS)[name]
    if moment.who == "worker":
        running.app.dispatcher.tick()
    assert die_at(moment, running.environment) == -signal.SIGKILL


@pytest.mark.parametrize("name", UPLOAD_STEPS)
def test_killed_at_any_step_of_an_upload_the_mail_is_accepted_once_and_no_draft_is_left(running, name):
    files = [Attachment("a.txt", b"a"), Attachment("large.bin", b"x" * 5_000_000)]
    message_id = running.app.intake.submit(
        Draft(sender="mailbox:news", subject="Hi", to="jan@example.org", text="Hello", attachments=files)
    )
    kill_at(running, name)
    running.settle()
    assert running.accepted() == [message_id]
    assert reloaded(message_id).status == S.SENT
    [taken] = running.control.accepted()
    assert [(one["name"], one["size"]) for one in taken["attachments"]] == [("a.txt", 1), ("large.bin", 5_000_000)]
    mailbox = running.app.senders.mailbox_of(reloaded(message_id).route)
    assert mailbox is not None
    assert not mailbox._found_in("drafts", message_id)


@pytest.mark.parametrize("name", STEPS)
def test_killed_at_any_step_the_mail_is_accepted_exactly_once_in_the_end(running, name):
    ids = running.submit(new_message(), new_message())
    kill_at(running, name)
    running.settle()
    assert sorted(running.accepted()) == sorted(ids)
    assert [reloaded(message_id).status for message_id in ids] == [S.SENT, S.SENT]


@pytest.mark.parametrize("name", PERHAPS_SENT)
def test_where_nobody_may_look_a_mail_is_not_sent_twice_and_the_row_says_what_is_known(running, name):
    running.control.configure(directory={"may_read_mail": False})
    [message_id] = running.submit(new_message())
    kill_at(running, name)
    running.settle()
    assert len(running.accepted()) <= 1
    message = reloaded(message_id)
    assert message.status == S.UNKNOWN
    assert "The worker stopped while the message was being sent" in message.last_error
    assert "Mail.Read is missing" in message.last_error
    assert [entry["outcome"] for entry in message.history] == ["worker-lost"]
