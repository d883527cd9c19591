"""Administration: what a person changes about who may send, and how much."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from rqmail.addresses import check_address
from rqmail.clock import Clock
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.models import counts
from rqmail.models.base import borrowed, transaction
from rqmail.models.mailbox import Provider, SystemMailbox, TenantMailSetting
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import mailbox_key
from rqmail.vault import SecretBox

#: A pause without an end: far enough away that nobody waits for it, near enough for every date column.
INDEFINITELY = timedelta(days=3650)

_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_KEY_ALLOWED = "1 to 64 letters, digits, dots, hyphens and underscores, beginning and ending with a letter or digit"
_MAX_LIMIT = 2**31 - 1
_MAX_TEXT = {"graph_tenant_id": 128, "graph_client_id": 128, "graph_client_secret": 4096, "sendgrid_api_key": 4096}
_MAX_REASON = 500


class _Unset(Enum):
    UNSET = "unset"


#: What a field that was left out holds: it keeps its stored value, where ``None`` clears it.
UNSET: Final = _Unset.UNSET


@dataclass(frozen=True, slots=True)
class MailboxView:
    """A system mailbox as it is configured; a limit of ``None`` means the default."""

    key: str
    address: str
    rate_limit_per_minute: int | None
    rate_limit_recipients_per_day: int | None
    paused_until: datetime | None
    pause_reason: str | None
    created_on: datetime
    changed_on: datetime


@dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant's mail setting; of its secrets only whether they are set."""

    key: str
    provider: str
    address: str | None
    graph_tenant_id: str | None
    graph_client_id: str | None
    has_graph_client_secret: bool
    sendgrid_from: str | None
    has_sendgrid_api_key: bool
    created_on: datetime
    changed_on: datetime


