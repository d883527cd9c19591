"""Speaking to a running sandbox's control API from a test or a chaos run."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit


class SandboxControlError(Exception):
    """The control API refused; ``status`` is the HTTP status, the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class SandboxControl:
    """The control API of the sandbox at ``url`` (its authority or base URL), trusting ``ca_file``."""

    def __init__(self, url: str, ca_file: Path | str, *, timeout: float = 30.0) -> None:
        self._netloc = urlsplit(url).netloc
        self._context = ssl.create_default_context(cafile=str(ca_file))
        self._timeout = timeout

    def accepted(
        self,
        mailbox: str | None = None,
        after: int | None = None,
        limit: int | None = None,
        fields: tuple[str, ...] | None = None,
    ) -> list[dict[str, Any]]:
        """Answer the accepted mails, oldest first: of one mailbox, with ``seq`` above ``after``, some fields only."""
        wish = {"mailbox": mailbox, "after": after, "limit": limit, "fields": ",".join(fields) if fields else None}
        query = urlencode({name: value for name, value in wish.items() if value is not None})
        answer: list[dict[str, Any]] = self._call("GET", f"accepted?{query}")
        return answer

    def stats(self) -> dict[str, Any]:
        """Answer every count since the last reset."""
        answer: dict[str, Any] = self._call("GET", "stats")
        return answer

    def reset(self) -> None:
        """Forget mail, faults and changed settings; tokens stay alive."""
        self._call("POST", "reset")

    def faults(self, kind: str, *, count: int | None = 1, **rule: Any) -> int:
        """Let the next ``count`` calls (``None``: all, until cleared) go wrong; answer the rule's id.

        ``kind``: ``status``, ``html``, ``truncated-json``, ``short-body``, ``bad-token``, ``reset``, ``hang`` or
        ``latency``, each also as ``accept-then-…``, and ``accept-then-504``. ``rule``: ``target`` (``graph``,
        ``token``, ``discovery``, ``traces``), ``mailbox``, ``operation`` (``sendMail``, ``send``, ``listMessages`` …),
        ``probability`` with ``seed``, ``status``, ``code``, ``message``, ``headers``, ``body``,
        ``seconds``, ``claims``.
        """
        added: dict[str, Any] = self._call("POST", "faults", {"kind": kind, "count": count, **rule})
        return int(added["id"])

    def faults_in_force(self) -> list[dict[str, Any]]:
        """Answer the rules in force; ``count`` is what is left, ``fired`` how often each was met."""
        answer: list[dict[str, Any]] = self._call("GET", "faults")
        return answer

    def clear_faults(self, fault_id: int | None = None) -> None:
        """Take one rule out of force, or all."""
        self._call("DELETE", "faults" if fault_id is None else f"faults/{fault_id}")

    def configure(self, **settings: Any) -> dict[str, Any]:
        """Change ``latency_ms``, ``sent_items_delay_seconds``, ``limits={…}``, ``directory={…}``… until the reset."""
        answer: dict[str, Any] = self._call("PATCH", "config", settings)
        return answer

    def revoke_tokens(self) -> None:
        """Revoke every access token issued so far."""
        self._call("POST", "tokens/revoke")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = http.client.HTTPSConnection(self._netloc, timeout=self._timeout, context=self._context)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, f"/_sandbox/{path}", content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 400:
            raise SandboxControlError(response.status, text)
        return json.loads(text) if text else None
