"""Calls about a draft: whatever becomes of one, no mail was sent by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rqmail.clock import Clock
from rqmail.errors import MailError, MailOutcomeUnknownError, MailTransientError
from rqmail.mailers.graph.errors import error_for_answer, read_problem
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import not_writable
from rqmail.mailers.http.transport import Answer


class UnansweredError(MailTransientError):
    """The call may have been carried out, as its answer is missing or cannot be read; but nothing was sent."""


class DraftCalls:
    """Asks Graph about a draft; without a good answer raises a ``MailError`` that is certain: nothing was sent."""

    def __init__(self, http: GraphHttp, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    def ask(
        self,
        doing: str,
        method: str,
        url: str,
        document: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        limit: int = 64 * 1024,
    ) -> Answer:
        """Ask and answer what came; ``doing`` says in errors what Graph was to do (``make the draft``)."""
        told = {"Accept": "application/json", **({"Content-Type": "application/json"} if document else {})}
        try:
            answer = self._http.request(method, url, told | dict(headers or {}), document, limit=limit)
        except MailOutcomeUnknownError as unknown:
            raise certain(unknown, doing) from unknown
        if answer.status in (200, 201):
            return answer
        raise certain(self.problem(answer), doing)

    def problem(self, answer: Answer) -> MailError:
        """Say what an answer about a draft means that is not the one hoped for."""
        if answer.status == 404 and (read_problem(answer.body).code or "").lower() == "erroritemnotfound":
            return MailTransientError("The draft was removed before it was sent; nothing was sent", status=404)
        now = self._clock()
        return not_writable(answer, now) or error_for_answer(answer.status, answer.headers, answer.body, now)


def certain(error: MailError, doing: str) -> MailError:
    """Answer the error of a call by which nothing can have been sent, whatever the server did."""
    if not isinstance(error, MailOutcomeUnknownError):
        return error
    why = "no answer came" if error.status is None else f"{error.code or 'no code'}, status {error.status}"
    return UnansweredError(
        f"Microsoft Graph did not {doing} ({why}); nothing was sent",
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        client_request_id=error.client_request_id,
    )


def document_of(answer: Answer) -> dict[str, Any]:
    """Read an answer's JSON object; an empty one where there is none."""
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
