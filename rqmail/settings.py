"""The settings: one frozen, validated value read from ``RQMAIL_*`` variables and ``.env``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from rqmail.errors import SettingsError

PREFIX = "RQMAIL_"

#: Hosts to which plain http is allowed: nothing leaves the machine.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

#: What is allowed where the type alone does not say it well to a person.
_ALLOWED = {
    "database_url": "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    "redis_url": "redis://HOST:PORT/DB, rediss://… or unix://PATH",
    "graph_base_url": "an https address (http for loopback only)",
    "graph_authority": "an https address",
    "web_url": "an https address (http for loopback only)",
    "sendgrid_base_url": "an https address (http for loopback only)",
    "secret_key": "at least 16 characters",
    "admin_token": "at least 16 characters",
    "ca_bundle": "a readable file with PEM certificates",
    "graph_certificate": "a readable PEM file with private key and certificate",
}


def _empty_is_unset(value: object) -> object:
    return None if value == "" else value


def _database_url(value: str) -> str:
    if not value.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise ValueError
    return value


def _redis_url(value: str) -> str:
    if not value.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError
    return value


def _https_url(value: str) -> str:
    parts = urlsplit(value)
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


HttpsUrl = Annotated[str, AfterValidator(_https_url)]
OptionalHttpsUrl = Annotated[HttpsUrl | None, BeforeValidator(_empty_is_unset)]
OptionalText = Annotated[str | None, BeforeValidator(_empty_is_unset)]
OptionalFile = Annotated[Annotated[Path, AfterValidator(_readable_file)] | None, BeforeValidator(_empty_is_unset)]
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_empty_is_unset)]
LongSecret = Annotated[
    Annotated[SecretStr, Field(min_length=16)] | None,
    BeforeValidator(_empty_is_unset),
]


class Settings(BaseSettings):
    """Everything an operator can set, each field ``RQMAIL_`` plus its name in capitals.

    Build it with :func:`load_settings`, which turns a bad value into a :class:`~rqmail.errors.SettingsError` that names
    the variable and what is allowed.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_file=".env", extra="ignore", frozen=True)

    database_url: Annotated[str, AfterValidator(_database_url)] = "sqlite:///rqmail.db"
    redis_url: Annotated[str, AfterValidator(_redis_url)] = "redis://127.0.0.1:6379/0"
    secret_key: LongSecret = None
    admin_token: LongSecret = None

    graph_base_url: HttpsUrl = "https://graph.microsoft.com/v1.0"
    graph_authority: Annotated[str, AfterValidator(_strictly_https_url)] = "https://login.microsoftonline.com"
    graph_tenant_id: OptionalText = None
    graph_client_id: OptionalText = None
    graph_client_secret: OptionalSecret = None
    graph_certificate: OptionalFile = None
    ca_bundle: OptionalFile = None

    sendgrid_base_url: HttpsUrl = "https://api.sendgrid.com"
    sendgrid_api_key: OptionalSecret = None
    sendgrid_from: OptionalText = None

    rate_per_minute: Annotated[int, Field(ge=1)] = 25
    rate_recipients_per_day: Annotated[int, Field(ge=1)] = 9000
    rate_in_flight: Annotated[int, Field(ge=1, le=4)] = 3
    rate_window: Literal["rolling", "fixed"] = "rolling"

    poll_seconds: Annotated[int, Field(ge=1, le=60)] = 1
    send_lanes: Annotated[int, Field(ge=1, le=256)] = 32
    reserve_for_high: Annotated[int, Field(ge=0)] = 0
    send_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 8
    unknown_policy: Literal["hold", "resend", "assume-sent"] = "hold"
    unknown_grace_seconds: Annotated[int, Field(ge=0)] = 600
    retention_days: Annotated[int, Field(ge=0)] = 0
    #: The address under which people reach the web process, behind whatever proxy stands before it.
    web_url: OptionalHttpsUrl = None
    #: The address of that proxy, whose X-Forwarded-For is then believed.
    web_trusted_proxy: OptionalText = None
    log_format: Literal["json", "console"] = "console"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment and ``.env``; ``overrides`` (field names) win over both.

    Raises :class:`~rqmail.errors.SettingsError` for the first bad value, secrets shown as ``***``.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        variable = name if name.startswith(PREFIX) else PREFIX + name.upper()
        annotation = Settings.model_fields[name].annotation if name in Settings.model_fields else None
        value = "***" if "Secret" in str(annotation) or name.endswith("_url") else first.get("input")
        raise SettingsError(variable, value, _ALLOWED.get(name, _plain(first["msg"]))) from None


def _plain(message: str) -> str:
    """Turn pydantic's sentence into the end of ours: "Input should be 'a' or 'b'" → "'a' or 'b'"."""
    return message.removeprefix("Input should be ").removeprefix("a valid ")
