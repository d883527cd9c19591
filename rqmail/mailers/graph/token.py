"""The access token for Microsoft Graph: asked for once, used by all lanes, shared between processes."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from rqmail.clock import Clock, to_epoch_ms, utc_now
from rqmail.errors import MailError, MailThrottledError
from rqmail.logs import event_log
from rqmail.mailers.graph.entra_app import EntraApp, GrantedToken
from rqmail.mailers.http.per_process import PerProcess
from rqmail.text.scrubbing import keep_passing_secret

log = event_log(__name__)

#: A token is not used any more this long before its end, for requests that are on their way then.
_MARGIN_SECONDS = 60.0

#: How long a failure is answered to everybody without asking Entra again.
_FAILURE_SECONDS = 5.0
_LONGEST_FAILURE_SECONDS = 60.0

#: How long an early renewal is left to whoever has the turn before it is tried again.
_TURN_SECONDS = 30.0


class TokenStore(Protocol):
    """Where processes leave tokens for each other; a store that cannot be reached forgets and grants."""

    def get(self, key: str) -> str | None:
        """Answer what was put under ``key``, or ``None``."""
        ...

    def put(self, key: str, value: str, ttl_seconds: float) -> None:
        """Keep ``value`` under ``key`` for ``ttl_seconds``."""
        ...

    def take_turn(self, key: str, seconds: float) -> bool:
        """Answer whether the caller may renew ``key`` early; nobody else may for ``seconds``."""
        ...


class NoTokenStore:
    """Keeps nothing: every process gets its own tokens, in memory only."""

    def get(self, key: str) -> str | None:
        """Answer ``None``."""
        return None

    def put(self, key: str, value: str, ttl_seconds: float) -> None:
        """Keep nothing."""

    def take_turn(self, key: str, seconds: float) -> bool:
        """Answer yes."""
        return True


@dataclass(frozen=True, slots=True)
class _Token:
    """A token with its moments in epoch seconds."""

    value: str = field(repr=False)
    granted_at: float
    refresh_at: float
    expires_at: float

    def __post_init__(self) -> None:
        keep_passing_secret(self.value)

    def dump(self, proof: str) -> str:
        return json.dumps([proof, self.value, self.granted_at, self.refresh_at, self.expires_at])


class GraphTokenSource:
    """Answers a valid token from memory, from other processes, or from Entra, in this order.

    Any number of threads may ask at once: one of them asks Entra, the others wait for its result or, as long as the
    present token is valid, go on with that. A token past half its life is renewed early by one process; when that
    fails the present one stays in use to its end.
    """

    def __init__(
        self,
        app: EntraApp,
        grant: Callable[[str | None], GrantedToken],
        *,
        store: TokenStore | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._grant = grant
        self._store = store or NoTokenStore()
        self._clock = clock
        self._key = store_key(app)
        self._proof = _proof_of(app)
        self._lock = PerProcess(threading.Lock)
        self._current: _Token | None = None
        self._refused: str | None = None
        self._next_renewal = 0.0
        self._failure: tuple[float, MailError] | None = None

    def token(self) -> str:
        """Answer a token that is valid now, or raise the ``MailError`` that says why there is none."""
        current = self._current
        now = self._now()
        if current is not None and now < current.expires_at:
            if now >= current.refresh_at and now >= self._next_renewal:
                return self._renew_early(current, now)
            return current.value
        with self._lock.get():
            usable = self._usable(self._now())
            return (usable or self._fetch(None)).value

    def renewed(self, refused: str, claims: str | None = None) -> str:
        """Answer a token other than ``refused``, asking Entra only if nobody has yet got a newer one."""
        with self._lock.get():
            self._refused = refused
            usable = self._usable(self._now())
            return (usable or self._fetch(claims)).value

    def _renew_early(self, current: _Token, now: float) -> str:
        lock = self._lock.get()
        if not lock.acquire(blocking=False):
            return current.value
        try:
            self._next_renewal = now + _TURN_SECONDS
            shared = self._usable(now)
            if shared is not None and now < shared.refresh_at:
                return shared.value
            if not self._store.take_turn(self._key, _TURN_SECONDS):
                return current.value
            return self._fetch(None).value
        except MailError as error:
            log.warning("mail.graph.tokenRenewalFailed", err=str(error), code=error.code)
            return current.value
        finally:
            lock.release()

    def _usable(self, now: float) -> _Token | None:
        """Answer the newest valid token of this process or the store that Graph has not refused."""
        best = self._valid(self._current, now)
        if best is None or now >= best.refresh_at:
            shared = self._valid(_load(self._store.get(self._key), self._proof), now)
            if shared is not None and (best is None or shared.granted_at > best.granted_at):
                best = shared
        if best is not None:
            self._current = best
        return best

    def _valid(self, token: _Token | None, now: float) -> _Token | None:
        return token if token is not None and now < token.expires_at and token.value != self._refused else None

    def _fetch(self, claims: str | None) -> _Token:
        """Ask Entra; a failure is remembered for a few seconds, so that waiting threads do not each ask again."""
        now = self._now()
        if self._failure is not None and now < self._failure[0]:
            raise copy.copy(self._failure[1])
        try:
            granted = self._grant(claims)
        except MailError as error:
            self._failure = (now + _pause_after(error), copy.copy(error))
            raise
        self._failure = None
        token = _token_from(granted, now)
        self._current = token
        self._next_renewal = token.refresh_at
        self._store.put(self._key, token.dump(self._proof), max(1.0, token.expires_at - now))
        return token

    def _now(self) -> float:
        return to_epoch_seconds(self._clock())


def to_epoch_seconds(moment: datetime) -> float:
    """Turn an aware datetime into seconds since 1970."""
    return to_epoch_ms(moment) / 1000


def store_key(app: EntraApp) -> str:
    """Answer the name tokens of ``app`` are shared under: a hash of who it is, without its secret."""
    return hashlib.sha256("\n".join((app.authority, app.tenant_id, app.client_id)).encode()).hexdigest()


def _pause_after(error: MailError) -> float:
    asked = error.retry_after if isinstance(error, MailThrottledError) else None
    return min(asked or _FAILURE_SECONDS, _LONGEST_FAILURE_SECONDS)


def _token_from(granted: GrantedToken, now: float) -> _Token:
    margin = min(_MARGIN_SECONDS, granted.lives_seconds * 0.1)
    return _Token(
        granted.value,
        granted_at=now,
        refresh_at=now + granted.lives_seconds / 2,
        expires_at=now + granted.lives_seconds - margin,
    )


def _proof_of(app: EntraApp) -> str:
    """Answer what a shared token is stored with, so that only who has the same secret is given it."""
    return hashlib.sha256(f"{app.client_secret}\n{app.certificate}{app.identity or ''}".encode()).hexdigest()


def _load(stored: str | None, proof: str) -> _Token | None:
    if stored is None:
        return None
    try:
        stored_proof, value, granted_at, refresh_at, expires_at = json.loads(stored)
        if stored_proof != proof:
            return None
        return _Token(str(value), float(granted_at), float(refresh_at), float(expires_at))
    except (ValueError, TypeError):
        return None
