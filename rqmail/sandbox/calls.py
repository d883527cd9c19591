"""What every Graph call goes through before and after its own work: token, limits, latency, faults, error body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from rqmail.sandbox.answers import CallIds, GraphRefusal, error_answer
from rqmail.sandbox.breakage import break_answer, challenge
from rqmail.sandbox.faults import Fault
from rqmail.sandbox.mailbox import Mailbox
from rqmail.sandbox.state import SandboxState

#: What a refusal says where nobody chose its code.
DEFAULT_CODES = {
    400: "BadRequest",
    401: "InvalidAuthenticationToken",
    403: "ErrorAccessDenied",
    404: "ErrorItemNotFound",
    409: "ErrorIrresolvableConflict",
    429: "ApplicationThrottled",
    500: "ErrorInternalServerError",
    503: "ServiceUnavailable",
    504: "UnknownError",
}

#: What needs Mail.ReadWrite.
_WRITING = frozenset({"createDraft", "updateMessage", "deleteMessage", "addAttachment", "createUploadSession"})


@dataclass(frozen=True, slots=True)
class Call:
    """One Graph call on one mailbox, its body already read."""

    request: web.Request
    mailbox: Mailbox
    body: bytes
    ids: CallIds

    def json(self) -> dict[str, Any]:
        """Read the body as a JSON object, or refuse it."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise GraphRefusal(400, "BadRequest", "Unable to read JSON request payload.") from None
        if not isinstance(value, dict):
            raise GraphRefusal(400, "BadRequest", "The request payload must be a JSON object.")
        return value

    @property
    def is_mime(self) -> bool:
        """Whether the body is a whole mail in base64."""
        return self.request.content_type == "text/plain"

    @property
    def wants_immutable_ids(self) -> bool:
        """Whether the client asked for ids that survive a move."""
        preferences = ",".join(self.request.headers.getall("Prefer", [])).replace(" ", "").lower()
        return 'idtype="immutableid"' in preferences


@dataclass(frozen=True, slots=True)
class TenantCall:
    """One Graph call about the whole tenant."""

    request: web.Request
    ids: CallIds


#: The work of one operation on a mailbox, and of one on the tenant.
Operation = Callable[[Call], web.Response]
TenantOperation = Callable[[TenantCall], web.Response]
#: What the web server calls.
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CallRunner:
    """Turns operations into handlers of the web server."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def handler(self, name: str, operation: Operation) -> Handler:
        """Answer a handler that runs ``operation``, known to faults as ``name``."""
        return self._worded(lambda request, ids: self._run(name, operation, request, ids))

    def tenant_handler(self, target: str, operation: TenantOperation) -> Handler:
        """Answer a handler that runs an ``operation`` on the tenant; only faults of that ``target`` meet it."""
        return self._worded(lambda request, ids: self._run_on_tenant(target, operation, request, ids))

    def _worded(self, run: Callable[[web.Request, CallIds], Awaitable[web.Response]]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            ids = CallIds(request)
            try:
                response = await run(request, ids)
            except GraphRefusal as refusal:
                self._state.ledger.refused[refusal.code] += 1
                response = error_answer(refusal, ids, self._state.now())
            return ids.stamp(response)

        return handle

    async def _run(self, name: str, operation: Operation, request: web.Request, ids: CallIds) -> web.Response:
        body = await read_body(request, self._state.limits.request_bytes)
        self._check_token(request)
        self._check_permission(name)
        mailbox = self._state.find_mailbox(request.match_info["user"])
        try:
            with self._state.in_flight(mailbox):
                if self._state.latency_ms:
                    await asyncio.sleep(self._state.latency_ms / 1000)
                call = Call(request, mailbox, body, ids)
                fault = self._state.faults.pick("graph", name, mailbox.address)
                return operation(call) if fault is None else await self._break(fault, lambda: operation(call), call)
        except GraphRefusal:
            mailbox.refused += 1
            raise

    async def _run_on_tenant(
        self, target: str, operation: TenantOperation, request: web.Request, ids: CallIds
    ) -> web.Response:
        await read_body(request, self._state.limits.request_bytes)
        self._check_token(request)
        call = TenantCall(request, ids)
        if self._state.latency_ms:
            await asyncio.sleep(self._state.latency_ms / 1000)
        fault = self._state.faults.pick(target, target)
        return operation(call) if fault is None else await self._break(fault, lambda: operation(call), call)

    async def _break(self, fault: Fault, answer: Callable[[], web.Response], call: Call | TenantCall) -> web.Response:
        if fault.kind == "latency":
            await asyncio.sleep(fault.seconds)
            return answer()
        if fault.accepts:
            answer()

        def error(wanted: Fault) -> web.Response:
            code = wanted.code or DEFAULT_CODES.get(wanted.status, "UnknownError")
            refusal = GraphRefusal(wanted.status, code, wanted.message, wanted.headers)
            return error_answer(refusal, call.ids, self._state.now())

        return await break_answer(fault, call.request, error, self._authorize_url)

    @property
    def _authorize_url(self) -> str:
        return f"{self._state.origin}/common/oauth2/authorize"

    def _check_token(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        problem = self._state.tokens.problem_with(
            token.strip() if scheme.lower() == "bearer" else "", self._state.now().timestamp()
        )
        if problem:
            headers = {"WWW-Authenticate": challenge(self._authorize_url)}
            raise GraphRefusal(401, "InvalidAuthenticationToken", problem, headers)

    def _check_permission(self, name: str) -> None:
        directory = self._state.directory
        is_allowed = directory.may_read_mail if name not in ("sendMail", "send", "getUser") else directory.may_send
        if name in _WRITING:
            is_allowed = is_allowed and directory.may_write_mail
        if not is_allowed:
            raise GraphRefusal(403, "ErrorAccessDenied", "Access is denied. Check credentials and try again.")


async def read_body(request: web.Request, limit: int) -> bytes:
    """Read the whole body, or refuse it when it is longer than ``limit`` bytes."""
    too_long = GraphRefusal(413, "ErrorMessageSizeExceeded", "The message exceeds the maximum supported size.")
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_long from None
    if len(body) > limit:
        raise too_long
    return body
