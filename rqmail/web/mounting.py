"""Where it is served: under a path of a larger site, and to monitors under whatever name they ask."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: What is asked by address: probes and scrapers know a process by its IP address and not by the site's name.
MONITORS = frozenset({"/healthz", "/readyz", "/metrics"})

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def path_of(web_url: str | None) -> str:
    """Answer the path under which people reach us, without its last slash; empty at the root of a site."""
    return urlsplit(web_url).path.rstrip("/") if web_url else ""


class Mount:
    """Serves an application under ``path``, whether or not the proxy before it takes the path off.

    With ``behind_proxy`` a request that came through the trusted proxy may name another path in X-Forwarded-Prefix.
    Monitors are answered as if they had asked under ``host``: nothing that they are told depends on it.
    """

    def __init__(self, inner: WSGIApplication, path: str, *, host: str | None, behind_proxy: bool) -> None:
        self._inner = inner
        self._path = path
        self._host = host
        self._behind_proxy = behind_proxy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        root = self._forwarded(environ) or self._path
        asked = environ.get("PATH_INFO", "")
        if root:
            if asked == root or asked.startswith(root + "/"):
                asked = environ["PATH_INFO"] = asked.removeprefix(root)
            environ["SCRIPT_NAME"] = root
        if self._host is not None and asked in MONITORS:
            environ["HTTP_HOST"] = self._host
        elif "HTTP_HOST" in environ:
            environ["HTTP_HOST"] = environ["HTTP_HOST"].lower()
        return self._inner(environ, start_response)

    def _forwarded(self, environ: dict[str, Any]) -> str | None:
        """Answer the path the trusted proxy names.

        The server has removed X-Forwarded-For where it came from anyone else, so that its presence is the proof.
        """
        prefix = environ.pop("HTTP_X_FORWARDED_PREFIX", "").rstrip("/")
        if not self._behind_proxy or "HTTP_X_FORWARDED_FOR" not in environ:
            return None
        return prefix if _PATH.fullmatch(prefix) and ".." not in prefix else None
