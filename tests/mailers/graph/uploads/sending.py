"""What every test of an upload needs: a large mail, what goes out of it, and what the sandbox has of it."""

from __future__ import annotations

import hashlib
import random
from io import BytesIO

import requests

from rqmail.mailers.base import MailFile
from rqmail.mailers.graph.size import RANGE_BYTES
from rqmail.mailers.http.transport import Transport

SENDER = "noreply@contoso.example"
SIZE = 2 * RANGE_BYTES + 1234
CONTENT = random.Random(7).randbytes(SIZE)


class Recorded(Transport):
    """Writes down every request that goes out."""

    def __init__(self, **options):
        super().__init__(**options)
        self.asked = []

    def request(self, method, url, headers, body=None, **options):
        self.asked.append((method, url, dict(headers), len(body or b"")))
        return super().request(method, url, headers, body, **options)

    @property
    def steps(self):
        ends = [(method, url.partition("?")[0].rstrip("/").rsplit("/", 1)[1]) for method, url, _, _ in self.asked]
        known = {"messages", "attachments", "createUploadSession", "send", "sendMail"}
        return [f"{method} {end}" if end in known else method for method, end in ends]


def file(name="groot.bin", content=CONTENT, kind="application/octet-stream", **fields):
    return MailFile(name, kind, len(content), hashlib.sha256(content).hexdigest(), lambda: BytesIO(content), **fields)


def attached(control):
    [taken] = control.accepted()
    return [(one["name"], one["size"], one["sha256"]) for one in taken["attachments"]]


def drafts(sandbox, token):
    url = f"{sandbox.base_url}/users/{SENDER}/mailFolders/drafts/messages"
    with requests.Session() as http:
        http.trust_env = False
        answer = http.get(url, headers={"Authorization": f"Bearer {token}"}, verify=str(sandbox.ca_file), timeout=10)
        return answer.json()["value"]


WHOLE = [("groot.bin", SIZE, hashlib.sha256(CONTENT).hexdigest())]