class Administration:
    """Adds, changes, pauses and removes senders; an edit holds for every process within a second or two."""

    def __init__(self, clock: Clock, box: SecretBox, limiter: MailRateLimiter) -> None:
        self._clock = clock
        self._box = box
        self._limiter = limiter

    # --- system mailboxes ----------------------------------------------------------------------------------------

    def mailboxes(self) -> list[MailboxView]:
        """List all system mailboxes by key."""
        with borrowed():
            return [self._mailbox_view(row) for row in SystemMailbox.select().order_by(SystemMailbox.key)]

    def mailbox(self, key: str) -> MailboxView:
        """Answer one system mailbox."""
        return self._mailbox_view(_mailbox_row(key))

    def add_mailbox(
        self,
        key: str,
        address: str,
        *,
        rate_limit_per_minute: int | None = None,
        rate_limit_recipients_per_day: int | None = None,
    ) -> MailboxView:
        """Add a system mailbox; raises ``ConflictError`` when the key is taken."""
        now = self._clock()
        row = {
            "key": _checked_key(key),
            "address": check_address(address, "address"),
            "rate_limit_per_minute": _limit("rateLimitPerMinute", rate_limit_per_minute),
            "rate_limit_recipients_per_day": _limit("rateLimitRecipientsPerDay", rate_limit_recipients_per_day),
            "created_on": now,
            "changed_on": now,
        }
        with transaction():
            added = list(SystemMailbox.insert(**row).on_conflict_ignore().returning(SystemMailbox.key).execute())
        if not added:
            raise ConflictError(f"mailbox {key!r} exists already")
        return self.mailbox(key)

    def set_mailbox(
        self,
        key: str,
        *,
        address: str | _Unset = UNSET,
        rate_limit_per_minute: int | _Unset | None = UNSET,
        rate_limit_recipients_per_day: int | _Unset | None = UNSET,
    ) -> MailboxView:
        """Change what is given; a limit of ``None`` goes back to the default."""
        changes: dict[str, Any] = {}
        if address is not UNSET:
            changes["address"] = check_address(_text("address", address), "address")
        if rate_limit_per_minute is not UNSET:
            changes["rate_limit_per_minute"] = _limit("rateLimitPerMinute", rate_limit_per_minute)
        if rate_limit_recipients_per_day is not UNSET:
            changes["rate_limit_recipients_per_day"] = _limit(
                "rateLimitRecipientsPerDay", rate_limit_recipients_per_day
            )
        before = _mailbox_row(key)
        self._update_mailbox(key, changes)
        after = self.mailbox(key)
        if before.paused_until is not None and mailbox_key(before.address) != mailbox_key(after.address):
            self._hold(after.address, before.paused_until - self._clock(), before.pause_reason or "")
        return after

    def delete_mailbox(self, key: str) -> None:
        """Remove a mailbox; raises ``ConflictError`` while mail of it waits or needs a decision."""
        with transaction():
            _mailbox_row(key)
            _refuse_while_open(f"mailbox:{key}")
            SystemMailbox.delete().where(SystemMailbox.key == key).execute()

    def pause_mailbox(self, key: str, *, reason: str, duration: timedelta | None = None) -> MailboxView:
        """Send nothing from the mailbox for ``duration``, or until it is resumed; replaces an earlier pause."""
        if not isinstance(reason, str) or not reason.strip() or len(reason) > _MAX_REASON:
            raise InvalidInputError("reason", reason, f"a reason of 1 to {_MAX_REASON} characters")
        length = INDEFINITELY if duration is None else duration
        if not timedelta(seconds=1) <= length <= INDEFINITELY:
            raise InvalidInputError("duration", str(duration), f"1 second to {INDEFINITELY.days} days")
        row = _mailbox_row(key)
        self._update_mailbox(key, {"paused_until": self._clock() + length, "pause_reason": reason.strip()})
        self._limiter.resume(mailbox_key(row.address))  # otherwise a longer pause would outlive a shorter one
        self._hold(row.address, length, reason.strip())
        return self.mailbox(key)

    def resume_mailbox(self, key: str) -> MailboxView:
        """End a pause, a person's or one that the provider's answers brought about."""
        row = _mailbox_row(key)
        self._update_mailbox(key, {"paused_until": None, "pause_reason": None})
        self._limiter.resume(mailbox_key(row.address))
        return self.mailbox(key)

    def reset_mailbox(self, key: str) -> MailboxView:
        """Forget what was counted against the mailbox's budget: its windows begin empty. Pauses stay.

        Raises ``ConflictError`` while Redis, where it is counted, cannot be told.
        """
        row = _mailbox_row(key)
        if not self._limiter.reset(mailbox_key(row.address)):
            raise ConflictError(f"mailbox {key!r} was not reset: Redis cannot be reached")
        return self.mailbox(key)

    # --- tenants -------------------------------------------------------------------------------------------------

    def tenants(self) -> list[TenantView]:
        """List all tenants' mail settings by key."""
        with borrowed():
            return [_tenant_view(row) for row in TenantMailSetting.select().order_by(TenantMailSetting.key)]

    def tenant(self, key: str) -> TenantView:
        """Answer one tenant's mail setting."""
        return _tenant_view(_tenant_row(key))

    def add_tenant(self, key: str, provider: str | None = Provider.DEFAULT.value, **fields: str | None) -> TenantView:
        """Add a tenant's mail setting; ``fields`` as in :meth:`set_tenant`. ``ConflictError`` when the key is taken."""
        now = self._clock()
        row = {"key": _checked_key(key), **self._tenant_changes({"provider": provider, **fields})}
        _require_sendable(row)
        with transaction():
            insert = TenantMailSetting.insert(**row, created_on=now, changed_on=now).on_conflict_ignore()
            added = list(insert.returning(TenantMailSetting.key).execute())
        if not added:
            raise ConflictError(f"tenant {key!r} exists already")
        return self.tenant(key)

    def set_tenant(self, key: str, **fields: str | None) -> TenantView:
        """Change what is given and leave the rest; ``None`` clears.

        Fields: ``provider``, ``address``, ``graph_tenant_id``, ``graph_client_id``, ``graph_client_secret``,
        ``sendgrid_api_key``, ``sendgrid_from``. The two secrets are stored encrypted and are never shown again.
        """
        changes = self._tenant_changes(fields)
        with transaction():
            row = _tenant_row(key)
            _require_sendable(row.__data__ | changes)
            if changes:
                changes["changed_on"] = self._clock()
                TenantMailSetting.update(**changes).where(TenantMailSetting.key == key).execute()
        return self.tenant(key)

    def delete_tenant(self, key: str) -> None:
        """Remove a tenant's mail setting; raises ``ConflictError`` while mail of it waits or needs a decision."""
        with transaction():
            _tenant_row(key)
            _refuse_while_open(f"tenant:{key}")
            TenantMailSetting.delete().where(TenantMailSetting.key == key).execute()

    # --- the parts -----------------------------------------------------------------------------------------------

    def _update_mailbox(self, key: str, changes: dict[str, Any]) -> None:
        if not changes:
            return
        changes["changed_on"] = self._clock()
        with transaction():
            SystemMailbox.update(**changes).where(SystemMailbox.key == key).execute()

    def _hold(self, address: str, length: timedelta, reason: str) -> None:
        milliseconds = length // timedelta(milliseconds=1)
        if milliseconds > 0:
            self._limiter.pause(mailbox_key(address), milliseconds, reason)

    def _mailbox_view(self, row: SystemMailbox) -> MailboxView:
        paused = row.paused_until is not None and row.paused_until > self._clock()
        return MailboxView(
            key=row.key,
            address=row.address,
            rate_limit_per_minute=row.rate_limit_per_minute,
            rate_limit_recipients_per_day=row.rate_limit_recipients_per_day,
            paused_until=row.paused_until if paused else None,
            pause_reason=row.pause_reason if paused else None,
            created_on=row.created_on,
            changed_on=row.changed_on,
        )

    def _tenant_changes(self, fields: dict[str, str | None]) -> dict[str, Any]:
        """Check the given fields and answer the columns they go to, secrets encrypted."""
        changes: dict[str, Any] = {}
        for name, value in fields.items():
            field = _TENANT_FIELDS.get(name)
            if field is None:
                raise InvalidInputError(name, "", "one of " + ", ".join(_TENANT_FIELDS.values()))
            if name == "provider":
                changes[name] = _provider(value)
            elif value is None:
                changes[_column(name)] = None
            elif name in {"address", "sendgrid_from"}:
                changes[name] = check_address(_text(field, value), field)
            elif name in _SECRETS:
                changes[_column(name)] = self._box.encrypt(_secret(field, value, _MAX_TEXT[name]))
            else:
                changes[name] = _line(field, value, _MAX_TEXT[name])
        return changes


