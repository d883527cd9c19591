"""How Flask is set up: keys, cookies, limits."""

from __future__ import annotations

import secrets

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flask import Flask, request
from werkzeug.local import LocalProxy

from rqmail.administration.access import SESSION_LENGTH
from rqmail.settings import Settings
from rqmail.web.cookies import PathBoundSessions

#: A request's body at most: a batch of messages, or one with the largest bodies intake takes.
MAX_REQUEST_BYTES = 10 * 1024 * 1024

#: A form at most, without files: the pages' own forms are small.
_MAX_FORM_BYTES = 1024 * 1024


def configure(app: Flask, settings: Settings, trusted_hosts: list[str] | None) -> None:
    """Set what Flask and Flask-WTF read; nothing comes from Flask's own environment variables."""
    https = settings.web_url is not None and settings.web_url.startswith("https:")
    app.config.update(
        DEBUG=False,
        PROPAGATE_EXCEPTIONS=False,
        SECRET_KEY=_session_key(settings),
        TRUSTED_HOSTS=trusted_hosts,
        MAX_CONTENT_LENGTH=MAX_REQUEST_BYTES,
        MAX_FORM_MEMORY_SIZE=_MAX_FORM_BYTES,
        PERMANENT_SESSION_LIFETIME=SESSION_LENGTH,
        SESSION_REFRESH_EACH_REQUEST=False,
        SESSION_COOKIE_NAME="rqmail",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_COOKIE_SECURE=https,
        WTF_CSRF_CHECK_DEFAULT=False,  # checked in auth.py, where it is known whether a cookie was what let one in
        WTF_CSRF_SSL_STRICT=False,  # auth.py compares origins itself, and knows that a port may be left out
        WTF_CSRF_TIME_LIMIT=int(SESSION_LENGTH.total_seconds()),
    )
    app.session_interface = PathBoundSessions()
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the default provider has it
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    app.jinja_env.autoescape = True
    #: The path we are served under, which every link of a template begins with.
    app.jinja_env.globals["root"] = LocalProxy(lambda: request.script_root)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True


def _session_key(settings: Settings) -> bytes:
    """Derive the key that signs sessions, or make one up: then everybody signs in anew after a restart."""
    if settings.secret_key is None:
        return secrets.token_bytes(32)
    derive = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"rqmail web sessions")
    return derive.derive(settings.secret_key.get_secret_value().encode())
