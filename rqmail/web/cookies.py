"""The session's cookie: it belongs to the path the pages are served under, and to nobody else on that host."""

from __future__ import annotations

from flask import Flask, request
from flask.sessions import SecureCookieSessionInterface


class PathBoundSessions(SecureCookieSessionInterface):
    """Flask's signed cookies, each with the path of the request that set it."""

    def get_cookie_name(self, app: Flask) -> str:
        """Name it so that browsers refuse it from anyone but this very host over https, where that can be asked."""
        name = super().get_cookie_name(app)
        if not self.get_cookie_secure(app):
            return name
        return f"__Secure-{name}" if request.script_root else f"__Host-{name}"  # __Host- allows the path / alone

    def get_cookie_path(self, app: Flask) -> str:
        """Answer the path we are served under."""
        return request.script_root or "/"