_TENANT_FIELDS = {
    "provider": "provider",
    "address": "address",
    "graph_tenant_id": "graphTenantId",
    "graph_client_id": "graphClientId",
    "graph_client_secret": "graphClientSecret",
    "sendgrid_api_key": "sendgridApiKey",
    "sendgrid_from": "sendgridFrom",
}
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


def _mailbox_row(key: str) -> SystemMailbox:
    with borrowed():
        row = SystemMailbox.get_or_none(SystemMailbox.key == key)
    if row is None:
        raise NotFoundError("mailbox", key)
    return row


def _tenant_row(key: str) -> TenantMailSetting:
    with borrowed():
        row = TenantMailSetting.get_or_none(TenantMailSetting.key == key)
    if row is None:
        raise NotFoundError("tenant", key)
    return row


def _tenant_view(row: TenantMailSetting) -> TenantView:
    return TenantView(
        key=row.key,
        provider=row.provider,
        address=row.address,
        graph_tenant_id=row.graph_tenant_id,
        graph_client_id=row.graph_client_id,
        has_graph_client_secret=row.graph_client_secret_encrypted is not None,
        sendgrid_from=row.sendgrid_from,
        has_sendgrid_api_key=row.sendgrid_api_key_encrypted is not None,
        created_on=row.created_on,
        changed_on=row.changed_on,
    )


def _refuse_while_open(sender: str) -> None:
    waiting = counts.open_messages(sender)
    if waiting:
        raise ConflictError(f"{sender} has mail that waits, is being sent or needs a decision: {waiting} in all")


# --- what a value may be -------------------------------------------------------------------------------------------


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInputError("key", key, _KEY_ALLOWED)
    return key


def _limit(field: str, value: int | None) -> int | None:
    # Not isinstance: True is an int to Python, and no limit to anyone.
    if value is None or (type(value) is int and 0 < value <= _MAX_LIMIT):
        return value
    raise InvalidInputError(field, value, "a positive whole number, or nothing for the default")


def _provider(value: str | None) -> str:
    if value not in {provider.value for provider in Provider}:
        raise InvalidInputError("provider", value, ", ".join(provider.value for provider in Provider))
    return str(value)


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(field, value, "text")
    return value


def _line(field: str, value: object, longest: int) -> str:
    text = _text(field, value).strip()
    if not text or len(text) > longest or not text.isprintable():
        raise InvalidInputError(field, value, f"1 to {longest} printable characters")
    return text


def _secret(field: str, value: object, longest: int) -> str:
    try:
        return _line(field, value, longest)
    except InvalidInputError as error:
        raise InvalidInputError(field, "***", error.allowed) from None
