"""The sandbox's own API under ``/_sandbox``: what was accepted, and which faults are to happen. Loopback only."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

from aiohttp import web

from rqmail.sandbox.calls import Handler
from rqmail.sandbox.faults import Fault
from rqmail.sandbox.ledger import FIELDS, as_json
from rqmail.sandbox.state import SandboxState


def is_loopback(request: web.Request) -> bool:
    """Tell whether the client is on this machine."""
    try:
        return ip_address(request.remote or "").is_loopback
    except ValueError:
        return False


class Control:
    """The control API; every answer is JSON."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the API on its paths."""
        for method, path, handler in (
            ("GET", "accepted", self.accepted),
            ("GET", "stats", self.stats),
            ("POST", "reset", self.reset),
            ("GET", "faults", self.list_faults),
            ("POST", "faults", self.add_fault),
            ("DELETE", "faults", self.clear_faults),
            ("DELETE", "faults/{id:[0-9]+}", self.clear_faults),
            ("GET", "config", self.config),
            ("PATCH", "config", self.configure),
            ("POST", "tokens/revoke", self.revoke_tokens),
        ):
            router.add_route(method, f"/_sandbox/{path}", _guarded(handler))

    async def accepted(self, request: web.Request) -> web.Response:
        """``GET /_sandbox/accepted?mailbox=&after=&limit=&fields=``, oldest first."""
        query = request.query
        wanted = query["fields"].split(",") if query.get("fields") else None
        if wanted and not set(wanted) <= set(FIELDS):
            raise ValueError(f"fields may be: {', '.join(FIELDS)}")
        limit = int(query["limit"]) if "limit" in query else None
        mailbox = query["mailbox"].strip().lower() if "mailbox" in query else None
        mails = self._state.ledger.select(mailbox=mailbox, after=int(query.get("after", "0")), limit=limit)
        text = await asyncio.to_thread(lambda: json.dumps([as_json(mail, wanted) for mail in mails]))
        return web.json_response(text=text)

    async def stats(self, _request: web.Request) -> web.Response:
        """``GET /_sandbox/stats``."""
        return web.json_response(self._state.stats())

    async def reset(self, _request: web.Request) -> web.Response:
        """``POST /_sandbox/reset``."""
        self._state.reset()
        return web.Response(status=204)

    async def list_faults(self, _request: web.Request) -> web.Response:
        """``GET /_sandbox/faults``: the rules in force."""
        return web.json_response(self._state.faults.as_json())

    async def add_fault(self, request: web.Request) -> web.Response:
        """``POST /_sandbox/faults``: one more rule."""
        fault = Fault.from_json(await _object(request))
        self._state.faults.add(fault)
        return web.json_response(fault.as_json(), status=201)

    async def clear_faults(self, request: web.Request) -> web.Response:
        """``DELETE /_sandbox/faults`` or ``/_sandbox/faults/{id}``."""
        number = request.match_info.get("id")
        self._state.faults.clear(None if number is None else int(number))
        return web.Response(status=204)

    async def config(self, _request: web.Request) -> web.Response:
        """``GET /_sandbox/config``: all settings but the secret."""
        state = self._state
        people = {name: value for name, value in asdict(state.directory).items() if name != "client_secret"}
        return web.json_response(
            {
                "limits": asdict(state.limits),
                "directory": people,
                "latency_ms": state.latency_ms,
                "sent_items_delay_seconds": state.sent_items_delay_seconds,
                "bounces": state.bounces,
                "traces": state.traces,
                "trace_delay_seconds": state.trace_delay_seconds,
            }
        )

    async def configure(self, request: web.Request) -> web.Response:
        """``PATCH /_sandbox/config``: change settings until the next reset."""
        self._state.configure(await _object(request))
        return await self.config(request)

    async def revoke_tokens(self, _request: web.Request) -> web.Response:
        """``POST /_sandbox/tokens/revoke``: revoke every token issued so far, of people too."""
        self._state.tokens.revoke_all()
        self._state.people.revoke_all()
        return web.Response(status=204)


async def _object(request: web.Request) -> dict[str, Any]:
    value = json.loads(await request.read())
    if not isinstance(value, dict):
        raise ValueError("the body must be a JSON object")  # noqa: TRY004 - one kind of refusal for the caller
    return value


def _guarded(handler: Handler) -> Handler:
    """Serve this machine only, require JSON for what changes something, and answer 400 to what cannot be read."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if not is_loopback(request):
            return web.json_response({"error": "the control API answers on loopback only"}, status=403)
        if request.method != "GET" and request.content_type != "application/json":
            return web.json_response({"error": "send Content-Type: application/json"}, status=415)
        try:
            return await handler(request)
        except (ValueError, TypeError) as problem:
            return web.json_response({"error": str(problem)}, status=400)

    return handle
