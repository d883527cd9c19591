"""The only place that makes a client of Redis: of a server, over TLS, over a socket, or through Sentinel."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

from redis import Redis, __version__
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.retry import Retry
from redis.sentinel import Sentinel

from rqmail.text.servers import SentinelAddress, sentinel_address

#: What a connection says it is; left to redis-py, that is looked up on disk for each one, which takes longer than it.
DRIVER = DriverInfo(lib_version=__version__)

#: How long a Sentinel may take to say who is primary, where the client itself may wait for long, in seconds.
_SENTINEL_SECONDS = 2.0

#: A host that vanished without a word is noticed within half a minute, also by who waits for work on it.
_KEEPALIVE = {
    getattr(socket, name): seconds
    for name, seconds in {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}.items()
    if hasattr(socket, name)
}


def redis_client(
    url: str,
    *,
    ca_file: Path | None = None,
    connect_timeout: float,
    timeout: float | None = None,
    retry: Retry | None = None,
    **options: Any,
) -> Redis:
    """Answer a client of the server at ``url``, or of whichever is primary where that names Sentinels.

    It connects at first use. ``ca_file`` says who may sign the server's certificate; the timeouts are in seconds, each
    Sentinel is asked within the same. Without a ``retry`` redis-py's own is used.
    """
    options |= {"socket_connect_timeout": connect_timeout, "socket_timeout": timeout, "driver_info": DRIVER}
    if retry is not None:
        options["retry"] = retry
    place = sentinel_address(url)
    if place is not None:
        return _through_sentinel(place, ca_file, _kept_alive(options))
    if url.startswith("rediss:") and ca_file is not None:
        options["ssl_ca_certs"] = str(ca_file)
    client: Redis = Redis.from_url(url, **(options if url.startswith("unix:") else _kept_alive(options)))
    return client


def _kept_alive(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"socket_keepalive": True, "socket_keepalive_options": _KEEPALIVE}


def stock_settings(url: str, ca_file: Path | None) -> dict[str, Any]:
    """Answer what RQ's own commands read from a module to reach the same server: ``REDIS_URL`` or ``SENTINEL``."""
    place = sentinel_address(url)
    if place is None:
        if url.startswith("rediss:") and ca_file is not None and "ssl_ca_certs=" not in url:
            url += ("&" if "?" in url else "?") + f"ssl_ca_certs={quote(str(ca_file))}"
        return {"REDIS_URL": url}
    tls = _tls(place, ca_file)
    return {
        "SENTINEL": {
            "INSTANCES": list(place.sentinels),
            "MASTER_NAME": place.service,
            "DB": place.db,
            "USERNAME": place.username,
            "PASSWORD": place.password,
            "SSL": place.tls is not None,
            "CONNECTION_KWARGS": {name: given for name, given in tls.items() if name != "ssl"},
            "SENTINEL_KWARGS": _of_sentinels(place, tls, _SENTINEL_SECONDS, _SENTINEL_SECONDS),
        }
    }


def _through_sentinel(place: SentinelAddress, ca_file: Path | None, options: dict[str, Any]) -> Redis:
    tls = _tls(place, ca_file)
    connect, answer = options["socket_connect_timeout"], options["socket_timeout"] or _SENTINEL_SECONDS
    sentinel = Sentinel(place.sentinels, sentinel_kwargs=_of_sentinels(place, tls, connect, answer))  # type: ignore[no-untyped-call]
    client: Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
        place.service, db=place.db, username=place.username, password=place.password, **tls, **options
    )
    return client


def _of_sentinels(place: SentinelAddress, tls: dict[str, Any], connect: float, answer: float) -> dict[str, Any]:
    return {
        "username": place.sentinel_username,
        "password": place.sentinel_password,
        "socket_connect_timeout": connect,
        "socket_timeout": answer,
        "retry": Retry(NoBackoff(), 0),  # the next Sentinel knows as well
        "driver_info": DRIVER,
        **tls,
    }


def _tls(place: SentinelAddress, ca_file: Path | None) -> dict[str, Any]:
    if place.tls is None:
        return {}
    authority = {} if ca_file is None else {"ssl_ca_certs": str(ca_file)}
    return {"ssl": True} | authority | place.tls
