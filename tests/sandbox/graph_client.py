"""A plain client of the sandbox, and the messages it sends."""

from __future__ import annotations

from typing import Any

import msal
import requests

from rqmail.sandbox.server import Sandbox

SENDER = "info@voorbeeld.nl"
SCOPES = ["https://graph.microsoft.com/.default"]


class GraphClient:
    """A plain HTTPS client of one sandbox that knows its token."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.verify = str(sandbox.ca_file)
        self._headers = {"Authorization": f"Bearer {self.fresh_token()}"}

    def fresh_token(self) -> str:
        token = msal_application(self.sandbox, self.http).acquire_token_for_client(SCOPES)
        return token["access_token"]

    def call(self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any):
        url = path if path.startswith("https://") else f"{self.sandbox.base_url}/users/{SENDER}{path}"
        options.setdefault("timeout", 10)
        return self.http.request(method, url, headers={**self._headers, **(headers or {})}, **options)

    def send(self, mail: dict[str, Any] | None = None, *, mailbox: str = SENDER, **changes: Any):
        body = {"message": mail or message(**changes)}
        return self.call("POST", f"{self.sandbox.base_url}/users/{mailbox}/sendMail", json=body)

    def send_with_timeout(self, seconds: float):
        return self.call("POST", "/sendMail", json={"message": message()}, timeout=seconds)


def msal_application(sandbox: Sandbox, http: requests.Session, credential: Any = None, **changes: Any):
    known = sandbox.directory
    return msal.ConfidentialClientApplication(
        changes.get("client_id", known.client_id),
        client_credential=known.client_secret if credential is None else credential,
        authority=f"{sandbox.authority}/{changes.get('tenant_id', known.tenant_id)}",
        instance_discovery=False,
        http_client=http,
    )


def message(to: tuple[str, ...] = ("jose@example.org",), rqmail_id: str | None = None, **properties: Any):
    """A message as a Graph client writes it."""
    mail: dict[str, Any] = {
        "subject": "Uitnodiging voor José",
        "body": {"contentType": "html", "content": "<p>Welkom</p>"},
        "toRecipients": [{"emailAddress": {"address": address}} for address in to],
    }
    if rqmail_id:
        mail["internetMessageHeaders"] = [{"name": "x-rqmail-id", "value": rqmail_id}]
    return mail | properties
