"""Who exists in the sandbox: the tenant, its one application, its mailboxes."""

from __future__ import annotations

from dataclasses import dataclass

SANDBOX_TENANT_ID = "5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01"
SANDBOX_CLIENT_ID = "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"
SANDBOX_CLIENT_SECRET = "sandbox-secret"  # noqa: S105 - opens nothing but the sandbox


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

    def has_mailbox(self, address: str) -> bool:
        """Tell whether the lower-case ``address`` is a mailbox here."""
        if self.known_users:
            return address in self.known_users
        _, at, domain = address.rpartition("@")
        return bool(at and domain) and (not self.domains or domain in self.domains)
