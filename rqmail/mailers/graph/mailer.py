"""Sends a mail from one mailbox through Microsoft Graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailRejectedError
from rqmail.mailers.base import Mail, Receipt, wire_address
from rqmail.mailers.graph.errors import error_for_answer
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.message import encode_message
from rqmail.mailers.graph.size import LARGEST_REQUEST
from rqmail.mailers.graph.upload import UploadingMailer, needs_draft
from rqmail.mailers.http.transport import slow_seconds


class MicrosoftGraphMailer:
    """Hands mails to Graph's ``sendMail`` as JSON, or uploads those whose files do not fit one request.

    A JSON message has one body: with both an HTML and a text body the HTML goes out, and Exchange makes the text part
    from it. The MIME form could carry both but not :data:`ID_PROPERTY`, and finding a mail again is worth more.
    """

    def __init__(
        self,
        http: GraphHttp,
        base_url: str,
        mailbox_address: str,
        *,
        clock: Clock = utc_now,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = http
        self._url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}/sendMail"
        self._clock = clock
        self._uploads = UploadingMailer(http, base_url, mailbox_address, clock=clock, sleep=sleep)

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; 202 is success whatever else the answer says."""
        if needs_draft(mail):
            return self._uploads.send(mail)
        body = encode_message(mail)
        if len(body) > LARGEST_REQUEST:
            raise MailRejectedError(
                f"The mail is too large: {len(body):,} bytes as a request, Microsoft Graph takes {LARGEST_REQUEST:,}"
            )
        mail.hold(2 * slow_seconds(len(body)))
        answer = self._http.request(
            "POST", self._url, {"Content-Type": "application/json"}, body, before_writing=mail.before_writing
        )
        if answer.status != 202:
            raise error_for_answer(answer.status, answer.headers, answer.body, self._clock())
        return Receipt(
            status=202,
            request_id=answer.headers.get("request-id"),
            client_request_id=answer.headers.get("client-request-id"),
        )
