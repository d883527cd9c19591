"""A mailbox that can create no more named properties takes large mails without ours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mailers.graph.uploads.sending import SENDER, file
from rqmail.errors import (
    MailError,
    NoNamedPropertyError,
)
from rqmail.mailers.base import Permit
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.message import internet_message_id


@pytest.fixture
def no_names(control):
    control.configure(limits={"refuse_named_properties": True})


def found(sandbox, transport, token, clock, message_id):
    class Tokens:
        def token(self):
            return token

    mailbox = GraphMailbox(GraphHttp(transport, Tokens()), sandbox.base_url, SENDER, clock=clock, marked=False)
    return mailbox, mailbox.find_sent(message_id, datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("large", [True, False])
def test_without_names_the_property_is_refused_as_such_and_without_it_the_mail_goes_and_is_found(
    control, mailer, transport, large, mail, sandbox, token, clock, no_names
):
    mail = replace(mail, files=(file(),) if large else (), permit=Permit(lambda: None), attempt="m:1")
    with pytest.raises(NoNamedPropertyError):
        mailer.send(mail)
    assert control.accepted() == []

    mailer.send(replace(mail, internet_message_id=internet_message_id(mail.id, SENDER), marked=False))
    control.configure(sent_items_delay_seconds=0)
    [taken] = control.accepted()
    assert (taken["rqmailId"], taken["attachments"] != []) == (mail.id, large)
    _, sighting = found(sandbox, transport, token, clock, mail.id)
    assert (sighting.folder, sighting.is_upload) == ("sentitems", False)
    assert sighting.internet_message_id == internet_message_id(mail.id, SENDER, upload=large)


def test_a_draft_left_in_a_mailbox_without_names_is_told_from_a_sent_mail_and_removed(
    control, mailer, transport, large, sandbox, token, clock, no_names
):
    class KilledError(BaseException):
        pass

    def killed():
        raise KilledError

    ours = internet_message_id(large.id, SENDER)
    dying = replace(large, internet_message_id=ours, marked=False, permit=Permit(killed))
    dying.permit.taken = True  # so that nothing cleans up after it
    with pytest.raises(KilledError):
        mailer.send(dying)
    mailbox, sighting = found(sandbox, transport, token, clock, large.id)
    assert (sighting.folder, sighting.is_upload) == ("drafts", True)
    assert mailbox.remove_uploads(large.id)
    assert found(sandbox, transport, token, clock, large.id)[1] is None


@pytest.mark.parametrize("in_parts", [True, False])
def test_a_message_id_of_its_own_stays_with_a_mail_that_is_sent_a_second_time(
    control, mailer, mail, sandbox, transport, token, clock, in_parts
):
    control.configure(sent_items_delay_seconds=0)
    own = replace(mail, files=(file(),) if in_parts else (), internet_message_id="<7@erp.example>", attempt="m:1")
    control.faults("status", status=503, operation="createDraft" if in_parts else "sendMail")
    with pytest.raises(MailError):
        mailer.send(own)
    mailer.send(replace(own, tried_before=True, attempt="m:2"))
    _, sighting = found(sandbox, transport, token, clock, mail.id)
    assert (sighting.folder, sighting.internet_message_id) == ("sentitems", "<7@erp.example>")
    assert [one["rqmailId"] for one in control.accepted()] == [mail.id]
