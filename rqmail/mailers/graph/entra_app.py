"""The app we are to Microsoft Entra, and the token it grants us."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SettingNames:
    """What a person corrects when Entra refuses an app: the settings, or the fields of a tenant."""

    tenant_id: str = "RQMAIL_GRAPH_TENANT_ID"
    client_id: str = "RQMAIL_GRAPH_CLIENT_ID"
    client_secret: str = "RQMAIL_GRAPH_CLIENT_SECRET"  # noqa: S105 - a name, not a secret


@dataclass(frozen=True, slots=True)
class EntraApp:
    """The app we are to Entra: where it lives, who it is and how it proves that."""

    authority: str
    tenant_id: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    certificate: Path | None = None
    certificate_password: str | None = field(default=None, repr=False)
    #: ``workload:FILE``, ``managed`` or ``managed:CLIENT_ID``, in place of secret and certificate.
    identity: str | None = None
    names: SettingNames = SettingNames()


@dataclass(frozen=True, slots=True)
class GrantedToken:
    """A token as Entra granted it, with its life in seconds from the moment it was asked for."""

    value: str = field(repr=False)
    lives_seconds: float
