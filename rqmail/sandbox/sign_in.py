"""Where people sign in: a page on which they choose who they are, without a password."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from rqmail.sandbox.directory import SandboxDirectory
from rqmail.sandbox.state import SandboxState
from rqmail.sandbox.tokens import TokenRefusal, check_client_id, check_tenant

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

#: Who was chosen on the page; empty for whoever cancels.
_CHOSEN = "sandbox_person"

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


class SignIn:
    """The authorisation endpoint, for the code flow with PKCE."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state
        self._templates = Environment(
            loader=PackageLoader("rqmail.sandbox"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the endpoint on its path."""
        router.add_get("/{tenant}/oauth2/v2.0/authorize", self.authorize)

    async def authorize(self, request: web.Request) -> web.Response:
        """``GET /{tenant}/oauth2/v2.0/authorize``: ask who is there, then send them back with a code."""
        asked, directory = dict(request.query), self._state.directory
        try:
            check_tenant(request.match_info["tenant"], directory)
            check_client_id(asked.get("client_id", ""), directory)
            _check_redirect(asked.get("redirect_uri", ""), directory)
        except TokenRefusal as refusal:
            return self._render("sign_in.html", 400, wrong=f"AADSTS{refusal.number}: {refusal.message}", links=[])
        chosen = asked.pop(_CHOSEN, None)
        if (refused := _refusal(asked)) is not None:
            return _back(asked, error=refused[0], error_description=refused[1])
        if chosen is None:
            links = [(name, f"?{urlencode(asked | {_CHOSEN: name})}") for name in directory.people]
            return self._render(
                "sign_in.html", 200, wrong="", links=[*links, ("Cancel", f"?{urlencode(asked | {_CHOSEN: ''})}")]
            )
        if chosen not in directory.people:
            text = "AADSTS65004: User declined to consent to access the app."
            return _back(asked, error="access_denied", error_description=text)
        return _back(asked, code=self._state.people.issue_code(chosen, asked, self._state.now().timestamp()))

    def _render(self, template: str, status: int, **values: object) -> web.Response:
        text = self._templates.get_template(template).render(**values)
        return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=_HEADERS)


def _check_redirect(wanted: str, directory: SandboxDirectory) -> None:
    known = wanted in directory.redirect_uris if directory.redirect_uris else urlsplit(wanted).hostname in _LOOPBACK
    if not known:
        text = f"The redirect URI '{wanted}' specified in the request does not match the redirect URIs of the app."
        raise TokenRefusal(400, "invalid_request", 50011, text)


def _refusal(asked: dict[str, str]) -> tuple[str, str] | None:
    """Say as Entra does what is wrong with a request of a known application."""
    if asked.get("response_type") != "code" or asked.get("response_mode", "query") != "query":
        return "unsupported_response_type", "AADSTS700054: response_type is not enabled for the application."
    if "openid" not in asked.get("scope", "").split():
        return "invalid_scope", "AADSTS70011: The provided value for the input parameter 'scope' is not valid."
    if not asked.get("code_challenge") or asked.get("code_challenge_method") != "S256":
        return "invalid_request", "AADSTS9002325: Proof Key for Code Exchange is required, with the method S256."
    return None


def _back(asked: dict[str, str], **answer: str) -> web.Response:
    state = {"state": asked["state"]} if "state" in asked else {}
    place = asked["redirect_uri"]
    location = f"{place}{'&' if '?' in place else '?'}{urlencode(answer | state)}"
    return web.Response(status=302, headers={"Location": location, **_HEADERS})
