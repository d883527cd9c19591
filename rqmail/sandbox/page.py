"""The page for people: what was accepted, newest first, and each mail as it would be read."""

from __future__ import annotations

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from rqmail.sandbox.control import is_loopback
from rqmail.sandbox.state import SandboxState

_PAGE_SIZE = 100
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Page:
    """The list at ``/`` and one mail at ``/mail/{seq}``."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state
        self._templates = Environment(
            loader=PackageLoader("rqmail.sandbox"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the pages on their paths."""
        router.add_get("/", self.show_list)
        router.add_get("/mail/{seq:[0-9]{1,9}}", self.show_mail)

    async def show_list(self, request: web.Request) -> web.Response:
        """``GET /?before=&mailbox=``."""
        ledger = self._state.ledger
        before = request.query.get("before", "")
        mailbox = request.query.get("mailbox", "").strip().lower()
        last = min(int(before) - 1, len(ledger.mails)) if before.isdecimal() else len(ledger.mails)
        shown = []
        for mail in reversed(ledger.mails[: max(last, 0)]):
            if not mailbox or mail.mailbox == mailbox:
                shown.append(mail)
            if len(shown) > _PAGE_SIZE:
                break
        return self._render(
            request,
            "list.html",
            mails=shown[:_PAGE_SIZE],
            older=shown[_PAGE_SIZE - 1].seq if len(shown) > _PAGE_SIZE else None,
            mailbox=mailbox,
            stats=self._state.stats(),
        )

    async def show_mail(self, request: web.Request) -> web.Response:
        """``GET /mail/{seq}``."""
        mail = self._state.ledger.find(int(request.match_info["seq"]))
        if mail is None:
            raise web.HTTPNotFound(text="no such mail")
        return self._render(request, "mail.html", mail=mail)

    def _render(self, request: web.Request, template: str, **values: object) -> web.Response:
        if not is_loopback(request):
            raise web.HTTPForbidden(text="this page is shown on loopback only")
        text = self._templates.get_template(template).render(**values)
        return web.Response(
            body=text.encode(errors="replace"), content_type="text/html", charset="utf-8", headers=_HEADERS
        )
