"""Access: who a token belongs to and what it allows."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from rqmail.clock import Clock
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError, SettingsError
from rqmail.models.access import ApiToken, EndedSession
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.mailbox import SystemMailbox
from rqmail.settings import is_loopback

#: The name under which the token from the settings acts; no named token may take it.
ADMIN = "admin"

#: How every named token begins, so that scanners for leaked secrets recognise it.
_PREFIX = "rqm_"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_USE_NOTED_EVERY = timedelta(minutes=1)

#: Signed in for a working day.
SESSION_LENGTH = timedelta(hours=12)


class Scope(StrEnum):
    """What a token opens: handing mail in, looking at everything, or (with both of these) changing everything."""

    SEND = "send"
    READ = "read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a token belongs to; ``mark`` recognises the same token again without being one.

    ``mailboxes`` are the keys of the only ones it hands in mail for and sees mail of, ``None`` for every sender.
    """

    name: str
    scopes: frozenset[Scope]
    mark: str
    mailboxes: frozenset[str] | None = None

    def may(self, scope: Scope) -> bool:
        """Say whether this one is authorised for ``scope``."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def may_send_from(self, sender: str) -> bool:
        """Say whether this one may hand in mail of a sender: ``mailbox:KEY``, ``tenant:KEY`` or ``default``."""
        if self.mailboxes is None:
            return True
        kind, _, key = sender.partition(":")
        return kind == "mailbox" and key in self.mailboxes


@dataclass(frozen=True, slots=True)
class TokenView:
    """A named token as it can be shown: everything but the token."""

    name: str
    scopes: tuple[Scope, ...]
    created_on: datetime
    created_by: str
    expires_on: datetime | None
    last_used_on: datetime | None
    revoked_on: datetime | None
    mailboxes: tuple[str, ...] | None = None


class Access:
    """Tells who a token belongs to, and issues and revokes named ones."""

    def __init__(self, clock: Clock, admin_token: str | None) -> None:
        self._clock = clock
        self._admin_digest = None if admin_token is None else _digest(admin_token)

    def authenticate(self, token: str) -> Principal | None:
        """Answer whose token this is; ``None`` for one that is unknown, revoked or expired.

        Tokens are compared by their digests and in constant time, so that how long an answer takes tells nothing.
        """
        digest = _digest(token)
        if self._admin_digest is not None and hmac.compare_digest(digest, self._admin_digest):
            return self._admin()
        with pooled_connection():
            row = ApiToken.get_or_none(ApiToken.digest == digest)
        if row is None or not self._is_valid(row):
            return None
        self._note_use(row)
        return _principal(row)

    def recall(self, name: str, mark: str, *, session: str) -> Principal | None:
        """Answer the one who signed in earlier under this name.

        ``None`` when that token was changed or withdrawn since, or somebody signed out of the session.
        """
        with pooled_connection():
            if EndedSession.get_or_none(EndedSession.id == session) is not None:
                return None
        return self._holder(name, mark)

    def withdrawn(self, known: Iterable[Principal]) -> set[Principal]:
        """Answer those of some who came in earlier whose token does not open any more: for connections that last."""
        asked = set(known)
        now = self._clock()
        names = sorted({one.name for one in asked} - {ADMIN})
        marks = {} if self._admin_digest is None else {ADMIN: _mark(self._admin_digest)}
        for name, digest, is_due in ApiToken.open_at(now, names, now - _USE_NOTED_EVERY):
            marks[name] = _mark(digest)
            if is_due:
                self._note(name, now)
        return {one for one in asked if not hmac.compare_digest(marks.get(one.name, ""), one.mark)}

    def end_session(self, session: str) -> None:
        """End this session for every copy of its cookie; those that have ended by themselves since are forgotten."""
        now = self._clock()
        with transaction():
            EndedSession.delete().where(EndedSession.ended_on < now - 2 * SESSION_LENGTH).execute()
            EndedSession.insert(id=session, ended_on=now).on_conflict_ignore().execute()

    def is_configured(self) -> bool:
        """Say whether there is any valid token."""
        if self._admin_digest is not None:
            return True
        with pooled_connection():
            return any(self._is_valid(row) for row in ApiToken.select().where(ApiToken.revoked_on.is_null()))

    def ensure_token(self, host: str) -> str | None:
        """Let somebody sign in at a server on ``host``: answer a token for this process where none is configured.

        Only loopback is served so: any other ``host`` raises ``SettingsError``. ``None`` where there is a token.
        """
        if self.is_configured():
            return None
        if not is_loopback(host):
            raise SettingsError(
                "RQMAIL_ADMIN_TOKEN",
                None,
                f"at least 16 characters, or a token made with `rqmail token create`, before listening on {host}; "
                "without one only loopback (127.0.0.1, ::1) is served",
            )
        return self.issue_temporary()

    def issue_temporary(self) -> str:
        """Make an admin token that lives as long as this process, and answer it; the only place it is ever shown."""
        token = _PREFIX + secrets.token_urlsafe(32)
        self._admin_digest = _digest(token)
        return token

    # --- named tokens --------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        by: str,
        expires_on: datetime | None = None,
        mailboxes: Iterable[str] = (),
    ) -> tuple[TokenView, str]:
        """Issue a named token and answer it with what is kept of it; it cannot be shown again.

        With ``mailboxes``, keys of some that exist, it hands in mail for these alone, and sees no other mail.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == ADMIN:
            raise InvalidInputError(
                "name", name, f"1 to 64 letters, digits, dots, hyphens and underscores, other than {ADMIN!r}"
            )
        now = self._clock()
        if expires_on is not None and expires_on <= now:
            raise InvalidInputError("expiresOn", expires_on.isoformat(), "a moment in the future")
        allowed = _scopes(scopes)
        bound = _mailboxes(mailboxes, allowed)
        token = _PREFIX + secrets.token_urlsafe(32)
        row = {
            "name": name,
            "digest": _digest(token),
            "scopes": " ".join(allowed),
            "mailboxes": None if bound is None else json.dumps(bound),
            "created_on": now,
            "created_by": by,
            "expires_on": expires_on,
        }
        with transaction():
            added = list(ApiToken.insert(**row).on_conflict_ignore().returning(ApiToken.name).execute())
        if not added:
            raise ConflictError(f"token {name!r} exists already")
        return self.token(name), token

    def tokens(self) -> list[TokenView]:
        """List all named tokens by name, the revoked ones too."""
        with pooled_connection():
            return [_view(row) for row in ApiToken.select().order_by(ApiToken.name)]

    def token(self, name: str) -> TokenView:
        """Answer one named token."""
        with pooled_connection():
            row = ApiToken.get_or_none(ApiToken.name == name)
        if row is None:
            raise NotFoundError("token", name)
        return _view(row)

    def revoke(self, name: str) -> TokenView:
        """Revoke this token from now on; a second time changes nothing."""
        with transaction():
            self.token(name)
            ApiToken.update(revoked_on=self._clock()).where(
                ApiToken.name == name, ApiToken.revoked_on.is_null()
            ).execute()
        return self.token(name)

    # --- the parts -----------------------------------------------------------------------------------------------

    def _holder(self, name: str, mark: str) -> Principal | None:
        found: Principal | None = None
        if name == ADMIN:
            found = self._admin() if self._admin_digest is not None else None
        else:
            with pooled_connection():
                row = ApiToken.get_or_none(ApiToken.name == name)
            if row is not None and self._is_valid(row):
                self._note_use(row)
                found = _principal(row)
        return found if found is not None and hmac.compare_digest(found.mark, mark) else None

    def _admin(self) -> Principal:
        return Principal(ADMIN, frozenset(Scope), _mark(self._admin_digest or ""))

    def _is_valid(self, row: ApiToken) -> bool:
        return row.revoked_on is None and (row.expires_on is None or row.expires_on > self._clock())

    def _note_use(self, row: ApiToken) -> None:
        now = self._clock()
        if row.last_used_on is None or now - row.last_used_on >= _USE_NOTED_EVERY:
            self._note(row.name, now)

    def _note(self, name: str, now: datetime) -> None:
        with pooled_connection():
            ApiToken.update(last_used_on=now).where(ApiToken.name == name).execute()


