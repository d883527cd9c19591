"""Asks Microsoft Entra for one access token, through MSAL and around its traps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msal
from msal.exceptions import MsalError
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rqmail.clock import Clock
from rqmail.errors import MailAuthError, MailError, MailThrottledError, MailTransientError
from rqmail.mailers.graph.certificate import read_certificate
from rqmail.mailers.graph.entra_app import EntraApp, GrantedToken
from rqmail.mailers.http.failures import error_for_exception
from rqmail.mailers.http.retry_after import parse_retry_after
from rqmail.mailers.http.transport import Answer, Transport
from rqmail.text.scrubbing import keep_passing_secret, scrubbed_start
from rqmail.text.values import trimmed

_ANSWER_LIMIT = 256 * 1024
_AADSTS = re.compile(r"AADSTS(\d{4,8})")

#: What the codes a person can do something about ask that person to do; in braces the names of what is to be corrected.
_WORDS = {
    "AADSTS7000215": "the client secret is wrong; check {0.client_secret} (the secret's value, not its id)",
    "AADSTS7000222": "the client secret has expired; make a new one for the app and put it into {0.client_secret}",
    "AADSTS7000216": "no client secret or certificate was given for the app",
    "AADSTS700016": "the app does not exist in this tenant; check {0.client_id} and {0.tenant_id}",
    "AADSTS700027": "the certificate is not one of the app's; upload it to the app registration",
    "AADSTS7000112": "the app is disabled in the tenant",
    "AADSTS90002": "the tenant does not exist; check {0.tenant_id}",
    "AADSTS900023": "the tenant's id is not valid; check {0.tenant_id}",
    "AADSTS65001": "an administrator has not consented to the app's permissions",
    "AADSTS500011": "the tenant does not know the resource; check RQMAIL_GRAPH_BASE_URL",
    "AADSTS700211": "no federated credential of the app has the issuer of the token in RQMAIL_GRAPH_IDENTITY",
    "AADSTS700212": "the federated credential of the app has another audience than the token in RQMAIL_GRAPH_IDENTITY",
    "AADSTS700213": "no federated credential of the app has the subject of the token in RQMAIL_GRAPH_IDENTITY",
    "AADSTS70025": "the app has no federated credential; add one for the token in RQMAIL_GRAPH_IDENTITY",
    "AADSTS700024": "what proves who the app is has expired; check RQMAIL_GRAPH_IDENTITY and this machine's clock",
    "AADSTS53003": "a Conditional Access policy blocks the app",
}

_MANAGED = "the managed identity of RQMAIL_GRAPH_IDENTITY is refused; check that this machine has it"

#: What MSAL raises over an answer it does not expect. Not every exception: a job's timeout must get through.
_MSAL_RAISES = (ValueError, KeyError, TypeError, AttributeError, RuntimeError, MsalError)

#: Entra's own trouble, whatever the status says.
_TRANSIENT = frozenset({"temporarily_unavailable", "server_error", "AADSTS90033", "AADSTS90010", "AADSTS50196"})


class Entra:
    """Answers one fresh token per call; nothing is remembered between calls.

    MSAL remembers a 400 for a minute and a 429 for up to an hour inside the application object, so each call makes a
    new one. Tokens live for about an hour: the discovery request this repeats is no cost.
    """

    def __init__(self, app: EntraApp, transport: Transport, scope: str, *, clock: Clock) -> None:
        self._app = app
        self._transport = transport
        self._scope = scope
        self._clock = clock

    def grant(self, claims: str | None = None) -> GrantedToken:
        """Ask for a token, satisfying ``claims`` if given; raises the ``MailError`` that says why there is none."""
        http = _MsalHttp(self._transport)
        try:
            result = self._asked(http, claims)
        except (RequestException, HTTPError, OSError) as error:
            raise _not_reached(error) from error
        except MailError:
            raise
        except _MSAL_RAISES as error:
            raise self._refusal({}, http.last) from error
        granted = _granted(result)
        if granted is None:
            raise self._refusal(result if isinstance(result, dict) else {}, http.last)
        return granted

    def _asked(self, http: _MsalHttp, claims: str | None) -> Any:
        kind, _, which = (self._app.identity or "").partition(":")
        if kind == "managed":
            identity = (
                msal.UserAssignedManagedIdentity(client_id=which) if which else msal.SystemAssignedManagedIdentity()
            )
            client = msal.ManagedIdentityClient(identity, http_client=http)
            resource = self._scope.removesuffix("/.default")
            return client.acquire_token_for_client(resource=resource, claims_challenge=claims)
        application = msal.ConfidentialClientApplication(
            self._app.client_id,
            client_credential=_credential(self._app, self._clock()),
            authority=f"{self._app.authority}/{quote(self._app.tenant_id, safe='')}",
            instance_discovery=False,
            http_client=http,
        )
        return application.acquire_token_for_client([self._scope], claims_challenge=claims)

    def _refusal(self, result: Mapping[str, Any], last: Answer | None) -> MailError:
        """Say why there is no token, from what Entra wrote and the answer it came in."""
        status = last.status if last else None
        body = last.body.decode("utf-8", errors="replace") if last else ""
        found = _AADSTS.search(str(result.get("error_description") or "")) or _AADSTS.search(body)
        code = f"AADSTS{found.group(1)}" if found else _short(result.get("error"))
        request_id = last.headers.get("x-ms-request-id") if last else None
        if status == 429:
            asked = parse_retry_after(last.headers.get("Retry-After") if last else None, self._clock())
            return MailThrottledError(
                "Microsoft Entra asks to slow down with requests for tokens",
                retry_after=asked,
                status=status,
                code=code,
                request_id=request_id,
            )
        if status is None or status >= 500 or status == 408 or {code, result.get("error")} & _TRANSIENT:
            return MailTransientError(
                f"Microsoft Entra could not give a token at this moment (status {status}). Nothing was sent.",
                status=status,
                code=code,
                request_id=request_id,
            )
        managed = (self._app.identity or "").startswith("managed")
        words = (
            _MANAGED
            if managed
            else _WORDS.get(code or "")
            or (
                "its answer is not a token's; check RQMAIL_GRAPH_AUTHORITY, {0.tenant_id} and the proxy"
                if code is None
                else "check the app's registration, secret and consent"
            )
        )
        return MailAuthError(
            f"Microsoft Entra gives no token: {words.format(self._app.names)} ({code or 'no code'}, status {status})",
            status=status,
            code=code,
            request_id=request_id,
        )


class _MsalHttp:
    """The HTTP client MSAL asks for, over our transport: with timeouts, bounded, never repeating."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.last: Answer | None = None

    def get(
        self, url: str, params: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None, **_: Any
    ) -> _MsalAnswer:
        return self._request("GET", url, params, headers, None)

    def post(
        self,
        url: str,
        params: Mapping[str, str] | None = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> _MsalAnswer:
        return self._request(
            "POST",
            url,
            params,
            {**(headers or {}), "Content-Type": "application/x-www-form-urlencoded"},
            urlencode(data or {}).encode("ascii"),
        )

    def close(self) -> None:
        """Leave the shared transport open."""

    def _request(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: bytes | None,
    ) -> _MsalAnswer:
        if params:
            url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
        self.last = None
        self.last = self._transport.request(method, url, headers or {}, body, limit=_ANSWER_LIMIT)
        if self.last.status < 500:
            json.loads(self.last.body)  # MSAL would log a body that is no JSON, and half a token with it
        return _MsalAnswer(self.last)


class _MsalAnswer:
    """An answer in the shape MSAL reads."""

    def __init__(self, answer: Answer) -> None:
        self.status_code = answer.status
        self.text = answer.body.decode("utf-8", errors="replace")
        self.headers = dict(answer.headers)


def _credential(app: EntraApp, now: datetime) -> str | dict[str, Any]:
    if app.identity is not None:
        return {"client_assertion": partial(_assertion, Path(app.identity.partition(":")[2]))}
    if app.certificate is None:
        return app.client_secret or ""
    found = read_certificate(app.certificate, now, app.certificate_password)
    return {"private_key": found.private_key, "public_certificate": found.certificate}


def _assertion(file: Path) -> str:
    """Read what the place we run in says of us: it is written anew every hour or so."""
    try:
        text = trimmed(file.read_text("ascii"))
    except (OSError, UnicodeError) as error:
        raise MailAuthError(f"RQMAIL_GRAPH_IDENTITY: {file} cannot be read ({type(error).__name__})") from None
    if not text:
        raise MailAuthError(f"RQMAIL_GRAPH_IDENTITY: {file} is empty")
    keep_passing_secret(text)
    return text


def _granted(result: Any) -> GrantedToken | None:
    if not isinstance(result, dict) or not isinstance(result.get("access_token"), str):
        return None
    try:
        lives = float(result.get("expires_in", 0))
    except (TypeError, ValueError):
        return None
    return GrantedToken(result["access_token"], lives) if lives > 0 and result["access_token"] else None


def _not_reached(error: BaseException) -> MailTransientError:
    # Asking for a token is never the send itself, so even a lost answer is certain: no mail went out.
    reason = error_for_exception(error, "Microsoft Entra")
    if isinstance(reason, MailTransientError):
        return reason
    return MailTransientError("Microsoft Entra did not answer the request for a token. Nothing was sent.")


def _short(value: Any) -> str | None:
    return scrubbed_start(value, 80) if isinstance(value, str) and value else None
