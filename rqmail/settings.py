"""The settings: one frozen, validated value read from ``RQMAIL_*`` variables and ``.env``."""

from __future__ import annotations

import json
import os
import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from rqmail.errors import SettingsError
from rqmail.setting_files import SUFFIX, FileSettingsSource
from rqmail.text.decoding import encoding_of
from rqmail.text.servers import checked_redis_address, checked_server_address
from rqmail.text.values import (
    ENTRA_TENANT_ALLOWED,
    GUID_ALLOWED,
    SECRET_ALLOWED,
    checked_address,
    checked_entra_tenant,
    checked_guid,
    checked_line,
    checked_secret,
    trimmed,
)

PREFIX = "RQMAIL_"

#: Read in the folder where a process starts.
ENV_FILE = Path(".env")

#: Hosts to which plain http is allowed: nothing leaves the machine.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

#: What is allowed where the type alone does not say it well to a person.
_ALLOWED = {
    "timezone": "a time zone such as Europe/Amsterdam",
    "database_url": "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    "redis_url": "redis://HOST:PORT/DB, rediss://…, unix://PATH or redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB",
    "graph_base_url": "an https address (http for loopback only)",
    "graph_authority": "an https address",
    "graph_tenant_id": ENTRA_TENANT_ALLOWED,
    "graph_client_id": GUID_ALLOWED,
    "graph_client_secret": SECRET_ALLOWED,
    "web_url": "an https address (http for loopback only)",
    "sendgrid_base_url": "an https address (http for loopback only)",
    "sendgrid_api_key": SECRET_ALLOWED,
    "sendgrid_from": "an address, or NAME <ADDRESS>",
    "secret_key": "at least 16 characters",
    "former_secret_keys": "keys of at least 16 characters, separated by commas or as a JSON list",
    "admin_token": "at least 16 characters",
    "attachments_url": "file:///FOLDER, s3://BUCKET/FOLDER or another address that fsspec knows",
    "transport": "console, or folder:PATH",
    "redirect_to": "an address",
    "smtp_trusted": "networks such as 10.0.0.0/8, separated by commas",
    "smtp_certificate": "a readable PEM file with a certificate",
    "smtp_key": "a readable PEM file with the certificate's key",
    "ca_bundle": "a readable file with PEM certificates",
    "redis_ca": "a readable file with PEM certificates",
    "tenant_licences": "a number, or for several tenants NUMBER, TENANT=NUMBER, …",
    "tenant_recipients_per_day": "a number, or for several tenants NUMBER, TENANT=NUMBER, …",
    "accepted_domains": "domains separated by commas, those of another tenant as TENANT=DOMAIN",
    "graph_identity": "workload, workload:FILE, managed or managed:CLIENT_ID",
    "graph_certificate": "a readable PEM or PFX file with private key and certificate",
}

_DOMAIN = re.compile(r"[^\s@,=/.]+(\.[^\s@,=/.]+)+")

#: The largest whole number that the tables hold.
_LARGEST = 2**31 - 1


def is_loopback(host: str) -> bool:
    """Say whether nobody but this machine reaches a server on ``host``."""
    if host in LOOPBACK_HOSTS:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _empty_is_unset(value: object) -> object:
    return None if value == "" else value


def _database_url(value: str) -> str:
    if not value.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise ValueError
    # Checked here, for the libraries' own complaints quote the address with the password in it.
    return (
        checked_line(value, _ALLOWED["database_url"]) if value.startswith("sqlite:") else checked_server_address(value)
    )


def _https_url(value: str) -> str:
    parts = urlsplit(checked_address(value, "an https address (http for loopback only)"))
    try:
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        port_is_good = False
    if not port_is_good:
        raise ValueError("the port is a number from 1 to 65535")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS):
        raise ValueError
    if not parts.hostname:
        raise ValueError
    return value.rstrip("/")


def _strictly_https_url(value: str) -> str:
    if urlsplit(value).scheme != "https":
        raise ValueError
    return _https_url(value)


def _readable_file(value: Path) -> Path:
    if not value.is_file():
        raise ValueError
    return value


def _header_secret(value: SecretStr) -> SecretStr:
    checked_secret(value.get_secret_value())
    return value


def _secret_text(value: SecretStr) -> SecretStr:
    checked_line(value.get_secret_value(), "visible characters")
    return value


