"""Sends a mail that does not fit one request, or JSON: a draft, its files one after another, then ``/send``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from rqmail.clock import Clock
from rqmail.errors import (
    MailboxNotReadableError,
    MailboxNotWritableError,
    MailError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailTransientError,
)
from rqmail.mailers.base import Mail, MailFile, Receipt, as_base64, wire_address
from rqmail.mailers.graph.draft_calls import DraftCalls, UnansweredError, certain, document_of
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.message import (
    ID_PROPERTY,
    UPLOAD_PROPERTY,
    attachment_of,
    attachment_size,
    encoded,
    envelope_of,
    internet_message_id,
    message_of,
    request_size,
)
from rqmail.mailers.graph.raw import as_request
from rqmail.mailers.graph.size import LARGEST_REQUEST
from rqmail.mailers.graph.upload_session import FileUpload, count_files
from rqmail.mailers.http.transport import slow_seconds

#: A draft is answered as a whole, its body with it.
_DRAFT_ANSWER_LIMIT = 2 * LARGEST_REQUEST


class UploadingMailer:
    """Makes a draft, fills it, sends it: one call after another, each under the mail's claim.

    Nothing is sent before ``/send``: whatever fails until then is certain, and the draft is removed. A draft that stays
    behind (its answer was lost, the process was killed) is told from a sent mail by :data:`UPLOAD_PROPERTY`, or where
    the mailbox takes no property by its Message-ID.
    """

    def __init__(
        self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        self._http = http
        self._messages_url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}/messages"
        self._calls = DraftCalls(http, clock)
        self._base_url = base_url
        self._mailbox_address = mailbox_address
        self._clock = clock
        self._sleep = sleep

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; needs Mail.ReadWrite, and raises ``MailboxNotWritableError`` without it."""
        mail.hold(0)
        if mail.tried_before:
            self._clear(mail)
        draft_url = self._draft(mail)
        try:
            self._fill(mail, draft_url)
            mail.hold(0)
            return self._send(mail, draft_url)
        except MailOutcomeUnknownError:
            raise
        except Exception as error:
            if isinstance(error, MailError) or mail.permit is None or not mail.permit.taken:
                with suppress(MailError):
                    self._http.request("DELETE", draft_url, {})
            raise

    def _clear(self, mail: Mail) -> None:
        """Remove what an earlier attempt left, as its worker was killed or the answer to its draft was lost."""
        try:
            removed = self._mailbox(mail).remove_uploads(mail.id)
        except MailboxNotReadableError as error:
            raise MailboxNotWritableError(
                "Mail.ReadWrite is missing for mails over 4 MB; grant the app that permission on this mailbox",
                status=error.status,
                code=error.code,
            ) from error
        except MailOutcomeUnknownError as unknown:
            raise certain(unknown, "show the mailbox's drafts") from unknown
        if not removed:
            raise MailOutcomeUnknownError(
                "A draft of an earlier attempt left Drafts just now: that attempt may have sent the mail after all."
            )

    def _draft(self, mail: Mail) -> str:
        """Make the draft, all of the mail but its files, and answer its address."""
        kind = {}
        if mail.raw is None:
            body = self._message(mail)
        else:
            kind["Content-Type"], body = "text/plain", as_request(mail.raw.read(), mail.id)
        if len(body) > LARGEST_REQUEST:
            raise MailRejectedError(
                f"The mail is too large: {len(body):,} bytes without its files,"
                f" Microsoft Graph takes {LARGEST_REQUEST:,}"
            )
        mail.hold(2 * slow_seconds(len(body)))
        try:
            answer = self._calls.ask(
                "make the draft", "POST", self._messages_url, body, kind, limit=_DRAFT_ANSWER_LIMIT
            )
            draft_id = document_of(answer).get("id")
            if not isinstance(draft_id, str):
                raise UnansweredError("The draft Microsoft Graph made could not be read; nothing was sent")
        except UnansweredError:
            with suppress(MailError):  # the next attempt, or recovery, finds what is not there yet
                self._mailbox(mail).remove_uploads(mail.id)
            raise
        return f"{self._messages_url}/{quote(draft_id, safe='')}"

    def _message(self, mail: Mail) -> bytes:
        message = message_of(mail)
        if mail.marked:
            message["singleValueExtendedProperties"].append({"id": UPLOAD_PROPERTY, "value": mail.attempt or mail.id})
        else:
            message["internetMessageId"] = internet_message_id(mail.id, self._mailbox_address, upload=True)
        return encoded(message)

    def _envelope(self, mail: Mail, draft_url: str) -> None:
        """Give a draft made from MIME the recipients it is for, whoever its headers name, and our properties."""
        document: dict[str, Any] = envelope_of(mail)
        if mail.marked:
            document["singleValueExtendedProperties"] = [
                {"id": ID_PROPERTY, "value": mail.id},
                {"id": UPLOAD_PROPERTY, "value": mail.attempt or mail.id},
            ]
        mail.hold(0)
        self._calls.ask("address the draft", "PATCH", draft_url, encoded(document), limit=_DRAFT_ANSWER_LIMIT)

    def _fill(self, mail: Mail, draft_url: str) -> None:
        """Add the files, in their order; to a draft made from MIME, whom it is for."""
        if mail.raw is not None:
            return self._envelope(mail, draft_url)
        attachments_url = f"{draft_url}/attachments"
        begun_again = False
        for number, file in enumerate(mail.files):
            if fits_one_request(file):
                body = encoded(attachment_of(file))
                mail.hold(2 * slow_seconds(len(body)))
                self._calls.ask("take a file", "POST", attachments_url, body)
            else:
                upload = FileUpload(self._http, self._calls, attachments_url, file, mail.hold, self._clock, self._sleep)
                begun_again |= upload.run(attached=number)
        if begun_again and count_files(self._calls, attachments_url) != len(mail.files):
            raise MailTransientError("A file came into the draft twice, as an upload was begun again; nothing was sent")
        return None

    def _mailbox(self, mail: Mail) -> GraphMailbox:
        """Answer the mailbox as the drafts of this mail are found in it."""
        marked = mail.marked and mail.raw is None
        return GraphMailbox(self._http, self._base_url, self._mailbox_address, clock=self._clock, marked=marked)

    def _send(self, mail: Mail, draft_url: str) -> Receipt:
        answer = self._http.request("POST", f"{draft_url}/send", {}, before_writing=mail.before_writing)
        if answer.status != 202:
            raise self._calls.problem(answer)
        return Receipt(
            status=202,
            request_id=answer.headers.get("request-id"),
            client_request_id=answer.headers.get("client-request-id"),
        )


def fits_one_request(file: MailFile) -> bool:
    """Say whether a file can be added to a draft in one request; a picture the HTML shows must be."""
    return attachment_size(file) <= LARGEST_REQUEST


def uploads(mail: Mail) -> bool:
    """Say whether a mail does not fit one request and has files, so that these are uploaded to a draft."""
    return bool(mail.files) and request_size(mail) > LARGEST_REQUEST


def needs_draft(mail: Mail) -> bool:
    """Say whether a mail is sent as a draft: its files do not fit one request, or it is one in MIME form."""
    return mail.raw is not None or uploads(mail)


def upload_volume(mail: Mail) -> int:
    """Answer how many bytes of files a mail uploads: none for one that is sent in one request."""
    return sum(_on_its_way(one) for one in mail.files) if uploads(mail) else 0


def _on_its_way(file: MailFile) -> int:
    return as_base64(file.size) if fits_one_request(file) else file.size
