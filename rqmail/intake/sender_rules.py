"""What a sender's messages must keep to: what its provider takes, and how large they may be."""

from __future__ import annotations

from dataclasses import dataclass

from rqmail.errors import InvalidInputError
from rqmail.mailers.base import LARGEST_SENDGRID_REQUEST
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import Provider, SenderCheck, SystemMailbox, TenantMailSetting

#: Bytes of one message as it is sent, attachments as base64, where neither a mailbox nor a setting says otherwise.
MAX_MESSAGE_BYTES = 35 * 1024 * 1024

#: What a request to SendGrid has beside bodies and files, at most.
_AROUND_A_MAIL = 256 * 1024

_SENDER = "mailbox:KEY, tenant:KEY or default"


@dataclass(frozen=True, slots=True)
class SenderRules:
    """What a sender's provider takes: letters before the @, bytes of a whole message, and whether it is Graph."""

    ascii_only: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES
    through_graph: bool = True


#: What every mail through Graph keeps to, whoever sends it.
ANY_SENDER = SenderRules()


def require_sender(sender: str, max_message_bytes: int = MAX_MESSAGE_BYTES) -> SenderRules:
    """Answer what a sender's messages must keep to; raises ``InvalidInputError`` unless the sender exists."""
    kind, _, key = sender.partition(":") if isinstance(sender, str) else ("", "", "")
    if sender == "default":
        return rules_by(Provider.DEFAULT, max_message_bytes)
    if kind not in {"mailbox", "tenant"} or not key:
        raise InvalidInputError("sender", sender, _SENDER)
    with pooled_connection():
        if kind == "mailbox":
            mailbox = SystemMailbox.get_or_none(SystemMailbox.key == key)
            provider = None if mailbox is None else Provider.MICROSOFT_GRAPH.value
            max_message_bytes = (mailbox and mailbox.max_message_bytes) or max_message_bytes
        else:
            tenant = TenantMailSetting.get_or_none(TenantMailSetting.key == key)
            provider = None if tenant is None else tenant.provider
    if provider is None:
        raise InvalidInputError(kind, key, f"a {kind} that exists (`rqmail {kind} list` shows them)")
    return rules_by(provider, max_message_bytes)


def rules_by(provider: str, max_message_bytes: int) -> SenderRules:
    """Answer what a sender of this provider keeps to; ``max_message_bytes`` is its bound where that has none."""
    through_graph = provider == Provider.MICROSOFT_GRAPH
    if not through_graph:
        max_message_bytes = min(max_message_bytes, LARGEST_SENDGRID_REQUEST - _AROUND_A_MAIL)
    return SenderRules(not through_graph, max_message_bytes, through_graph)


def may_write_drafts(sender: str) -> bool | None:
    """Say whether the app may write drafts in a sender's mailbox, as it was told last; ``None`` where nobody knows."""
    with pooled_connection():
        row = SenderCheck.get_or_none(SenderCheck.sender == sender)
    return None if row is None else row.may_write
