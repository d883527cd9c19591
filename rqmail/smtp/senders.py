"""As whom a client may send that says it is an address."""

from __future__ import annotations

from rqmail.administration.access import Principal
from rqmail.intake.senders import senders_at


def sender_of(address: str, principal: Principal) -> str | None:
    """Answer ``mailbox:KEY`` or ``tenant:KEY`` of the first that has this address and is open to ``principal``."""
    return next((sender for sender in senders_at(address) if principal.may_send_from(sender)), None)
