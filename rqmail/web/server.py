"""The HTTP server: waitress, and the one thing it insists on before it listens."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import waitress

from rqmail.bootstrap import Application
from rqmail.logs import event_log
from rqmail.settings import is_loopback
from rqmail.web import channels
from rqmail.web.app import create_app
from rqmail.web.uploads import most_read

log = event_log(__name__)

_THREADS = 8

_MAX_HEADER_BYTES = 64 * 1024


def serve(application: Application, host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the API and the pages until the process is told to end.

    Where no token is configured, only this machine may ask: any other ``host`` raises ``SettingsError``, and on
    loopback a token is made that holds as long as the process, and printed.
    """
    token = application.access.ensure_token(host)
    if token is not None:
        print(f"No token is configured; until this process ends, sign in with {token}")  # noqa: T201
    settings = application.settings
    app = create_app(
        application,
        trusted_hosts=_trusted_hosts(host, settings.web_url),
        behind_proxy=settings.web_trusted_proxy is not None,
    )
    log.info("web.listening", host=host, port=port)
    application.timetable.keep_in_background()
    try:
        waitress.serve(
            app,
            host=host,
            port=port,
            threads=_THREADS,
            ident=None,
            connection_limit=channels.connection_limit(),
            channel_timeout=channels.SECONDS_TO_ASK,
            cleanup_interval=5,
            asyncore_use_poll=True,
            max_request_header_size=_MAX_HEADER_BYTES,
            # Above this waitress hangs up; below it, and above our own limit, we can still say what is wrong.
            max_request_body_size=most_read(settings.max_message_bytes),
            url_scheme=urlsplit(settings.web_url).scheme if settings.web_url else "http",
            clear_untrusted_proxy_headers=True,
            expose_tracebacks=False,
            _server=channels.create,
            **_behind(settings.web_trusted_proxy),
        )
    finally:
        application.timetable.stop_keeping()


def _behind(proxy: str | None) -> dict[str, Any]:
    """Trust the named proxy, and no other, to say who is asking."""
    return {} if proxy is None else {"trusted_proxy": proxy, "trusted_proxy_headers": {"x-forwarded-for"}}


def _trusted_hosts(host: str, web_url: str | None) -> list[str] | None:
    """Name what the process is asked under; ``None`` (any) where it listens openly and nobody said how it is called."""
    public = urlsplit(web_url).hostname if web_url else None
    if public is None and not is_loopback(host):
        return None
    return [name for name in (public, "localhost", "127.0.0.1", "[::1]", "::1") if name]
