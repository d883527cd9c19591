"""Access tokens: who gets one, and which of them are still valid."""

from __future__ import annotations

import secrets
import time
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from jwt.utils import base64url_encode

from rqmail.sandbox.directory import SandboxDirectory

GRAPH_RESOURCES = ("https://graph.microsoft.com", "https://localhost", "https://127.0.0.1")
#: For whom the tokens are made that stand in for a secret.
FEDERATION_AUDIENCE = "api://AzureADTokenExchange"

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class TokenRefusal(Exception):
    """Entra answers ``status`` with an OAuth ``error`` and its own AADSTS ``number``."""

    def __init__(self, status: int, error: str, number: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.number = number
        self.message = message


class TokenStore:
    """Issues tokens against the directory and remembers which are valid."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._expiry: dict[str, float] = {}
        self.issued = 0
        self.refused = 0
        self.last_claims: str | None = None

    def issue(self, directory: SandboxDirectory, issuer: str, now: float) -> str:
        """Make a token that lives as long as the directory says."""
        self.issued += 1
        self._expiry = {token: expiry for token, expiry in self._expiry.items() if expiry > now - 3600}
        expires = now + directory.token_lifetime_seconds
        reads = "Mail.ReadWrite" if directory.may_write_mail else "Mail.Read"
        granted = (
            ("Mail.Send", directory.may_send),
            (reads, directory.may_read_mail),
            ("ExchangeMessageTrace.Read.All", directory.may_read_traces),
        )
        token = jwt.encode(
            {
                "aud": GRAPH_RESOURCES[0],
                "iss": issuer,
                "appid": directory.client_id,
                "tid": directory.tenant_id,
                "iat": int(now),
                "exp": int(expires),
                "roles": [role for role, is_granted in granted if is_granted],
                "jti": secrets.token_hex(8),
            },
            self._key,
            algorithm="HS256",
        )
        self._expiry[token] = expires
        return token

    def problem_with(self, token: str, now: float) -> str | None:
        """Say in Graph's words why ``token`` is not valid, or answer ``None`` if it is."""
        if not token:
            return "Access token is empty."
        expiry = self._expiry.get(token)
        if expiry is None:
            return "Access token validation failure. Invalid or revoked token."
        return None if expiry > now else "Lifetime validation failed, the token is expired."

    def revoke_all(self) -> None:
        """Revoke every token issued so far."""
        self._expiry.clear()


def check_token_request(form: dict[str, str], directory: SandboxDirectory) -> None:
    """Raise what Entra answers when the client-credentials request in ``form`` is refused."""
    if form.get("grant_type") != "client_credentials":
        raise TokenRefusal(400, "unsupported_grant_type", 70003, "The app requested an unsupported grant type.")
    resource, found, _ = form.get("scope", "").rpartition("/.default")
    if not found:
        raise TokenRefusal(400, "invalid_scope", 1002012, "The scope of client credential flows must end in /.default.")
    if not any(resource == known or resource.startswith(f"{known}:") for known in GRAPH_RESOURCES):
        raise TokenRefusal(400, "invalid_resource", 500011, f"The resource principal named {resource} was not found.")


def check_client(form: dict[str, str], tenant: str, directory: SandboxDirectory, audience: str) -> None:
    """Raise what Entra answers when the application does not prove who it is."""
    check_tenant(tenant, directory)
    check_client_id(form.get("client_id", ""), directory)
    if "client_assertion" in form:
        _check_assertion(form, directory, audience)
    elif "client_secret" in form:
        if not secrets.compare_digest(form["client_secret"].encode(), directory.client_secret.encode()):
            raise TokenRefusal(
                401,
                "invalid_client",
                7000215,
                "Invalid client secret provided. Ensure the secret being sent in the request is the client secret "
                f"value, not the client secret ID, for a secret added to app '{directory.client_id}'.",
            )
    else:
        raise TokenRefusal(401, "invalid_client", 7000216, "'client_assertion' or 'client_secret' is required.")


def check_client_id(client_id: str, directory: SandboxDirectory) -> None:
    """Raise what Entra answers for an application it does not have."""
    if client_id.lower() != directory.client_id.lower():
        raise TokenRefusal(
            400,
            "unauthorized_client",
            700016,
            f"Application with identifier '{client_id}' was not found in the directory 'Sandbox'.",
        )


def check_tenant(tenant: str, directory: SandboxDirectory) -> None:
    """Raise what Entra answers for a tenant it does not have."""
    if tenant.lower() != directory.tenant_id.lower():
        raise TokenRefusal(400, "invalid_request", 90002, f"Tenant '{tenant}' not found. Check the tenant ID.")


def _check_assertion(form: dict[str, str], directory: SandboxDirectory, audience: str) -> None:
    if form.get("client_assertion_type") != _ASSERTION_TYPE:
        raise TokenRefusal(400, "invalid_request", 900144, "The 'client_assertion_type' parameter is not valid.")
    assertion = form["client_assertion"]
    if _issuer(assertion) != form["client_id"] and directory.federated:
        _check_federated(assertion, directory)
        return
    try:
        header = jwt.get_unverified_header(assertion)
        key = _registered_key(header, directory)
        claims = jwt.decode(
            assertion,
            key=key or "",
            algorithms=["RS256", "PS256"],
            audience=audience,
            options={"verify_signature": key is not None, "verify_aud": True, "verify_exp": True},
        )
    except jwt.InvalidTokenError:
        raise TokenRefusal(401, "invalid_client", 700027, "Client assertion failed signature validation.") from None
    expires = claims.get("exp")
    if not isinstance(expires, int | float) or expires < time.time():
        raise TokenRefusal(401, "invalid_client", 700024, "Client assertion is not within its valid time range.")
    if {claims.get("iss"), claims.get("sub")} != {form["client_id"]}:
        raise TokenRefusal(401, "invalid_client", 700021, "Client assertion application identifier doesn't match.")


def _issuer(assertion: str) -> Any:
    try:
        return jwt.decode(assertion, options={"verify_signature": False}).get("iss")
    except jwt.InvalidTokenError:
        return None


def _check_federated(assertion: str, directory: SandboxDirectory) -> None:
    """Raise what Entra answers to a token of somebody else that no federated credential of the application allows."""
    told = jwt.decode(assertion, options={"verify_signature": False})
    of_issuer = [one for one in directory.federated if one.issuer == told.get("iss")]
    found = next((one for one in of_issuer if one.subject == told.get("sub")), None)
    if found is None:
        number, what = (700213, "subject") if of_issuer else (700211, "issuer")
        message = f"No matching federated identity record found for presented assertion {what}."
        raise TokenRefusal(401, "invalid_client", number, message)
    try:
        jwt.decode(assertion, found.public_key, algorithms=["RS256"], audience=FEDERATION_AUDIENCE)
    except jwt.InvalidAudienceError:
        message = "No matching federated identity record found for presented assertion audience."
        raise TokenRefusal(401, "invalid_client", 700212, message) from None
    except jwt.ExpiredSignatureError:
        message = "Client assertion is not within its valid time range."
        raise TokenRefusal(401, "invalid_client", 700024, message) from None
    except jwt.InvalidTokenError:
        message = "Client assertion failed signature validation."
        raise TokenRefusal(401, "invalid_client", 700027, message) from None


def _registered_key(header: dict[str, Any], directory: SandboxDirectory) -> Any:
    if not directory.certificates:
        return None
    for pem in directory.certificates:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        sha1 = base64url_encode(certificate.fingerprint(hashes.SHA1())).decode()  # noqa: S303 - x5t is SHA-1
        sha256 = base64url_encode(certificate.fingerprint(hashes.SHA256())).decode()
        if header.get("x5t#S256", "").rstrip("=") == sha256 or header.get("x5t", "").rstrip("=") == sha1:
            return certificate.public_key()
    raise jwt.InvalidTokenError("no registered certificate has this thumbprint")
