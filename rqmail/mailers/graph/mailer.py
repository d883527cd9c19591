"""Sends a mail from one mailbox through Microsoft Graph."""

from __future__ import annotations

from urllib.parse import quote

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailRejectedError
from rqmail.mailers.base import Mail, Receipt, wire_address
from rqmail.mailers.graph.errors import error_for_answer
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.message import encode_message
from rqmail.mailers.graph.size import LARGEST_REQUEST


class MicrosoftGraphMailer:
    """Hands mails to Graph's ``sendMail`` as JSON.

    A JSON message has one body: with both an HTML and a text body the HTML goes out, and Exchange makes the text part
    from it. The MIME form could carry both but not :data:`ID_PROPERTY`, and finding a mail again is worth more.
    """

    def __init__(self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock = utc_now) -> None:
        self._http = http
        self._url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}/sendMail"
        self._clock = clock

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; 202 is success whatever else the answer says."""
        body = encode_message(mail)
        if len(body) > LARGEST_REQUEST:
            raise MailRejectedError(
                f"The mail is too large: {len(body):,} bytes as a request, Microsoft Graph takes {LARGEST_REQUEST:,}"
            )
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
