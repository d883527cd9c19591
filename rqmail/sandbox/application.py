"""The web application: all parts on one router."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from rqmail.sandbox.answers import CallIds, GraphRefusal, error_answer
from rqmail.sandbox.control import Control
from rqmail.sandbox.entra import Entra
from rqmail.sandbox.graph import GraphMail
from rqmail.sandbox.page import Page
from rqmail.sandbox.sign_in import SignIn
from rqmail.sandbox.state import SandboxState
from rqmail.sandbox.traces import MessageTraces

#: More than any request may have, so that what is too long is refused by us and in Graph's words.
_READ_AT_MOST = 16 * 1024 * 1024


def build_application(state: SandboxState) -> web.Application:
    """Put Graph, its message trace, Entra, the control API and the page on one application."""

    @web.middleware
    async def word_unknown_paths(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as problem:
            if not request.path.startswith("/v1.0"):
                raise
            if problem.status == 405:
                text = "Specified HTTP method is not allowed for the request target."
            else:
                text = f"Resource not found for the segment '{request.path.rpartition('/')[2]}'."
            ids = CallIds(request)
            status = 405 if problem.status == 405 else 400
            return ids.stamp(error_answer(GraphRefusal(status, "BadRequest", text), ids, state.now()))

    application = web.Application(middlewares=[word_unknown_paths], client_max_size=_READ_AT_MOST)
    for part in (GraphMail(state), MessageTraces(state), Control(state), Page(state), Entra(state), SignIn(state)):
        part.add_routes(application.router)
    return application
