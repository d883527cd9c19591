"""Senders as they are configured: whose budget they use, with which limits, and what a person paused."""

from __future__ import annotations

from dataclasses import dataclass

from rqmail.insight.standing import Pause
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import Provider, SystemMailbox, TenantMailSetting
from rqmail.ratelimit.limits import RateLimits, mailbox_key, own_limit, resolve_limits
from rqmail.ratelimit.pacing import Pacing
from rqmail.ratelimit.scopes import NOTHING_SHARED, SharedBudgets, TenantBudgets


@dataclass(frozen=True, slots=True)
class Configured:
    """A sender as it is configured.

    ``budget_key`` and ``limits`` only where the limiter counts it; pauses are kept under ``pause_key`` for all of them.
    """

    key: str
    address: str | None
    pause_key: str
    budget_key: str | None = None
    limits: RateLimits | None = None
    overridden: tuple[bool, bool] = (False, False)
    #: A person's pause, in the table.
    pause: Pause | None = None
    pacing: Pacing = "even"
    #: What the provider is called, where it is known which one it is.
    provider: str = "the provider"
    #: What it shares with other mailboxes.
    shared: SharedBudgets = NOTHING_SHARED


def configured(defaults: RateLimits, pacing: Pacing, tenants_share: TenantBudgets) -> dict[str, Configured]:
    """Answer every sender by name, as the tables and, for what they leave open, the defaults have it."""
    with pooled_connection():
        mailboxes = list(SystemMailbox.select().order_by(SystemMailbox.key))
        tenants = list(TenantMailSetting.select().order_by(TenantMailSetting.key))
    known = {}
    for row in mailboxes:
        known[f"mailbox:{row.key}"] = Configured(
            row.key,
            row.address,
            mailbox_key(row.address),
            mailbox_key(row.address),
            *_limits(row, defaults),
            _kept_pause(row),
            row.pacing or pacing,
            "Microsoft",
            tenants_share.of(None, row.address),
        )
    for tenant in tenants:
        if tenant.provider == Provider.MICROSOFT_GRAPH.value and tenant.address:
            key = mailbox_key(tenant.address)
            known[f"tenant:{tenant.key}"] = Configured(
                tenant.key,
                tenant.address,
                key,
                key,
                *_limits(tenant, defaults),
                pause=_kept_pause(tenant),
                pacing=pacing,
                provider="Microsoft",
                shared=tenants_share.of(tenant.graph_tenant_id, tenant.address),
            )
        else:
            name = f"tenant:{tenant.key}"
            known[name] = Configured(
                tenant.key,
                tenant.sendgrid_from,
                mailbox_key(name),
                pause=_kept_pause(tenant),
                provider="SendGrid" if tenant.provider == Provider.SENDGRID.value else "the provider",
            )
    known["default"] = Configured("default", None, "default")
    return known


def _limits(row: SystemMailbox | TenantMailSetting, defaults: RateLimits) -> tuple[RateLimits, tuple[bool, bool]]:
    """Answer the limits of a sender, and whether they are its own."""
    own = (row.rate_limit_per_minute, row.rate_limit_recipients_per_day)
    return resolve_limits(*own, defaults=defaults), (own_limit(own[0]) is not None, own_limit(own[1]) is not None)


def _kept_pause(row: SystemMailbox | TenantMailSetting) -> Pause | None:
    if row.paused_until is None:
        return None
    return Pause(row.paused_until, row.pause_reason, "paused-by-person", row.paused_by)
