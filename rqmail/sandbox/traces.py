"""The tenant's message trace: what became of each accepted mail, a row for each of its recipients."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from rqmail.sandbox.answers import GraphRefusal, graph_time, json_answer
from rqmail.sandbox.calls import CallRunner, TenantCall
from rqmail.sandbox.ledger import AcceptedMail
from rqmail.sandbox.odata import Filter
from rqmail.sandbox.state import SandboxState

_KNOWN = ("$filter", "$top", "$skiptoken")
_FILTERABLE = frozenset(
    {"id", "messageId", "status", "receivedDateTime", "recipientAddress", "senderAddress", "subject", "fromIP", "toIP"}
)
_BOUND = re.compile(r"receivedDateTime (ge|le) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")

#: Rows of a page, unless asked otherwise and at most; what is answered unasked; what may be asked for.
_PAGE = 1_000
_LARGEST_PAGE = 5_000
_UNASKED = timedelta(hours=48)
_LONGEST = timedelta(days=10)
_OLDEST = timedelta(days=90)


class MessageTraces:
    """``GET /admin/exchange/tracing/messageTraces``."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the operation on its path."""
        handler = CallRunner(self._state).tenant_handler("traces", self.list_traces)
        router.add_get("/v1.0/admin/exchange/tracing/messageTraces", handler)

    def list_traces(self, call: TenantCall) -> web.Response:
        """Answer the newest rows first, a page at a time."""
        if not self._state.directory.may_read_traces:
            raise GraphRefusal(403, "Forbidden", "Insufficient privileges to complete the operation.")
        allowed = self._state.limits.trace_requests_per_five_minutes
        if self._state.trace_calls.add(self._state.now().timestamp(), 1) > allowed:
            wait = {"Retry-After": str(self._state.limits.retry_after_seconds)}
            raise GraphRefusal(429, "TooManyRequests", "The tenant is over its limit of message trace requests.", wait)
        options = call.request.query
        if unknown := sorted(set(options) - set(_KNOWN)):
            raise GraphRefusal(400, "BadRequest", f"The query option '{unknown[0]}' is not supported.")
        top, skip = _number(options, "$top", _PAGE), _number(options, "$skiptoken", 0)
        if not 1 <= top <= _LARGEST_PAGE:
            raise GraphRefusal(400, "BadRequest", f"$top must be from 1 to {_LARGEST_PAGE}.")
        wanted = Filter(options["$filter"]) if options.get("$filter") else None
        start, end = self._period(options.get("$filter", ""), wanted)
        rows = [row for row in self._rows(start, end) if wanted is None or wanted.matches(row)]
        body: dict[str, Any] = {
            "@odata.context": "https://graph.microsoft.com/v1.0/$metadata#admin/exchange/tracing/messageTraces",
            "value": rows[skip : skip + top],
        }
        if len(rows) > skip + top:
            parts = {**options, "$skiptoken": str(skip + top)}
            body["@odata.nextLink"] = f"{self._state.origin}{call.request.rel_url.with_query(parts)}"
        return json_answer(body)

    def _period(self, text: str, wanted: Filter | None) -> tuple[datetime, datetime]:
        for name in wanted.fields if wanted else ():
            if name not in _FILTERABLE:
                raise GraphRefusal(400, "BadRequest", f"Could not find a property named '{name}' to filter by.")
        now = self._state.now()
        bounds = {name: datetime.fromisoformat(moment).astimezone(UTC) for name, moment in _BOUND.findall(text)}
        if not bounds:
            return now - _UNASKED, now
        if set(bounds) != {"ge", "le"}:
            raise GraphRefusal(400, "BadRequest", "receivedDateTime needs both a start (ge) and an end (le).")
        start, end = bounds["ge"], bounds["le"]
        if start > end or end - start > _LONGEST or start < now - _OLDEST or end > now:
            raise GraphRefusal(
                400, "BadRequest", "receivedDateTime: at most 10 days, none more than 90 days ago or later than now."
            )
        return start, end

    def _rows(self, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
        newest = min(end, self._state.now() - timedelta(seconds=self._state.trace_delay_seconds))
        for mail in reversed(self._state.ledger.mails):
            received = datetime.fromisoformat(mail.time).replace(microsecond=0)
            if received < start:
                return
            if received <= newest:
                for address in (*mail.to, *mail.cc, *mail.bcc):
                    yield self._row(mail, address, received)

    def _row(self, mail: AcceptedMail, address: str, received: datetime) -> dict[str, Any]:
        return {
            "id": str(uuid.uuid5(uuid.NAMESPACE_URL, mail.requestId)),
            "senderAddress": mail.mailbox,
            "recipientAddress": address,
            "messageId": mail.internetMessageId,
            "receivedDateTime": graph_time(received),
            "subject": mail.subject,
            "status": self._status(mail, address.strip().lower()),
            "size": len(mail.body),
            "fromIP": "192.0.2.1",
            "toIP": None,
        }

    def _status(self, mail: AcceptedMail, address: str) -> str:
        if address in self._state.traces:
            return self._state.traces[address]
        code = self._state.bounces.get(address, "")
        if mail.nonDelivery or code.startswith("5"):
            return "failed"
        return "pending" if code else "delivered"


def _number(options: Any, name: str, otherwise: int) -> int:
    value = options.get(name)
    if value is None:
        return otherwise
    if not str(value).isdecimal():
        raise GraphRefusal(400, "BadRequest", f"The value '{value}' of {name} is not a number.")
    return int(value)
