"""Access tokens that all processes share through Redis, encrypted.

Keys, both with a TTL: ``rqmail:token:<hash>`` holds the encrypted token, ``rqmail:token:<hash>:turn`` stands while one
process has its turn at renewing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from redis import Redis, RedisError, WatchError

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
            return self._box.decrypt(_text(stored, "strict"), passing=True)
        except (RedisError, SettingsError, UnicodeDecodeError):
            return None

    def put(self, key: str, value: str, ttl_seconds: float) -> None:
        """Keep ``value`` under ``key`` for ``ttl_seconds``; does nothing while Redis cannot be reached."""
        try:
            self._redis.set(_PREFIX + key, self._box.encrypt(value), px=max(1, int(ttl_seconds * 1000)))
        except RedisError:
            return

    def keys_used(self) -> Iterator[Literal["present", "former"] | None]:
        """Answer of each token with which key it is encrypted; raises ``RedisError`` while Redis cannot be reached."""
        for name in self._names():
            stored = self._redis.get(name)
            if stored is not None:
                yield self._box.key_of(_text(stored))

    def renewed(self) -> Iterator[Literal["present", "former"] | None]:
        """Encrypt each token with the present key, to end when it would; answers which key it had."""
        for name in self._names():
            with self._redis.pipeline() as pipe:
                pipe.watch(name)  # type: ignore[no-untyped-call]
                stored = pipe.get(name)
                if stored is None:
                    continue
                key = self._box.key_of(_text(stored))
                if key == "former":
                    pipe.multi()
                    pipe.set(name, self._box.renewed(_text(stored)), keepttl=True, xx=True)
                    try:
                        pipe.execute()
                    except WatchError:  # a process has just put a fresh one there
                        key = "present"
                yield key

    def _names(self) -> Iterator[str]:
        for name in self._redis.scan_iter(match=f"{_PREFIX}*", count=1000, _type="string"):
            if not _text(name).endswith(":turn"):
                yield _text(name)

    def take_turn(self, key: str, seconds: float) -> bool:
        """Answer whether this process may renew ``key`` now; for ``seconds`` no other process is."""
        try:
            return bool(self._redis.set(f"{_PREFIX}{key}:turn", "1", nx=True, px=max(1, int(seconds * 1000))))
        except RedisError:
            return True


def _text(value: object, errors: str = "replace") -> str:
    """Read what a client answers, whether it decodes answers or not."""
    return value.decode(errors=errors) if isinstance(value, bytes) else str(value)
