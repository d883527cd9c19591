"""The one way out: HTTP requests over pooled connections, each sent at most once and bounded in time and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies
from urllib3 import Timeout
from urllib3.exceptions import HTTPError

from rqmail.mailers.http.per_process import PerProcess
from rqmail.mailers.http.pool import NEVER_AGAIN, POOLS, PoolAdapter, written_within
from rqmail.mailers.http.public import PUBLIC_POOLS
from rqmail.settings import LOOPBACK_HOSTS
from rqmail.version import VERSION

_CHUNK = 16 * 1024

#: Whom a provider's own logs name, whatever a library would call itself.
_USER_AGENT = f"rqmail/{VERSION}"

#: A line that carries less is not waited for.
_SLOWEST_BYTES_A_SECOND = 100_000


def slow_seconds(size: int) -> float:
    """Answer how long the slowest line we wait for takes over so many bytes."""
    return size / _SLOWEST_BYTES_A_SECOND


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said; ``headers`` ignore case, ``body`` is cut off at the limit asked for."""

    status: int
    headers: MutableMapping[str, str]
    body: bytes


class Transport:
    """Sends requests for all mailers of a process, from any thread.

    Stands on the pools of requests' adapter rather than its session: no cookies, no redirects, and nothing from the
    environment but the proxy, which is looked up once per host (loopback has none). ``connect_timeout`` bounds
    connecting and the writing, ``answer_timeout`` the whole answer; the latter two grow with the bytes of the request,
    as :func:`slow_seconds` says. ``ca_bundle`` replaces the trusted certificates. With ``public_only`` nothing is
    connected to but addresses of the public Internet, and no proxy is used: it would connect where we cannot look.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 10.0,
        answer_timeout: float = 30.0,
        ca_bundle: Path | None = None,
        connections: int = 256,
        public_only: bool = False,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._answer_timeout = answer_timeout
        self._verify: bool | str = str(ca_bundle) if ca_bundle else True
        pools = PUBLIC_POOLS if public_only else POOLS
        self._adapter = PerProcess(lambda: PoolAdapter(connections=connections, pools=pools))
        self._public_only = public_only
        self._proxies: dict[str, dict[str, str]] = {}

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit: int = 64 * 1024,
        before_writing: Callable[[], None] | None = None,
    ) -> Answer:
        """Send one request and answer what came back, reading at most about ``limit`` bytes of its body.

        ``before_writing`` is called on the connected socket, directly before the first byte; what it raises is raised
        here, and nothing is written. Raises what urllib3 raises when there is no status line, and what requests does
        where there is no way to the host; once there is a status line, a broken body is just a short one.
        """
        parts = urlsplit(url)
        host = f"{parts.scheme}://{parts.netloc}"
        pool, whole_url = self._adapter.get().way_to(host, self._verify, self._proxies_for(host, parts.hostname))
        more = slow_seconds(len(body)) if body else 0.0
        with written_within(self._connect_timeout + more, before_writing):
            response = pool.urlopen(
                method,
                url if whole_url else f"{parts.path or '/'}{parts.query and '?'}{parts.query}",
                body=body,
                headers=_signed(headers),
                retries=NEVER_AGAIN,
                redirect=False,
                assert_same_host=False,
                timeout=Timeout(connect=self._connect_timeout, read=self._answer_timeout + more),
                preload_content=False,
            )
        received = b""
        try:
            for chunk in response.stream(_CHUNK, decode_content=True):
                received += chunk
                if len(received) > limit:
                    response.close()
                    break
        except (HTTPError, OSError):
            response.close()
        response.release_conn()
        return Answer(response.status, response.headers, received[:limit])

    def close(self) -> None:
        """Close the pooled connections of this process."""
        self._adapter.get().close()

    def _proxies_for(self, host: str, name: str | None) -> dict[str, str]:
        proxies = self._proxies.get(host)
        if proxies is None:
            proxies = {} if self._public_only or name in LOOPBACK_HOSTS else dict(get_environ_proxies(host))
            self._proxies[host] = proxies
        return proxies


def _signed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() != "user-agent"} | {
        "User-Agent": _USER_AGENT
    }
