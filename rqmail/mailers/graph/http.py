"""Requests to Microsoft Graph with a token in them, renewed once when it is refused."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import uuid4

from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rqmail.clock import monotonic
from rqmail.errors import MailTransientError
from rqmail.mailers.http.failures import error_for_exception
from rqmail.mailers.http.transport import Answer, Transport

_CLAIMS = re.compile(r'\bclaims="?([A-Za-z0-9+/_=-]{1,8000})"?')


class TokenSource(Protocol):
    """Where access tokens come from; both methods raise a ``MailError`` when there is none to be had."""

    def token(self) -> str:
        """Answer a token that is valid now."""
        ...

    def renewed(self, refused: str, claims: str | None) -> str:
        """Answer a token newer than ``refused``, with ``claims`` (JSON) if Graph demands some."""
        ...


class GraphHttp:
    """Asks Microsoft Graph and answers what it says; only a 401 is asked again, once, with a fresh token.

    No request goes out later than ``start_within_seconds`` after it was asked for, however long a token takes: whoever
    holds a lease on a message can rely on that.
    """

    def __init__(self, transport: Transport, tokens: TokenSource, *, start_within_seconds: float = 30.0) -> None:
        self._transport = transport
        self._tokens = tokens
        self._start_within_seconds = start_within_seconds

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit: int = 64 * 1024,
        before_writing: Callable[[], None] | None = None,
        immutable_ids: bool = True,
    ) -> Answer:
        """Send one request under a fresh ``client-request-id``; without an answer raises the fitting ``MailError``.

        ``before_writing`` is called with the token in hand and the connection made, directly before the first byte.
        Ids in the answer stay when a message is moved; without ``immutable_ids`` they end with its place.
        """
        if immutable_ids:
            headers = {**headers, "Prefer": 'IdType="ImmutableId"'}
        latest = monotonic() + self._start_within_seconds
        token = self._tokens.token()
        _not_after(latest)
        answer = self._send(method, url, headers, body, token=token, limit=limit, before_writing=before_writing)
        if answer.status == 401:
            claims = claims_demanded(answer.headers.get("WWW-Authenticate"))
            fresh = self._tokens.renewed(token, claims)
            _not_after(latest)
            answer = self._send(method, url, headers, body, token=fresh, limit=limit, before_writing=before_writing)
        return answer

    def ask_upload_url(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send one request to an upload URL, which is all the authorization there is: our token is not told.

        No error holds the address; without an answer raises the fitting ``MailError``.
        """
        try:
            return self._transport.request(method, url, headers, body)
        except (RequestException, HTTPError, OSError) as error:
            failure = error_for_exception(error, "Microsoft Graph's upload service")
        raise failure  # outside of the handler: what urllib3 raises quotes the address

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        token: str,
        limit: int,
        before_writing: Callable[[], None] | None,
    ) -> Answer:
        headers = {
            **headers,
            "Authorization": f"Bearer {token}",
            "client-request-id": str(uuid4()),
            "return-client-request-id": "true",
        }
        try:
            answer = self._transport.request(method, url, headers, body, limit=limit, before_writing=before_writing)
        except (RequestException, HTTPError, OSError) as error:
            failure = error_for_exception(error, "Microsoft Graph")
            failure.client_request_id = headers["client-request-id"]
            raise failure from error
        answer.headers.setdefault("client-request-id", headers["client-request-id"])
        return answer


def _not_after(latest: float) -> None:
    if monotonic() > latest:
        raise MailTransientError("It took too long to get a token for Microsoft Graph. Nothing was sent.")


def claims_demanded(www_authenticate: str | None) -> str | None:
    """Decode the claims challenge of a 401 into JSON text; ``None`` if there is none that can be read."""
    found = _CLAIMS.search(www_authenticate or "")
    if not found:
        return None
    encoded = found.group(1).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        return text if isinstance(json.loads(text), dict) else None
    except (ValueError, RecursionError):
        return None
