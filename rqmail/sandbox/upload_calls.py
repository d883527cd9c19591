"""The calls to an upload URL, which holds its own authorization."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from rqmail.sandbox.answers import CallIds, GraphRefusal, empty_answer, error_answer, json_answer
from rqmail.sandbox.breakage import break_answer
from rqmail.sandbox.calls import DEFAULT_CODES, read_body
from rqmail.sandbox.faults import Fault
from rqmail.sandbox.mailbox import Mailbox
from rqmail.sandbox.state import SandboxState
from rqmail.sandbox.uploads import UploadSession

#: The work of one call.
_Operation = Callable[[web.Request, UploadSession, bytes], web.Response]


class UploadCalls:
    """Ranges put into upload sessions, and questions about them, met by faults as every other call."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put every operation on its path."""
        for method, name, operation in (
            ("PUT", "putRange", self.put_range),
            ("GET", "getUpload", self.get_upload),
            ("DELETE", "cancelUpload", self.cancel_upload),
        ):
            router.add_route(method, "/upload/{token}", self._handler(name, operation))

    def put_range(self, request: web.Request, session: UploadSession, chunk: bytes) -> web.Response:
        """``PUT`` one range to an upload URL."""
        add_volume(self._state, session.mailbox, len(chunk))
        if not session.put(request.headers.get("Content-Range", ""), chunk):
            return json_answer(session.as_json())
        attachment = session.attach()
        del self._state.uploads[session.token]
        answer = empty_answer(201)
        answer.headers["Location"] = f"{self._state.origin}/attachments/{attachment['id']}"
        return answer

    def get_upload(self, _request: web.Request, session: UploadSession, _body: bytes) -> web.Response:
        """``GET`` an upload URL: where it stands."""
        return json_answer(session.as_json())

    def cancel_upload(self, _request: web.Request, session: UploadSession, _body: bytes) -> web.Response:
        """``DELETE`` an upload URL: give it up."""
        del self._state.uploads[session.token]
        return empty_answer(204)

    def _handler(self, name: str, operation: _Operation) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            ids = CallIds(request)
            try:
                answer = await self._run(name, operation, request, ids)
            except GraphRefusal as refusal:
                self._state.ledger.refused[refusal.code] += 1
                answer = error_answer(refusal, ids, self._state.now())
            return ids.stamp(answer)

        return handle

    async def _run(self, name: str, operation: _Operation, request: web.Request, ids: CallIds) -> web.Response:
        session = self._session(request)
        body = await read_body(request, self._state.limits.request_bytes)
        with self._state.in_flight(session.mailbox):
            if self._state.latency_ms:
                await asyncio.sleep(self._state.latency_ms / 1000)
            fault = self._state.faults.pick("graph", name, session.mailbox.address)
            if fault is not None and fault.kind == "latency":
                await asyncio.sleep(fault.seconds)
            if fault is None or fault.kind == "latency":
                return operation(request, session, body)
            if fault.accepts:
                operation(request, session, body)

            def error(wanted: Fault) -> web.Response:
                code = wanted.code or DEFAULT_CODES.get(wanted.status, "UnknownError")
                refusal = GraphRefusal(wanted.status, code, wanted.message, wanted.headers)
                return error_answer(refusal, ids, self._state.now())

            return await break_answer(fault, request, error, self._state.origin)

    def _session(self, request: web.Request) -> UploadSession:
        if "Authorization" in request.headers:
            raise GraphRefusal(401, "InvalidAuthorization", "An upload URL takes no Authorization header.")
        session = self._state.uploads.get(request.match_info["token"])
        if session is None or session.expires <= self._state.now():
            raise GraphRefusal(404, "ErrorItemNotFound", "The upload session was not found or has expired.")
        return session


def add_volume(state: SandboxState, mailbox: Mailbox, size: int) -> None:
    """Count what is uploaded to a mailbox, or refuse it as Graph throttles."""
    now, limits = state.now().timestamp(), state.limits
    if mailbox.uploaded.at(now) + size > limits.upload_bytes_per_five_minutes:
        wait = {"Retry-After": str(limits.retry_after_seconds)}
        raise GraphRefusal(429, "ApplicationThrottled", "Application is over its MailboxUpload limit.", wait)
    mailbox.uploaded.add(now, size)
