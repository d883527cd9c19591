"""Messages for tests: made as an application would, and put into any state at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rqmail.models.message import Attempt, Message, MessageStatus, NewMessage, NewRecipient, Priority, RecipientKind
from support.clock import START

#: What a test says of an attempt when it does not matter.
ATTEMPT = Attempt(at=START.isoformat(), outcome="tested", duration_ms=12, status=202, request_id="req-1")


#: The mailbox that messages went through, where a test does not say.
MAILBOX = "news@contoso.example"


def new_message(
    sender: str = "mailbox:news",
    *,
    to: int | tuple[str, ...] = 1,
    subject: str = "Hello",
    text: str | None = "Hello there.",
    html: str | None = None,
    at: datetime | None = None,
    expires: datetime | None = None,
    priority: Priority = Priority.NORMAL,
    **fields: Any,
) -> NewMessage:
    """A message as an application submits it; ``to`` is addresses, or how many of them."""
    addresses = to if isinstance(to, tuple) else tuple(f"reader{n}@example.org" for n in range(to))
    return NewMessage(
        sender=sender,
        subject=subject,
        recipients=tuple(NewRecipient(RecipientKind.TO, address) for address in addresses),
        text=text,
        html=html,
        requested_on=at,
        expires_on=expires,
        priority=priority,
        **fields,
    )


def submitted(*batch: NewMessage, now: datetime = START) -> list[str]:
    """Submit ``batch``, or one plain message, and answer the ids."""
    return Message.submit(batch or [new_message()], now)


def message_in(status: MessageStatus, now: datetime = START, **fields: Any) -> Message:
    """A message that is in ``status`` as if it had got there the usual way; ``fields`` replace what that would be."""
    [message_id] = submitted(now=now)
    held: dict[str, Any] = {}
    if status is MessageStatus.QUEUED:
        held = {"job_id": "job-1", "lease_until": now + timedelta(minutes=5)}
    elif status in {MessageStatus.SENDING, MessageStatus.UNKNOWN}:
        held = {"lease_until": now + timedelta(minutes=5)}
    if status in {MessageStatus.SENDING, MessageStatus.SENT, MessageStatus.ERROR, MessageStatus.UNKNOWN}:
        held |= {"claim": "claim-1", "attempted_on": now, "mailbox_key": MAILBOX, "provider": "microsoft-graph"}
    if status is MessageStatus.SENT:
        held |= {"sent_on": now, "attempts": 1}
    Message.update(status=status.value, **(held | fields)).where(Message.id == message_id).execute()
    return reloaded(message_id)


def reloaded(message: Message | str) -> Message:
    """The message as the database has it now."""
    return Message.get_by_id(message if isinstance(message, str) else message.id)


def row(message: Message | str) -> dict[str, Any]:
    """All columns of the message as the database has them now."""
    message_id = message if isinstance(message, str) else message.id
    return Message.select().where(Message.id == message_id).dicts().get()