def _sender(value: str) -> str:
    address = checked_line(value, _ALLOWED["sendgrid_from"]).rpartition("<")[2].removesuffix(">")
    local, at, domain = address.rpartition("@")
    if not (local and at and domain) or " " in address:
        raise ValueError
    return value


def _place(value: str) -> str:
    parts = urlsplit(checked_line(value, _ALLOWED["attachments_url"]))
    if not parts.scheme or "://" not in value or not (parts.netloc or parts.path.strip("/")):
        raise ValueError
    return value


def _networks(value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(one.strip()) for one in value.split(",") if one.strip())


def _listed(value: object) -> object:
    """Read a list: as JSON, which a key with a comma in it needs, or separated by commas."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):
        return json.loads(value)
    return tuple(one.strip() for one in value.split(",") if one.strip()) or None


def _transport(value: str) -> str:
    kind, _, place = value.partition(":")
    if value != "console" and not (kind == "folder" and place.strip()):
        raise ValueError
    return value


def _identity(value: str) -> str:
    kind, _, which = value.partition(":")
    if kind == "managed":
        return f"managed:{checked_guid(which)}" if which else "managed"
    if kind != "workload":
        raise ValueError
    file = which or os.environ.get("AZURE_FEDERATED_TOKEN_FILE", "")
    if not file:
        raise ValueError("workload alone takes the file of AZURE_FEDERATED_TOKEN_FILE, which is not set")
    return f"workload:{file}"


def _of_tenant(typed: str) -> tuple[str, str]:
    """Split ``TENANT=VALUE``; what names no tenant is of that of the settings, by the empty name."""
    tenant, equals, value = typed.strip().rpartition("=")
    return (checked_entra_tenant(tenant.strip()).lower() if equals else ""), value.strip()


def _numbers_of_tenants(given: object) -> object:
    if not isinstance(given, str):
        return {"": given} if isinstance(given, int) else given
    named = [_of_tenant(one) for one in given.split(",") if one.strip()]
    numbers = {tenant: int(value) for tenant, value in named}
    if len(numbers) < len(named) or any(not 1 <= number <= _LARGEST for number in numbers.values()):
        raise ValueError
    return numbers or None


def _domains_of_tenants(given: object) -> object:
    if not isinstance(given, str):
        return given
    found: dict[str, frozenset[str]] = {}
    for one in given.split(","):
        if one.strip():
            tenant, typed = _of_tenant(one)
            domain = typed.lower().removeprefix("@")
            if not _DOMAIN.fullmatch(domain):
                raise ValueError
            found[tenant] = found.get(tenant, frozenset()) | {domain}
    return found or None


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        raise ValueError from None
    return value


HttpsUrl = Annotated[str, AfterValidator(_https_url)]
OptionalHttpsUrl = Annotated[HttpsUrl | None, BeforeValidator(_empty_is_unset)]
OptionalText = Annotated[str | None, BeforeValidator(_empty_is_unset)]
OptionalGuid = Annotated[Annotated[str, AfterValidator(checked_guid)] | None, BeforeValidator(_empty_is_unset)]
OptionalEntraTenant = Annotated[
    Annotated[str, AfterValidator(checked_entra_tenant)] | None, BeforeValidator(_empty_is_unset)
]
OptionalSender = Annotated[Annotated[str, AfterValidator(_sender)] | None, BeforeValidator(_empty_is_unset)]
OptionalFile = Annotated[Annotated[Path, AfterValidator(_readable_file)] | None, BeforeValidator(_empty_is_unset)]
OptionalSecret = Annotated[
    Annotated[SecretStr, AfterValidator(_header_secret)] | None, BeforeValidator(_empty_is_unset)
]
OptionalPassword = Annotated[
    Annotated[SecretStr, AfterValidator(_secret_text)] | None, BeforeValidator(_empty_is_unset)
]
LongSecret = Annotated[
    Annotated[SecretStr, Field(min_length=16), AfterValidator(_secret_text)] | None,
    BeforeValidator(_empty_is_unset),
]


LongSecrets = Annotated[
    tuple[Annotated[SecretStr, Field(min_length=16), AfterValidator(_secret_text)], ...] | None,
    NoDecode,
    BeforeValidator(_listed),
]

OptionalPlace = Annotated[Annotated[str, AfterValidator(_place)] | None, BeforeValidator(_empty_is_unset)]
OptionalTransport = Annotated[Annotated[str, AfterValidator(_transport)] | None, BeforeValidator(_empty_is_unset)]
OptionalNetworks = Annotated[
    tuple[IPv4Network | IPv6Network, ...] | None,
    NoDecode,
    BeforeValidator(lambda value: (_networks(value) or None) if isinstance(value, str) else value),
]
OptionalIdentity = Annotated[Annotated[str, AfterValidator(_identity)] | None, BeforeValidator(_empty_is_unset)]
NumbersOfTenants = Annotated[dict[str, int] | None, NoDecode, BeforeValidator(_numbers_of_tenants)]
DomainsOfTenants = Annotated[dict[str, frozenset[str]] | None, NoDecode, BeforeValidator(_domains_of_tenants)]
OptionalZone = Annotated[Annotated[str, AfterValidator(_zone)] | None, BeforeValidator(_empty_is_unset)]


class Settings(BaseSettings):
    """Everything an operator can set, each field ``RQMAIL_`` plus its name in capitals.

    Build it with :func:`load_settings`, which turns a bad value into a :class:`~rqmail.errors.SettingsError` that names
    the variable and what is allowed.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=ENV_FILE, extra="ignore", frozen=True)

    database_url: Annotated[str, AfterValidator(_database_url), Field(repr=False)] = "sqlite:///rqmail.db"
    redis_url: Annotated[str, AfterValidator(checked_redis_address), Field(repr=False)] = "redis://127.0.0.1:6379/0"
    #: Who signed Redis' certificate, where that is neither known to the system nor in ``ca_bundle``.
    redis_ca: OptionalFile = None
    secret_key: LongSecret = None
    #: What was the key before, separated by commas: what was signed or encrypted with one of them is still read.
    former_secret_keys: LongSecrets = None
    admin_token: LongSecret = None

    graph_base_url: HttpsUrl = "https://graph.microsoft.com/v1.0"
    graph_authority: Annotated[str, AfterValidator(_strictly_https_url)] = "https://login.microsoftonline.com"
    graph_tenant_id: OptionalEntraTenant = None
    graph_client_id: OptionalGuid = None
    graph_client_secret: OptionalSecret = None
    graph_certificate: OptionalFile = None
    graph_certificate_password: OptionalPassword = None
    #: What proves who the app is in place of a secret: an identity that the place it runs in vouches for.
    graph_identity: OptionalIdentity = None
    ca_bundle: OptionalFile = None

    sendgrid_base_url: HttpsUrl = "https://api.sendgrid.com"
    sendgrid_api_key: OptionalSecret = None
    sendgrid_from: OptionalSender = None

    rate_per_minute: Annotated[int, Field(ge=1, le=_LARGEST)] = 25
    rate_recipients_per_day: Annotated[int, Field(ge=1, le=_LARGEST)] = 9000
    rate_in_flight: Annotated[int, Field(ge=1, le=4)] = 3
    rate_window: Literal["rolling", "fixed"] = "rolling"
    #: Licences of Entra tenants, or the external recipients a day they are allowed: that of the settings has no name.
    tenant_licences: NumbersOfTenants = None
    tenant_recipients_per_day: NumbersOfTenants = None
    #: Their accepted domains: who is there is no external recipient.
    accepted_domains: DomainsOfTenants = None

    pacing: Literal["even", "burst"] = "even"

    poll_seconds: Annotated[int, Field(ge=1, le=60)] = 1
    sendgrid_in_flight: Annotated[int, Field(ge=1, le=256)] = 32
    send_lanes: Annotated[int, Field(ge=1, le=256)] = 32
    reserve_for_high: Annotated[int, Field(ge=0, le=_LARGEST)] = 0
    send_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 8
    unknown_policy: Literal["hold", "resend", "assume-sent"] = "hold"
    unknown_grace_seconds: Annotated[int, Field(ge=0, le=31_536_000)] = 600
    #: Bytes of one message as it is sent, files as base64, where its mailbox has no limit of its own.
    max_message_bytes: Annotated[int, Field(ge=10_000, le=1_000_000_000)] = 35 * 1024 * 1024
    #: Where the bytes of attached files are kept, if not in the database.
    attachments_url: Annotated[OptionalPlace, Field(repr=False)] = None
    retention_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    audit_retention_days: Annotated[int, Field(ge=0, le=36_500)] = 400
    #: The address under which people reach the web process, behind whatever proxy stands before it.
    web_url: OptionalHttpsUrl = None
    #: The address of that proxy, whose X-Forwarded-For is then trusted.
    web_trusted_proxy: OptionalText = None
    #: Whether webhooks may lead to private addresses, and be plain http.
    webhook_allow_private: bool = False
    #: Where mail goes instead of to a provider, in development and staging.
    transport: OptionalTransport = None
    #: The only address that mail goes to, in staging.
    redirect_to: OptionalSender = None
    #: Networks from which the SMTP door takes a token without TLS, beside loopback.
    smtp_trusted: OptionalNetworks = None
    #: The SMTP door's certificate, and its key where that is in a file of its own.
    smtp_certificate: OptionalFile = None
    smtp_key: OptionalFile = None
    #: Where the times of an imported file are local when they name no zone.
    timezone: OptionalZone = None
    log_format: Literal["json", "console"] = "console"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read secrets from the files that ``…_FILE`` variables name, too."""
        usual = (init_settings, env_settings, dotenv_settings, file_secret_settings)
        if not (isinstance(env_settings, EnvSettingsSource) and isinstance(dotenv_settings, DotEnvSettingsSource)):
            return usual
        files = FileSettingsSource(settings_cls, init_settings(), env_settings, dotenv_settings)
        return (init_settings, files, env_settings, dotenv_settings, file_secret_settings)

    @model_validator(mode="before")
    @classmethod
    def _without_what_clings(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Read every setting without a line end, a shell's quotes, an editor's marks."""
        return {name: trimmed(value) if isinstance(value, str) else value for name, value in given.items()}

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """The key that secrets are kept with, and after it the former ones."""
        current = () if self.secret_key is None else (self.secret_key,)
        return tuple(one.get_secret_value() for one in (*current, *(self.former_secret_keys or ())))

    @property
    def redis_authority(self) -> Path | None:
        """The file that says who may sign Redis' certificate; ``None``: whoever the system knows."""
        return self.redis_ca or self.ca_bundle

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every secret among the settings, the passwords in addresses too: what no log may show."""
        given = (self.admin_token, self.graph_client_secret, self.graph_certificate_password, self.sendgrid_api_key)
        urls = (self.database_url, self.redis_url, self.attachments_url)
        passwords = [password for url in urls if url for password in _passwords(url)]
        return tuple(one for one in (*self.secret_keys, *(s.get_secret_value() for s in given if s), *passwords) if one)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment and ``.env``; ``overrides`` (field names) win over both.

    Raises :class:`~rqmail.errors.SettingsError` for the first bad value, secrets shown as ``***``.
    """
    try:
        return Settings(_env_file_encoding=_encoding(), **overrides)  # type: ignore[call-arg]  # taken by BaseSettings
    except (OSError, UnicodeError):
        raise SettingsError(str(ENV_FILE), None, "a readable text file, in UTF-8 or UTF-16") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        variable = name if name.startswith(PREFIX) else PREFIX + name.upper()
        if name not in overrides and name in secret_files():
            variable += SUFFIX
        annotation = Settings.model_fields[name].annotation if name in Settings.model_fields else None
        value = "***" if "Secret" in str(annotation) or name.endswith("_url") else first.get("input")
        raise SettingsError(variable, value, _allowed(name, first["msg"])) from None


