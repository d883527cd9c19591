"""What the factory reads of the two kinds of sender, its secrets decrypted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rqmail.text.values import trimmed


class SystemMailboxConfig(Protocol):
    """A mailbox of our own, sending through the app of the settings."""

    @property
    def key(self) -> str:
        """Its name among the system mailboxes."""
        ...

    @property
    def address(self) -> str:
        """The full mail address."""
        ...

    @property
    def rate_limit_per_minute(self) -> int | None:
        """Its own limit of calls a minute; empty for the default."""
        ...

    @property
    def rate_limit_recipients_per_day(self) -> int | None:
        """Its own limit of recipients in 24 hours; empty for the default."""
        ...


class TenantMailConfig(Protocol):
    """How one tenant's mail leaves."""

    @property
    def key(self) -> str:
        """Its name among the tenants."""
        ...

    @property
    def provider(self) -> str:
        """One of ``microsoft-graph``, ``sendgrid`` and ``default``."""
        ...

    @property
    def address(self) -> str | None:
        """The mailbox it sends from through Graph."""
        ...

    @property
    def graph_tenant_id(self) -> str | None:
        """Its own Entra tenant; empty for that of the settings."""
        ...

    @property
    def graph_client_id(self) -> str | None:
        """Its own app; empty for that of the settings."""
        ...

    @property
    def graph_client_secret(self) -> str | None:
        """The secret of its own app, in the clear."""
        ...

    @property
    def sendgrid_api_key(self) -> str | None:
        """Its own SendGrid key, in the clear."""
        ...

    @property
    def sendgrid_from(self) -> str | None:
        """The sender at SendGrid, as ``name <address>`` or an address alone."""
        ...


@dataclass(frozen=True, slots=True)
class ReadTenant:
    """A tenant's setting as it is used: without what clung to its values when they were stored."""

    key: str
    provider: str
    address: str | None
    graph_tenant_id: str | None
    graph_client_id: str | None
    graph_client_secret: str | None = field(repr=False)
    sendgrid_api_key: str | None = field(repr=False)
    sendgrid_from: str | None
    rate_limit_per_minute: int | None = None
    rate_limit_recipients_per_day: int | None = None


def read_tenant(config: TenantMailConfig) -> ReadTenant:
    """Answer a tenant's setting with every value trimmed; one of which nothing is left counts as not set."""
    return ReadTenant(
        key=config.key,
        provider=config.provider.strip(),
        address=_read(config.address),
        graph_tenant_id=_read(config.graph_tenant_id),
        graph_client_id=_read(config.graph_client_id),
        graph_client_secret=_read(config.graph_client_secret),
        sendgrid_api_key=_read(config.sendgrid_api_key),
        sendgrid_from=_read(config.sendgrid_from),
        # A configuration of somebody else's making need not know of limits.
        rate_limit_per_minute=getattr(config, "rate_limit_per_minute", None),
        rate_limit_recipients_per_day=getattr(config, "rate_limit_recipients_per_day", None),
    )


def _read(value: str | None) -> str | None:
    return None if value is None else trimmed(value) or None
