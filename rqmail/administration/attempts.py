"""Tokens that are looked at: guessing is slow for an address that has guessed wrong, and a right token always opens."""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import FixedWindowRateLimiter, RateLimiter
from redis import RedisError

from rqmail.administration.access import Access, Principal
from rqmail.errors import RqmailError
from rqmail.logs import event_log
from rqmail.redis_clients import redis_client

log = event_log(__name__)

#: Wrong tokens one address may bring in ten minutes before it is slowed.
_ALLOWED = RateLimitItemPerMinute(10, 10)
#: Those of them that Redis could not count, so that every process counts them alone.
_ALLOWED_ALONE = RateLimitItemPerMinute(3, 10)

_PREFIX = "rqmail:sign-in"

#: How long a token is left lying before it is looked at, once its address is slowed, and how many may lie at a time.
#: Further ones are refused unseen: a process's threads are for authorised requests.
_HELD_SECONDS = 0.5
_HELD_AT_ONCE = 2

#: Tokens that were right in this process and are not slowed with the guesses that come from the same address.
_REMEMBERED = 1000


class TooManyAttemptsError(RqmailError):
    """Too many wrong tokens came from this address, and this one was not looked at; ``retry_after`` is in seconds."""

    retry_after = 1

    def __init__(self) -> None:
        super().__init__("Too many wrong tokens came from this address, and this one was not looked at.")


class Attempts:
    """Looks at tokens and counts the wrong ones: in Redis, and more strictly in memory while Redis is away."""

    def __init__(
        self, redis_url: str, sleep: Callable[[float], None] = time.sleep, *, ca_file: Path | None = None
    ) -> None:
        client = redis_client(redis_url, ca_file=ca_file, connect_timeout=0.5, timeout=0.5)
        shared = RedisStorage("redis://", connection_pool=client.connection_pool, key_prefix=_PREFIX)
        self._client = client  # closes its connections when it is forgotten
        self._shared: RateLimiter = FixedWindowRateLimiter(shared)
        self._alone: RateLimiter = FixedWindowRateLimiter(MemoryStorage())
        self._sleep = sleep
        self._held = threading.BoundedSemaphore(_HELD_AT_ONCE)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def authenticate(self, access: Access, token: str, address: str | None) -> Principal | None:
        """Answer whose token this is, ``None`` for a wrong one; raises ``TooManyAttemptsError`` for one unseen."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        if digest not in self._right and self._are_used_up(address):
            self._hold()
        found = access.authenticate(token)
        if found is not None:
            self._remember(digest)
            return found
        self._right.pop(digest, None)
        self._count(address)
        log.warning("web.token.refused", address=address)
        return None

    def _hold(self) -> None:
        if not self._held.acquire(blocking=False):
            raise TooManyAttemptsError
        try:
            self._sleep(_HELD_SECONDS)
        finally:
            self._held.release()

    def _remember(self, digest: bytes) -> None:
        with self._lock:
            self._right[digest] = None
            self._right.move_to_end(digest)
            if len(self._right) > _REMEMBERED:
                self._right.popitem(last=False)

    def _are_used_up(self, address: str | None) -> bool:
        network = _network(address)
        if not self._alone.test(_ALLOWED_ALONE, network):
            return True
        try:
            return not self._shared.test(_ALLOWED, network)
        except RedisError:
            return False

    def _count(self, address: str | None) -> None:
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
