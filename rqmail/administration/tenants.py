"""Tenants: through whom the mail of each one leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from rqmail.administration.fields import (
    checked_entra_tenant,
    checked_guid,
    checked_key,
    checked_limit,
    checked_provider,
    checked_secret,
    checked_text,
    refuse_while_open,
)
from rqmail.administration.pausing import Pausing
from rqmail.clock import Clock
from rqmail.delivery.senders import budget_key_of
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.intake.addresses import check_address
from rqmail.models import events
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.mailbox import Provider, SenderCheck, TenantMailSetting
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import own_limit
from rqmail.vault import SecretBox

_LONGEST_SECRET = 4096

#: What a field of a tenant's setting may be given.
TenantField: TypeAlias = str | int | None


@dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant's mail setting; of its secrets only whether they are set. A limit of ``None`` means the default."""

    key: str
    provider: str
    address: str | None
    graph_tenant_id: str | None
    graph_client_id: str | None
    has_graph_client_secret: bool
    sendgrid_from: str | None
    has_sendgrid_api_key: bool
    rate_limit_per_minute: int | None
    rate_limit_recipients_per_day: int | None
    paused_until: datetime | None
    pause_reason: str | None
    paused_by: str | None
    created_on: datetime
    changed_on: datetime


class Tenants:
    """Adds, changes and removes tenants' mail settings; an edit holds for every process within a second or two."""

    def __init__(self, clock: Clock, box: SecretBox, limiter: MailRateLimiter) -> None:
        self._clock = clock
        self._box = box
        self._pausing = Pausing(clock, limiter)

    def all(self) -> list[TenantView]:
        """List all tenants' mail settings by key."""
        with pooled_connection():
            return [self._view(row) for row in TenantMailSetting.select().order_by(TenantMailSetting.key)]

    def get(self, key: str) -> TenantView:
        """Answer one tenant's mail setting."""
        return self._view(_row(key))

    def add(self, key: str, provider: str | None = Provider.DEFAULT.value, **fields: TenantField) -> TenantView:
        """Add a tenant's mail setting; ``fields`` as in :meth:`set`. ``ConflictError`` when the key is taken."""
        now = self._clock()
        row = {"key": checked_key(key), **self._changes({"provider": provider, **fields})}
        _require_sendable(row)
        with transaction():
            insert = TenantMailSetting.insert(**row, created_on=now, changed_on=now).on_conflict_ignore()
            added = list(insert.returning(TenantMailSetting.key).execute())
        if not added:
            raise ConflictError(f"tenant {key!r} exists already")
        return self.get(key)

    def set(self, key: str, **fields: TenantField) -> TenantView:
        """Change what is given and leave the rest; ``None`` clears.

        Fields: ``provider``, ``address``, ``graph_tenant_id``, ``graph_client_id``, ``graph_client_secret``,
        ``sendgrid_api_key``, ``sendgrid_from``, ``rate_limit_per_minute``, ``rate_limit_recipients_per_day`` (of the
        mailbox it sends from through Graph). The two secrets are stored encrypted and are never shown again.
        """
        changes = self._changes(fields)
        with transaction():
            row = _row(key)
            _require_sendable(row.__data__ | changes)
            if changes:
                changes["changed_on"] = self._clock()
                TenantMailSetting.update(**changes).where(TenantMailSetting.key == key).execute()
        return self.get(key)

    def delete(self, key: str) -> None:
        """Remove a tenant's mail setting; raises ``ConflictError`` while mail of it waits or needs a decision."""
        with transaction():
            _row(key)
            refuse_while_open(f"tenant:{key}")
            TenantMailSetting.delete().where(TenantMailSetting.key == key).execute()
            SenderCheck.delete().where(SenderCheck.sender == f"tenant:{key}").execute()

    def pause(self, key: str, *, reason: str, duration: timedelta | None = None, by: str | None = None) -> TenantView:
        """Send nothing of the tenant's mail for ``duration``, or until it is resumed; replaces an earlier pause.

        ``by`` is who wants it. A tenant that shares its mailbox with another sender pauses that one too: the mailbox
        sends nothing.
        """
        row = _row(key)
        until, reason = self._pausing.asked(reason, duration)
        end = None if duration is None else until
        with transaction():
            self._update(key, {"paused_until": until, "pause_reason": reason, "paused_by": by})
            events.tell_of_pause(f"tenant:{key}", reason, end, self._clock(), by=by)
        self._pausing.begin(budget_key_of(row), until, reason, by)
        return self.get(key)

    def resume(self, key: str) -> TenantView:
        """End a pause, a person's or one that the provider's answers brought about."""
        row = _row(key)
        self._update(key, {"paused_until": None, "pause_reason": None, "paused_by": None})
        self._pausing.end(budget_key_of(row))
        return self.get(key)

    def _update(self, key: str, changes: dict[str, object]) -> None:
        with transaction():
            TenantMailSetting.update(**changes, changed_on=self._clock()).where(TenantMailSetting.key == key).execute()

    def _view(self, row: TenantMailSetting) -> TenantView:
        paused = row.paused_until is not None and row.paused_until > self._clock()
        return TenantView(
            key=row.key,
            provider=row.provider,
            address=row.address,
            graph_tenant_id=row.graph_tenant_id,
            graph_client_id=row.graph_client_id,
            has_graph_client_secret=row.graph_client_secret_encrypted is not None,
            sendgrid_from=row.sendgrid_from,
            has_sendgrid_api_key=row.sendgrid_api_key_encrypted is not None,
            rate_limit_per_minute=own_limit(row.rate_limit_per_minute),
            rate_limit_recipients_per_day=own_limit(row.rate_limit_recipients_per_day),
            paused_until=row.paused_until if paused else None,
            pause_reason=row.pause_reason if paused else None,
            paused_by=row.paused_by if paused else None,
            created_on=row.created_on,
            changed_on=row.changed_on,
        )

    def _changes(self, fields: Mapping[str, TenantField]) -> dict[str, Any]:
        """Check the given fields and answer the columns they go to, secrets encrypted."""
        changes: dict[str, Any] = {}
        for name, value in fields.items():
            field = _FIELDS.get(name)
            if field is None:
                raise InvalidInputError(name, "", "one of " + ", ".join(_FIELDS.values()))
            if name == "provider":
                changes[name] = checked_provider(value)
            elif name in _LIMITS:
                changes[name] = checked_limit(field, value)  # type: ignore[arg-type]  # whatever else is refused
            elif value is None:
                changes[_column(name)] = None
            elif name in {"address", "sendgrid_from"}:
                changes[name] = check_address(checked_text(field, value), field)
            elif name in _SECRETS:
                changes[_column(name)] = self._box.encrypt(checked_secret(field, value, _LONGEST_SECRET))
            elif name == "graph_tenant_id":
                changes[name] = checked_entra_tenant(field, value)
            else:
                changes[name] = checked_guid(field, value)
        return changes


