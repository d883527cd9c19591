"""The tenant's message trace: what became of mail at each recipient; needs ExchangeMessageTrace.Read.All."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailTransientError, TracesNotReadableError
from rqmail.mailers.graph.errors import error_for_answer, read_problem
from rqmail.mailers.graph.http import GraphHttp

#: What the trace says of a recipient, in our words. What is new to us is shown as not decided yet.
_STATUSES = {
    "gettingstatus": "pending",
    "pending": "pending",
    "failed": "failed",
    "delivered": "delivered",
    "expanded": "expanded",
    "quarantined": "quarantined",
    "filteredasspam": "spam",
}

#: Rows of one page, and what it may be long.
PAGE_ROWS = 1_000
_ANSWER_LIMIT = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Trace:
    """What became of one mail at one recipient; ``received_on`` is when Exchange took it."""

    id: str
    sender: str
    recipient: str
    internet_message_id: str
    subject: str
    received_on: datetime
    status: str


@dataclass(frozen=True, slots=True)
class TracePage:
    """Some rows of the trace; ``next_link`` is where it goes on, ``None`` at its end."""

    rows: tuple[Trace, ...]
    next_link: str | None


class GraphTraces:
    """Reads the message trace of one Entra tenant, a page a call."""

    def __init__(self, http: GraphHttp, base_url: str, *, clock: Clock = utc_now) -> None:
        self._http = http
        self._url = f"{base_url}/admin/exchange/tracing/messageTraces"
        self._clock = clock

    def page(self, start: datetime, end: datetime, next_link: str | None = None) -> TracePage:
        """Answer a page of what Exchange took in from ``start`` to ``end``, at most 10 days: the first, or the next.

        Raises ``TracesNotReadableError`` where the app may not read it, another ``MailError`` to be asked again later.
        """
        if next_link is not None and urlsplit(next_link)[:2] != urlsplit(self._url)[:2]:
            raise MailTransientError("Microsoft Graph's message trace goes on elsewhere", status=200)
        wanted = f"receivedDateTime ge {_moment(start)} and receivedDateTime le {_moment(end)}"
        url = next_link or f"{self._url}?$filter={quote(wanted, safe='')}&$top={PAGE_ROWS}"
        answer = self._http.request("GET", url, {"Accept": "application/json"}, limit=_ANSWER_LIMIT)
        if answer.status in (401, 403):
            problem = read_problem(answer.body)
            said = f"{problem.code or 'no code'}, status {answer.status}"
            raise TracesNotReadableError(
                "ExchangeMessageTrace.Read.All is missing, so the tenant's message trace cannot be read; grant the app"
                f" that permission, with admin consent ({said})",
                status=answer.status,
                code=problem.code,
            )
        if answer.status != 200:
            raise error_for_answer(answer.status, answer.headers, answer.body, self._clock())
        try:
            body = json.loads(answer.body)
            rows = tuple(row for row in map(_trace, body["value"]) if row is not None)
            following = body.get("@odata.nextLink")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise MailTransientError("Microsoft Graph's message trace could not be read", status=200) from None
        return TracePage(rows, following if isinstance(following, str) else None)


def _trace(row: dict[str, Any]) -> Trace | None:
    """Read one row; ``None`` for one that names no mail, recipient or time."""
    try:
        received_on = datetime.fromisoformat(row["receivedDateTime"])
    except (KeyError, ValueError, TypeError):
        return None
    text = {name: str(row.get(name) or "").strip() for name in ("id", "senderAddress", "recipientAddress", "messageId")}
    if received_on.tzinfo is None or not text["recipientAddress"]:
        return None
    return Trace(
        text["id"],
        text["senderAddress"].lower(),
        text["recipientAddress"],
        text["messageId"],
        str(row.get("subject") or ""),
        received_on,
        _STATUSES.get(str(row.get("status") or "").lower(), "pending"),
    )


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