def secret_files() -> dict[str, Path]:
    """Answer the files that ``RQMAIL_…_FILE`` variables name, by the name of their setting."""
    dotenv = DotEnvSettingsSource(Settings, env_file=ENV_FILE, env_file_encoding=_encoding())
    return FileSettingsSource(Settings, {}, EnvSettingsSource(Settings), dotenv).paths()


def _encoding() -> str | None:
    return encoding_of(ENV_FILE.read_bytes()) if ENV_FILE.is_file() else None


def _passwords(url: str) -> list[str]:
    parts = urlsplit(url)
    userinfo = parts.netloc.rpartition("@")[0]
    named = [one for name, given in parse_qs(parts.query).items() if name.endswith("password") for one in given]
    return [unquote(userinfo.partition(":")[2]), *named]


def _allowed(name: str, message: str) -> str:
    """Answer what is allowed, with what a check of ours found beside it."""
    found = message.removeprefix("Value error, ") if message.startswith("Value error, ") else ""
    allowed = _ALLOWED.get(name)
    if allowed is None:
        return found or _plain(message)
    return found if found.startswith(allowed) else f"{allowed}; {found}".removesuffix("; ")


def _plain(message: str) -> str:
    """Turn pydantic's sentence into the end of ours: "Input should be 'a' or 'b'" → "'a' or 'b'"."""
    return message.removeprefix("Input should be ").removeprefix("a valid ")
