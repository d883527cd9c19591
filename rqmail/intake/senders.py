"""Who sends, and whose mail it is that comes from an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import parse_addresses
from rqmail.intake.sender_rules import MAX_MESSAGE_BYTES, SenderRules, rules_by
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import Provider, SystemMailbox, TenantMailSetting
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


@dataclass(frozen=True, slots=True)
class Sender:
    """A mailbox or tenant mail may be sent from: ``mailbox:KEY`` or ``tenant:KEY``, what it keeps to, its addresses."""

    name: str
    rules: SenderRules
    addresses: frozenset[str]


def all_senders(max_message_bytes: int = MAX_MESSAGE_BYTES) -> list[Sender]:
    """Answer every mailbox, then every tenant, by their keys; addresses as :func:`same_person` writes them."""
    box, tenant = SystemMailbox, TenantMailSetting
    with pooled_connection():
        mailboxes = list(box.select(box.key, box.address, box.max_message_bytes).order_by(box.key))
        tenants = list(
            tenant.select(tenant.key, tenant.provider, tenant.address, tenant.sendgrid_from).order_by(tenant.key)
        )
    graph = Provider.MICROSOFT_GRAPH
    return [
        Sender(f"mailbox:{row.key}", rules_by(graph, row.max_message_bytes or max_message_bytes), _persons(row.address))
        for row in mailboxes
    ] + [
        Sender(f"tenant:{row.key}", rules_by(row.provider, max_message_bytes), _persons(row.address, row.sendgrid_from))
        for row in tenants
    ]


def senders_at(address: str) -> list[str]:
    """Answer every ``mailbox:KEY``, then every ``tenant:KEY``, that has this address."""
    wanted = same_person(address)
    return [sender.name for sender in all_senders() if wanted in sender.addresses]


def _persons(*addresses: str | None) -> frozenset[str]:
    return frozenset(same_person(one) for one in addresses if one)
