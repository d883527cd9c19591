"""Carrying out a fault on a live connection."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import struct
from collections.abc import Callable

from aiohttp import web

from rqmail.sandbox.faults import Fault

_HTML = "<html><head><title>{status}</title></head><body><h1>Our services aren't available right now</h1></body></html>"
_POLL_SECONDS = 0.05


async def break_answer(
    fault: Fault, request: web.Request, error: Callable[[Fault], web.Response], authorize_url: str
) -> web.Response:
    """Answer ``request`` the way ``fault`` wants; ``error`` words its plain error answer."""
    match fault.kind:
        case "reset":
            return _reset(request)
        case "hang":
            await wait_while_connected(request, fault.seconds)
            return _reset(request)
        case "html":
            text = fault.body or _HTML.format(status=fault.status)
            return web.Response(status=fault.status, text=text, content_type="text/html", headers=fault.headers)
        case "truncated-json":
            return web.Response(
                status=fault.status,
                text=fault.body or '{"error": {"code": "Err',
                content_type="application/json",
                headers=fault.headers,
            )
        case "short-body":
            return await _short_body(fault, request)
        case "bad-token":
            return _bad_token(fault, error, authorize_url)
        case _:
            return _plain(fault, error)


async def wait_while_connected(request: web.Request, seconds: float) -> None:
    """Wait ``seconds``, or until the client has gone."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := end - loop.time()) > 0 and request.transport is not None:
        await asyncio.sleep(min(left, _POLL_SECONDS))


def _reset(request: web.Request) -> web.Response:
    """Cut the connection with a TCP reset; the answer returned reaches nobody."""
    transport = request.transport
    if transport is not None:
        raw = transport.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if isinstance(transport, asyncio.Transport):
            transport.abort()
    return web.Response(status=500)


async def _short_body(fault: Fault, request: web.Request) -> web.Response:
    """Announce more bytes than are sent, then cut the connection."""
    transport = request.transport
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        head = f"HTTP/1.1 {fault.status} Sandbox\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n"
        transport.write(head.encode() + b'{"error": {"code": "')
        transport.close()
    return web.Response(status=500)


def _bad_token(fault: Fault, error: Callable[[Fault], web.Response], authorize_url: str) -> web.Response:
    fault.status = 401
    fault.code = fault.code or "InvalidAuthenticationToken"
    fault.message = fault.message or "Access token has expired or is not yet valid."
    response = error(fault)
    response.headers["WWW-Authenticate"] = challenge(authorize_url, fault.claims)
    return response


def challenge(authorize_url: str, claims: str | None = None) -> str:
    """Word a ``WWW-Authenticate`` header, with a claims challenge (JSON, sent as base64) if given."""
    text = f'Bearer realm="", authorization_uri="{authorize_url}", client_id="00000003-0000-0000-c000-000000000000"'
    if claims is None:
        return f'{text}, error="invalid_token", error_description="The token is not valid."'
    return f'{text}, error="insufficient_claims", claims="{base64.b64encode(claims.encode()).decode()}"'


def _plain(fault: Fault, error: Callable[[Fault], web.Response]) -> web.Response:
    if fault.body is None:
        return error(fault)
    headers = {"Content-Type": "application/json", **fault.headers}
    return web.Response(status=fault.status, body=fault.body.encode(), headers=headers)
