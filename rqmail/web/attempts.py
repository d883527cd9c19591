"""Failed sign-ins, counted per address: guessing a token is slow, whichever process is asked."""

from __future__ import annotations

import ipaddress

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import FixedWindowRateLimiter, RateLimiter
from redis import RedisError

#: Failures one address may have in ten minutes.
_ALLOWED = RateLimitItemPerMinute(10, 10)
#: Those of them that Redis could not count, so that every process counts them alone.
_ALLOWED_ALONE = RateLimitItemPerMinute(3, 10)

_PREFIX = "rqmail:sign-in"


class Attempts:
    """Counts failed sign-ins in Redis, and more strictly in memory while Redis is away."""

    def __init__(self, redis_url: str) -> None:
        url = redis_url.replace("unix://", "redis+unix://", 1) if redis_url.startswith("unix://") else redis_url
        shared = RedisStorage(url, key_prefix=_PREFIX, socket_connect_timeout=0.5, socket_timeout=0.5)
        self._shared: RateLimiter = FixedWindowRateLimiter(shared)
        self._alone: RateLimiter = FixedWindowRateLimiter(MemoryStorage())

    def are_used_up(self, address: str | None) -> bool:
        """Say whether this address has failed too often to be listened to now."""
        network = _network(address)
        if not self._alone.test(_ALLOWED_ALONE, network):
            return True
        try:
            return not self._shared.test(_ALLOWED, network)
        except RedisError:
            return False

    def failed(self, address: str | None) -> None:
        """Count one failure."""
        network = _network(address)
        try:
            self._shared.hit(_ALLOWED, network)
        except RedisError:
            self._alone.hit(_ALLOWED_ALONE, network)


def _network(address: str | None) -> str:
    """Answer what is counted: an IPv4 address, or the /64 an IPv6 address is one of many in."""
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((ip.ipv4_mapped or ip, 64 if ip.ipv4_mapped is None else 32), strict=False))
    return str(ip)
