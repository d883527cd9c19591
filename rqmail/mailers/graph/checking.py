"""Asks Microsoft what an app may do with a mailbox; no mail is sent for it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rqmail.mailers.base import Checked, wire_address
from rqmail.mailers.graph.errors import read_problem
from rqmail.mailers.http.transport import Answer, Transport

#: No message has this id: whoever may not change messages is told that, and others that there is none.
_NO_MESSAGE = "AAMkAGrqmail-check"

_UNKNOWN_MAILBOX = frozenset(
    {"errorinvaliduser", "resourcenotfound", "request_resourcenotfound", "mailboxnotenabledforrestapi"}
)


def check_mailbox(transport: Transport, base_url: str, token: str, address: str) -> Checked:
    """Look into the mailbox's Sent Items, and read from the token what else the app may do.

    A permission that the token names holds; one that it does not name may still be granted in Exchange (RBAC for
    Applications), so that is left open rather than denied. Whether drafts may be changed is asked by removing one that
    does not exist. What a server does not know how to answer is left open too.
    """
    roles = roles_of(token)
    sends = True if "mail.send" in roles else None
    writes = True if "mail.readwrite" in roles else None
    user_url = f"{base_url}/users/{quote(wire_address(address.strip()), safe='@')}"
    url = f"{user_url}/mailFolders/sentitems/messages"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    try:
        answer = transport.request("GET", f"{url}?$top=1&$select=id", headers)
        if writes is None and answer.status == 200:
            removal = transport.request("DELETE", f"{user_url}/messages/{_NO_MESSAGE}", headers)
            writes = {400: True, 403: False, 404: True}.get(removal.status)
    except (RequestException, HTTPError, OSError, ValueError) as error:
        problem = f"Microsoft Graph cannot be reached ({type(error).__name__}); check the network or proxy"
        return Checked(may_send=sends, may_write=writes, problem=problem, outcome="away")
    return _read(answer, sends, writes)


def _read(answer: Answer, sends: bool | None, writes: bool | None) -> Checked:
    problem = read_problem(answer.body)
    code = (problem.code or "").lower()
    if answer.status == 200:
        return Checked(exists=True, may_send=sends, may_read=True, may_write=writes)
    if answer.status == 403 and b"RAOP" in answer.body:
        text = "an application access policy in Exchange keeps the app from this mailbox"
        return Checked(exists=True, may_send=False, may_read=False, may_write=False, problem=text)
    if answer.status == 403:
        return Checked(may_send=sends, may_read=False, may_write=writes)
    if answer.status == 404 and code in _UNKNOWN_MAILBOX:
        return Checked(exists=False, problem="Microsoft Graph does not know this mailbox")
    if answer.status == 401:
        return Checked(problem="Microsoft Graph refuses the app's token", may_send=False)
    text = f"Microsoft Graph answered {answer.status}, which says nothing about the mailbox"
    return Checked(may_send=sends, may_write=writes, problem=text, outcome="not-known")


def roles_of(token: str) -> frozenset[str]:
    """Answer the permissions an access token names, in lower case; none for a token that cannot be read."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        roles = claims["roles"]
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
    return (
        frozenset(role.lower() for role in roles if isinstance(role, str)) if isinstance(roles, list) else frozenset()
    )
