"""What several mailboxes may send together: the external recipients that Exchange Online lets a whole tenant reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import idna

from rqmail.ratelimit.limits import RateLimits, mailbox_key

#: What has no room: the mailbox itself, or a scope that it shares with others.
ScopeName = Literal["mailbox", "tenant", "onmicrosoft"]

#: All senders on ``*.onmicrosoft.com`` of a tenant reach so many external recipients a day together (550 5.7.236).
ONMICROSOFT_A_DAY = 100

_ONMICROSOFT = ".onmicrosoft.com"

#: More calls, and more of them at once, than there can be: a scope bounds neither.
_ANY_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scope:
    """A budget of external recipients in 24 hours that several mailboxes share, counted under ``key``."""

    name: ScopeName
    key: str
    external_per_day: int

    @property
    def limits(self) -> RateLimits:
        """The scope as if it were a mailbox, whose day is its only bound."""
        return RateLimits(_ANY_NUMBER, self.external_per_day, _ANY_NUMBER)


@dataclass(frozen=True, slots=True)
class SharedBudgets:
    """The scopes that a mailbox is in, and the domains to which its mail is internal."""

    scopes: tuple[Scope, ...] = ()
    internal: frozenset[str] = frozenset()

    def external_of(self, addresses: Iterable[str]) -> int:
        """Count the external ones among the recipients of a mail, every address each time; 0 without a scope."""
        if not self.scopes:
            return 0
        return sum(1 for address in addresses if domain_of(address) not in self.internal)


#: Of a mailbox that shares nothing.
NOTHING_SHARED = SharedBudgets()


@dataclass(frozen=True, slots=True)
class TenantBudgets:
    """What is known of Entra tenants: external recipients a day, and domains they have accepted.

    The tenant of the settings goes by ``own_tenant``, and by the empty name in the two tables.
    """

    own_tenant: str | None = None
    external_per_day: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def told(
        cls,
        own_tenant: str | None,
        licences: Mapping[str, int],
        external_per_day: Mapping[str, int],
        accepted: Mapping[str, frozenset[str]],
    ) -> Self:
        """Take the licences of tenants for what Exchange Online allows them, where no number is given."""
        allowed = {tenant: external_of_licences(number) for tenant, number in licences.items()}
        domains = {tenant: frozenset(map(domain_of, names)) for tenant, names in accepted.items()}
        return cls(own_tenant, {**allowed, **external_per_day}, domains)

    def of(self, entra_tenant: str | None, address: str) -> SharedBudgets:
        """Answer what a mailbox in that Entra tenant (``None`` for that of the settings) shares with others."""
        tenant = (entra_tenant or self.own_tenant or "").lower()
        named = (tenant, "") if tenant == (self.own_tenant or "").lower() else (tenant,)
        domain = domain_of(address)
        scopes = []
        most = next((self.external_per_day[name] for name in named if name in self.external_per_day), None)
        if most is not None:
            scopes.append(Scope("tenant", tenant_key(tenant), most))
        if domain.endswith(_ONMICROSOFT):
            scopes.append(Scope("onmicrosoft", onmicrosoft_key(tenant), ONMICROSOFT_A_DAY))
        if not scopes:
            return NOTHING_SHARED
        accepted = (self.accepted.get(name, frozenset()) for name in named)
        return SharedBudgets(tuple(scopes), frozenset({domain}).union(*accepted))


def external_of_licences(licences: int) -> int:
    """Answer how many external recipients in 24 hours Exchange Online allows a tenant with so many licences."""
    return int(500 * licences**0.7 + 9500)


def tenant_key(entra_tenant: str) -> str:
    """Answer the key under which all external recipients of a tenant are counted."""
    return mailbox_key(f"entra/{entra_tenant}")


def onmicrosoft_key(entra_tenant: str) -> str:
    """Answer the key under which those of its senders on ``*.onmicrosoft.com`` are counted."""
    return mailbox_key(f"entra/{entra_tenant}/onmicrosoft")


def tenant_of(key: str) -> tuple[str, bool] | None:
    """Answer whose scope a key is of, and whether it is that of ``*.onmicrosoft.com``; ``None`` for a mailbox's."""
    if not key.startswith("entra/") or "@" in key:
        return None
    tenant, _, kind = key.removeprefix("entra/").partition("/")
    return tenant, kind == "onmicrosoft"


def domain_of(address: str) -> str:
    """Answer the domain of an address in lower case, in ASCII (IDNA) as mail servers write it."""
    domain = address.rpartition("@")[2].strip().rstrip(">.").lower()
    if domain.isascii():
        return domain
    try:
        return idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        return domain
