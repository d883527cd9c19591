"""Where it is served: under a path of a larger site, and to monitors under whatever name they ask."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rqmail.errors import SettingsError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: What is asked by address: probes and scrapers know a process by its IP address and not by the site's name.
MONITORS = frozenset({"/healthz", "/readyz", "/metrics"})

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def path_of(web_url: str | None, ours: Collection[str]) -> str:
    """Answer the path under which people reach us, without its last slash; empty at the root of a site.

    A path that begins with a name of ``ours`` is refused with ``SettingsError``: ``/ui/messages`` would be a page to
    one proxy and the API's ``/messages`` under ``/ui`` to another.
    """
    path = urlsplit(web_url).path.rstrip("/") if web_url else ""
    if _first(path) in ours:
        allowed = f"an address whose path begins with none of our own ({', '.join(sorted(ours))}): leave it out"
        raise SettingsError("RQMAIL_WEB_URL", web_url, allowed)
    return path


class Mount:
    """Serves an application under ``path``, whether or not the proxy before it takes the path off.

    With ``behind_proxy`` a request that came through the trusted proxy may name another path in X-Forwarded-Prefix,
    unless it begins with a name of ``ours``, as :func:`path_of` has it.
    Monitors are answered as if they had asked under ``host``: nothing that they are told depends on it.
    """

    def __init__(
        self, inner: WSGIApplication, path: str, ours: Collection[str], *, host: str | None, behind_proxy: bool
    ) -> None:
        self._inner = inner
        self._path = path
        self._ours = ours
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
        usable = _PATH.fullmatch(prefix) and ".." not in prefix and _first(prefix) not in self._ours
        return prefix if usable else None


def _first(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