def _digest(token: str) -> str:
    # A fast hash is enough: what is hashed has 256 random bits, or is the operator's own secret from the settings.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _mark(digest: str) -> str:
    return hashlib.sha256(b"session of " + digest.encode()).hexdigest()


def _principal(row: ApiToken) -> Principal:
    bound = _bound(row)
    return Principal(
        row.name,
        frozenset(Scope(scope) for scope in row.scopes.split()),
        _mark(row.digest),
        None if bound is None else frozenset(bound),
    )


def _bound(row: ApiToken) -> tuple[str, ...] | None:
    return None if row.mailboxes is None else tuple(json.loads(row.mailboxes))


def _mailboxes(keys: Iterable[str], scopes: list[str]) -> list[str] | None:
    wanted = sorted(set(keys))
    if not wanted:
        return None
    if Scope.SEND not in scopes or Scope.ADMIN in scopes:
        raise InvalidInputError("mailboxes", ", ".join(wanted), "none, unless the scope is send and not admin")
    with pooled_connection():
        known = {row.key for row in SystemMailbox.select(SystemMailbox.key).where(SystemMailbox.key.in_(wanted))}
    for key in wanted:
        if key not in known:
            raise InvalidInputError("mailboxes", key, "keys of mailboxes that exist (`rqmail mailbox list` shows them)")
    return wanted


def _scopes(scopes: Iterable[str]) -> list[str]:
    wanted = list(scopes)
    allowed = [scope.value for scope in Scope]
    if not wanted or not set(wanted) <= set(allowed):
        raise InvalidInputError("scopes", ", ".join(map(str, wanted)), "one or more of " + ", ".join(allowed))
    return [scope for scope in allowed if scope in wanted]


def _view(row: ApiToken) -> TokenView:
    return TokenView(
        name=row.name,
        scopes=tuple(Scope(scope) for scope in row.scopes.split()),
        created_on=row.created_on,
        created_by=row.created_by,
        expires_on=row.expires_on,
        last_used_on=row.last_used_on,
        revoked_on=row.revoked_on,
        mailboxes=_bound(row),
    )
