"""Whose mail it is that comes from an address."""

from __future__ import annotations

from collections.abc import Callable

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import parse_addresses
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.text.addresses import same_person


def may_write_as(named: str | None, may_send_from: Callable[[str], bool]) -> bool:
    """Say whether a mail may be written in the name of ``named``, who is not the mailbox that sends it.

    Exchange decides about that, except where it is another sender of ours and whoever hands the mail in may not
    send from that one. What is no address is left to be refused as such.
    """
    if not named or may_send_from(""):
        return True
    try:
        addresses = parse_addresses(named, "from")
    except InvalidInputError:
        return True
    ours = (senders_at(one.address) for one in addresses)
    return all(not others or any(map(may_send_from, others)) for others in ours)


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
