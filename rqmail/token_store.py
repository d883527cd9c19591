"""Access tokens that all processes share through Redis, encrypted.

Keys, both with a TTL: ``rqmail:token:<hash>`` holds the encrypted token, ``rqmail:token:<hash>:turn`` stands while one
process has its turn at renewing it.
"""

from __future__ import annotations

from redis import Redis, RedisError

from rqmail.errors import SettingsError
from rqmail.vault import SecretBox

_PREFIX = "rqmail:token:"


class RedisTokenStore:
    """Keeps tokens where every process finds them; with Redis down each process gets and keeps its own."""

    def __init__(self, redis: Redis, box: SecretBox) -> None:
        self._redis = redis
        self._box = box

    def get(self, key: str) -> str | None:
        """Answer what is stored under ``key``; ``None`` if nothing can be read."""
        try:
            stored = self._redis.get(_PREFIX + key)
            if stored is None:
                return None
            return self._box.decrypt(stored.decode() if isinstance(stored, bytes) else str(stored), passing=True)
        except (RedisError, SettingsError, UnicodeDecodeError):
            return None

    def put(self, key: str, value: str, ttl_seconds: float) -> None:
        """Keep ``value`` under ``key`` for ``ttl_seconds``; does nothing while Redis cannot be reached."""
        try:
            self._redis.set(_PREFIX + key, self._box.encrypt(value), px=max(1, int(ttl_seconds * 1000)))
        except RedisError:
            return

    def take_turn(self, key: str, seconds: float) -> bool:
        """Answer whether this process may renew ``key`` now; for ``seconds`` no other process is."""
        try:
            return bool(self._redis.set(f"{_PREFIX}{key}:turn", "1", nx=True, px=max(1, int(seconds * 1000))))
        except RedisError:
            return True
