"""A webhook's receiver: told of one event, in a request signed as "Standard Webhooks" describes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rqmail.clock import Clock
from rqmail.mailers.http.failures import why_no_answer
from rqmail.mailers.http.retry_after import parse_retry_after
from rqmail.mailers.http.transport import Transport

#: How a secret begins; what follows is the key, as base64.
PREFIX = "whsec_"

#: A receiver takes an event at once and thinks about it later: it is not waited for longer, in seconds.
CONNECT_TIMEOUT = 3.0
ANSWER_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a receiver said: a status where there was an answer, ``error`` where it did not take the event."""

    status: int | None
    error: str | None
    #: Seconds it asks to be left alone for.
    retry_after: float | None = None


class WebhookCaller:
    """Tells receivers of events; nothing private is connected to unless ``allow_private``, no redirect is followed."""

    def __init__(self, clock: Clock, *, allow_private: bool = False, ca_bundle: Path | None = None) -> None:
        self._clock = clock
        self._allow_private = allow_private
        self._transport = Transport(
            connect_timeout=CONNECT_TIMEOUT,
            answer_timeout=ANSWER_TIMEOUT,
            ca_bundle=ca_bundle,
            connections=16,
            public_only=not allow_private,
        )

    def tell(self, url: str, secret: str, event_id: str, body: str) -> Told:
        """Send one event, and say what became of it; nothing is raised for what the receiver does."""
        if urlsplit(url).scheme != "https" and not self._allow_private:
            return Told(None, "only https is allowed, as RQMAIL_WEBHOOK_ALLOW_PRIVATE is not set")
        now = self._clock()
        content, stamp = body.encode(), str(int(now.timestamp()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event_id,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(secret, event_id, stamp, content),
        }
        try:
            answer = self._transport.request("POST", url, headers, content, limit=1024)
        except (HTTPError, RequestException, OSError, ValueError) as error:
            return Told(None, why_no_answer(error))
        if 200 <= answer.status < 300:
            return Told(answer.status, None)
        if 300 <= answer.status < 400:
            return Told(answer.status, f"HTTP {answer.status}: redirects are not followed")
        wait = parse_retry_after(answer.headers.get("Retry-After"), now)
        return Told(answer.status, f"HTTP {answer.status}", wait)


def signature(secret: str, event_id: str, stamp: str, content: bytes) -> str:
    """Sign an event: ``v1,`` and the HMAC-SHA256 of ``id.timestamp.body`` as base64."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{event_id}.{stamp}.".encode() + content
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
