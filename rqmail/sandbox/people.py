"""People who sign in: the codes they come back with, and the tokens these are redeemed for."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from rqmail.sandbox.directory import SandboxDirectory, object_id
from rqmail.sandbox.tokens import TokenRefusal

#: What is granted to a person rather than to the application.
PERSONAL_GRANTS = frozenset({"authorization_code", "refresh_token"})

_CODE_SECONDS = 600
_ID_TOKEN_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class _SignedIn:
    """Somebody who chose their account, and the request they did it for."""

    name: str
    session: str
    scope: str
    nonce: str | None
    redirect_uri: str
    challenge: str
    until: float


class SignedInPeople:
    """Issues codes, id tokens and refresh tokens, and remembers which still hold."""

    def __init__(self) -> None:
        self._codes: dict[str, _SignedIn] = {}
        self._redeemed: set[str] = set()
        self._refresh: dict[str, _SignedIn] = {}
        self._revoked: set[str] = set()

    def issue_code(self, name: str, asked: dict[str, str], now: float) -> str:
        """Make the code with which ``name`` goes back to the application that ``asked``."""
        code = f"0.{secrets.token_urlsafe(48)}"
        self._codes[code] = _SignedIn(
            name=name,
            session=secrets.token_hex(16),
            scope=asked["scope"],
            nonce=asked.get("nonce"),
            redirect_uri=asked["redirect_uri"],
            challenge=asked["code_challenge"],
            until=now + _CODE_SECONDS,
        )
        return code

    def grant(self, form: dict[str, str], directory: SandboxDirectory, issuer: str, now: float) -> dict[str, Any]:
        """Answer what a code or refresh token is exchanged for; raises what Entra answers when it is refused."""
        if form["grant_type"] == "authorization_code":
            person = self._redeem(form, now)
        else:
            person = self._refreshing(form.get("refresh_token", ""))
        if person.name not in directory.people:
            raise TokenRefusal(400, "invalid_grant", 50057, "The user account is disabled.")
        answer: dict[str, Any] = {
            "scope": person.scope,
            "id_token": self._id_token(person, directory, issuer, now, form["grant_type"]),
            "client_info": _base64(json.dumps({"uid": object_id(person.name), "utid": directory.tenant_id}).encode()),
        }
        if "offline_access" in person.scope.split():
            refresh = f"1.{secrets.token_urlsafe(64)}"
            self._refresh[refresh] = person
            answer["refresh_token"] = refresh
        return answer

    def revoke_all(self) -> None:
        """Refuse every refresh token issued so far, as after a changed password."""
        self._revoked |= set(self._refresh)

    def public_key(self) -> dict[str, Any]:
        """Answer the key that id tokens are signed with, as a JSON web key."""
        key: dict[str, Any] = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return key | {"kid": self._kid, "use": "sig", "alg": "RS256"}

    def _redeem(self, form: dict[str, str], now: float) -> _SignedIn:
        code = form.get("code", "")
        if code in self._redeemed:
            raise TokenRefusal(400, "invalid_grant", 54005, "OAuth2 Authorization code was already redeemed.")
        person = self._codes.get(code)
        if person is None:
            raise TokenRefusal(400, "invalid_grant", 9002313, "The provided authorization code is malformed.")
        if now > person.until:
            raise TokenRefusal(400, "invalid_grant", 70008, "The provided authorization code has expired.")
        if form.get("redirect_uri") != person.redirect_uri:
            raise TokenRefusal(400, "invalid_client", 500112, "The reply address does not match that of the request.")
        verifier = form.get("code_verifier", "")
        if not secrets.compare_digest(_base64(hashlib.sha256(verifier.encode()).digest()), person.challenge):
            text = "The Code_Verifier does not match the code_challenge supplied in the authorization request."
            raise TokenRefusal(400, "invalid_grant", 501481, text)
        self._redeemed.add(code)
        return person

    def _refreshing(self, token: str) -> _SignedIn:
        person = self._refresh.get(token)
        if person is None:
            raise TokenRefusal(400, "invalid_grant", 9002313, "The provided refresh token is malformed.")
        if token in self._revoked:
            text = "The provided grant has expired due to it being revoked, a fresh auth token is needed."
            raise TokenRefusal(400, "invalid_grant", 50173, text)
        return person

    def _id_token(self, person: _SignedIn, directory: SandboxDirectory, issuer: str, now: float, grant: str) -> str:
        user = person.name.lower().replace(" ", ".")
        claims: dict[str, Any] = {
            "aud": directory.client_id,
            "iss": issuer,
            "iat": int(now),
            "nbf": int(now),
            "exp": int(now) + _ID_TOKEN_SECONDS,
            "name": person.name,
            "nonce": person.nonce if grant == "authorization_code" else None,
            "oid": object_id(person.name),
            "preferred_username": f"{user}@sandbox.example",
            "roles": list(directory.people[person.name]) or None,
            "sid": person.session,
            "sub": _base64(hashlib.sha256(person.name.encode()).digest()),
            "tid": directory.tenant_id,
            "ver": "2.0",
        }
        claims |= directory.id_token
        said = {name: value for name, value in claims.items() if value is not None}
        key = _new_key() if directory.signs_falsely else self._key
        return jwt.encode(said, key, algorithm="RS256", headers={"kid": self._kid})

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return _new_key()

    @cached_property
    def _kid(self) -> str:
        return secrets.token_urlsafe(20)


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
