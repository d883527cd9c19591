"""How Microsoft Graph words an answer: ids, headers and error bodies."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aiohttp import web

_JSON = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8"
_DIAGNOSTIC = json.dumps(
    {
        "ServerInfo": {
            "DataCenter": "Sandbox",
            "Slice": "E",
            "Ring": "5",
            "ScaleUnit": "000",
            "RoleInstance": "LOCALHOST",
        }
    },
    separators=(",", ":"),
)


class GraphRefusal(Exception):
    """A call is answered with ``status`` and Graph's error ``code``."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


class CallIds:
    """The two ids by which Microsoft's support finds a call."""

    __slots__ = ("client_request_id", "request_id")

    def __init__(self, request: web.Request) -> None:
        self.request_id = str(uuid.uuid4())
        self.client_request_id = request.headers.get("client-request-id", self.request_id)

    def stamp(self, response: web.Response) -> web.Response:
        """Put the ids and Graph's usual headers on ``response``."""
        response.headers["request-id"] = self.request_id
        response.headers["client-request-id"] = self.client_request_id
        response.headers["x-ms-ags-diagnostic"] = _DIAGNOSTIC
        return response


def json_answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Answer ``body`` as Graph sends JSON."""
    text = json.dumps(body).encode()
    return web.Response(status=status, body=text, headers={"Content-Type": _JSON, **(headers or {})})


def empty_answer(status: int) -> web.Response:
    """Answer ``status`` and nothing else."""
    return web.Response(status=status)


def error_answer(refusal: GraphRefusal, ids: CallIds, now: datetime) -> web.Response:
    """Answer ``refusal`` with the body Graph gives an error."""
    body = {
        "error": {
            "code": refusal.code,
            "message": refusal.message,
            "innerError": {
                "date": now.strftime("%Y-%m-%dT%H:%M:%S"),
                "request-id": ids.request_id,
                "client-request-id": ids.client_request_id,
            },
        }
    }
    return json_answer(body, refusal.status, refusal.headers)


def graph_time(moment: datetime) -> str:
    """Write ``moment`` (UTC) the way Graph does, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
