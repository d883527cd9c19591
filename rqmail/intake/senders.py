"""Whose mail it is that comes from an address."""

from __future__ import annotations

from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.text.addresses import same_person


def senders_at(address: str) -> list[str]:
    """Answer every ``mailbox:KEY``, then every ``tenant:KEY``, that has this address."""
    wanted = same_person(address)
    with pooled_connection():
        mailboxes = list(SystemMailbox.select(SystemMailbox.key, SystemMailbox.address).order_by(SystemMailbox.key))
        tenants = list(
            TenantMailSetting.select(
                TenantMailSetting.key, TenantMailSetting.address, TenantMailSetting.sendgrid_from
            ).order_by(TenantMailSetting.key)
        )
    return [f"mailbox:{row.key}" for row in mailboxes if same_person(row.address) == wanted] + [
        f"tenant:{row.key}"
        for row in tenants
        if wanted in {same_person(one) for one in (row.address, row.sendgrid_from) if one}
    ]
