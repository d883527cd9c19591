"""Whose mail it is that comes from an address."""

from __future__ import annotations

from rqmail.administration.access import Principal
from rqmail.intake.recipients import same_person
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting


def sender_of(address: str, principal: Principal) -> str | None:
    """Answer ``mailbox:KEY`` or ``tenant:KEY`` of the first that has this address and is open to ``principal``."""
    wanted = same_person(address)
    with pooled_connection():
        mailboxes = list(SystemMailbox.select(SystemMailbox.key, SystemMailbox.address).order_by(SystemMailbox.key))
        tenants = list(
            TenantMailSetting.select(
                TenantMailSetting.key, TenantMailSetting.address, TenantMailSetting.sendgrid_from
            ).order_by(TenantMailSetting.key)
        )
    found = [f"mailbox:{row.key}" for row in mailboxes if same_person(row.address) == wanted]
    found += [
        f"tenant:{row.key}"
        for row in tenants
        if wanted in {same_person(one) for one in (row.address, row.sendgrid_from) if one}
    ]
    return next((sender for sender in found if principal.may_send_from(sender)), None)