_FIELDS = {
    "provider": "provider",
    "address": "address",
    "graph_tenant_id": "graphTenantId",
    "graph_client_id": "graphClientId",
    "graph_client_secret": "graphClientSecret",
    "sendgrid_api_key": "sendgridApiKey",
    "sendgrid_from": "sendgridFrom",
    "rate_limit_per_minute": "rateLimitPerMinute",
    "rate_limit_recipients_per_day": "rateLimitRecipientsPerDay",
}
_LIMITS = frozenset({"rate_limit_per_minute", "rate_limit_recipients_per_day"})
_SECRETS = frozenset({"graph_client_secret", "sendgrid_api_key"})


def _column(name: str) -> str:
    return f"{name}_encrypted" if name in _SECRETS else name


def _require_sendable(row: dict[str, Any]) -> None:
    """Refuse a setting with which no mail could ever leave."""
    if row.get("provider") == Provider.MICROSOFT_GRAPH.value and not row.get("address"):
        raise InvalidInputError("address", None, "the mailbox that sends, for the provider microsoft-graph")
    if bool(row.get("graph_client_id")) != bool(row.get("graph_client_secret_encrypted")):
        missing = "graphClientSecret" if row.get("graph_client_id") else "graphClientId"
        raise InvalidInputError(missing, None, "graphClientId and graphClientSecret together")
    if row.get("provider") == Provider.SENDGRID.value and not row.get("sendgrid_from"):
        raise InvalidInputError("sendgridFrom", None, "the address mail is sent from, for the provider sendgrid")


def _row(key: str) -> TenantMailSetting:
    with pooled_connection():
        row = TenantMailSetting.get_or_none(TenantMailSetting.key == key)
    if row is None:
        raise NotFoundError("tenant", key)
    return row
