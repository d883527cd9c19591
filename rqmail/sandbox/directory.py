"""Who exists in the sandbox: the tenant, its one application, its mailboxes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

SANDBOX_TENANT_ID = "5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01"
SANDBOX_CLIENT_ID = "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"
SANDBOX_CLIENT_SECRET = "sandbox-secret"  # noqa: S105 - opens nothing but the sandbox

_PEOPLE = {
    "Anna de Vries": ["rqmail.admin"],
    "Rik Bakker": ["rqmail.read"],
    "Sanne Visser": ["rqmail.send"],
    "Noor Smit": [],
}


def object_id(name: str) -> str:
    """Answer the id that a person of this name has in the directory."""
    return str(uuid.uuid5(uuid.UUID(SANDBOX_TENANT_ID), name))


@dataclass(frozen=True, slots=True)
class FederatedCredential:
    """Whom the application trusts to say who it is: an issuer, a subject, and the PEM public key it signs with."""

    issuer: str
    subject: str
    public_key: str


@dataclass(frozen=True, slots=True)
class SandboxDirectory:
    """The tenant as Entra and Exchange see it.

    Every address is a mailbox unless ``domains`` or ``known_users`` (lower-case) say otherwise. ``certificates`` are
    the PEM certificates registered for the application; with none registered any well-formed assertion of the
    application is believed. ``federated`` are its federated credentials, ``managed_identities`` the client ids of those
    the machine has (an empty one is its own, assigned by the system). ``may_send``, ``may_read_mail``,
    ``may_write_mail`` (which is no use without the second) and ``may_read_traces`` are the permissions granted to it.

    ``people`` may sign in to it, each a name with the app roles assigned; whoever is not among them has no account.
    ``redirect_uris`` are those registered, any address on this machine when none is. ``id_token`` is put over what a
    person's id token would rightly say (``None`` takes a claim away), and ``signs_falsely`` signs it with a key that is
    not published.
    """

    tenant_id: str = SANDBOX_TENANT_ID
    client_id: str = SANDBOX_CLIENT_ID
    client_secret: str = SANDBOX_CLIENT_SECRET
    certificates: tuple[str, ...] = ()
    federated: tuple[FederatedCredential, ...] = ()
    managed_identities: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    known_users: tuple[str, ...] = ()
    token_lifetime_seconds: int = 3600
    may_send: bool = True
    may_read_mail: bool = True
    may_write_mail: bool = True
    may_read_traces: bool = True
    people: dict[str, list[str]] = field(default_factory=lambda: {name: list(roles) for name, roles in _PEOPLE.items()})
    redirect_uris: tuple[str, ...] = ()
    id_token: dict[str, Any] = field(default_factory=dict)
    signs_falsely: bool = False

    def has_mailbox(self, address: str) -> bool:
        """Tell whether the lower-case ``address`` is a mailbox here."""
        if self.known_users:
            return address in self.known_users
        _, at, domain = address.rpartition("@")
        return bool(at and domain) and (not self.domains or domain in self.domains)
