"""Messages as people look at them, and what people may do to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from rqmail.errors import ConflictError, NotFoundError
from rqmail.insight.jsonable import camel
from rqmail.models import listing
from rqmail.models.base import borrowed
from rqmail.models.contents import Contents, load_contents
from rqmail.models.listing import Filter
from rqmail.models.message import Message, MessageStatus, Priority

__all__ = ["Decision", "Filter", "MessageLine", "MessageView", "RecipientView"]

#: Messages an action on a filter moves in one statement.
_AT_ONCE = 500


class Decision(StrEnum):
    """What a person says about a message of which it is unknown whether it was sent."""

    SENT = "sent"
    RESEND = "resend"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class MessageLine:
    """One message in a list; ``first_recipient`` is an address, one of ``recipient_count``."""

    id: str
    sender: str
    status: MessageStatus
    priority: Priority
    subject: str
    first_recipient: str | None
    recipient_count: int
    created_on: datetime
    requested_on: datetime
    scheduled_on: datetime
    expires_on: datetime | None
    attempted_on: datetime | None
    sent_on: datetime | None
    attempts: int
    deferrals: int
    waiting_for: str | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class RecipientView:
    """One recipient: ``kind`` is ``to``, ``cc`` or ``bcc``."""

    kind: str
    address: str
    name: str


@dataclass(frozen=True, slots=True)
class MessageView(MessageLine):
    """One message in full; ``history`` tells every attempt, oldest first."""

    mailbox_key: str | None
    recipients: tuple[RecipientView, ...]
    text: str | None
    html: str | None
    history: tuple[dict[str, Any], ...]


def show(message_id: str) -> MessageView:
    """Answer one message in full."""
    row = _row(message_id)
    return _view(row, load_contents([message_id])[message_id])


def show_all(message_ids: Sequence[str]) -> list[MessageView]:
    """Answer these messages in full, in the order asked for; those that are gone are left out."""
    with borrowed():
        rows = {row.id: row for row in Message.select().where(Message.id.in_(list(message_ids)))}
    contents = load_contents(list(rows))
    return [_view(rows[one], contents[one]) for one in message_ids if one in rows]


def find(wanted: Filter, *, limit: int = 50, after: str | None = None) -> list[MessageLine]:
    """List matching messages, newest first; ``after`` is the id of the last one already seen."""
    rows = listing.find(wanted, limit=limit, after=after)
    first = listing.first_recipients([row.id for row in rows])
    return [MessageLine(**_line_fields(row, first.get(row.id))) for row in rows]


def count(wanted: Filter) -> int:
    """Count the matching messages."""
    return listing.count(wanted)


def count_by_status(wanted: Filter) -> dict[MessageStatus, int]:
    """Count the matching messages in every status, those without any too."""
    found = listing.count_by_status(wanted)
    return {status: found.get(status.value, 0) for status in MessageStatus}


def cancel(message_id: str) -> MessageView:
    """Cancel a message that has not begun; raises ``ConflictError`` when it has."""
    return _moved(message_id, Message.cancel([message_id]), "cancelled")


def requeue(message_id: str, now: datetime) -> MessageView:
    """Send again a message that ended in ERROR, CANCELLED or EXPIRED; raises ``ConflictError`` for any other."""
    return _moved(message_id, Message.requeue([message_id], now), "sent again")


def send_now(message_id: str, now: datetime) -> MessageView:
    """Make a waiting message due at once; the budget still holds. ``ConflictError`` when it does not wait."""
    return _moved(message_id, Message.bring_forward([message_id], now), "brought forward")


def resolve(message_id: str, decision: Decision, now: datetime) -> MessageView:
    """Decide about an UNKNOWN message: it was sent, it is to be sent again, or it is discarded."""
    done = _decide(_row(message_id), decision, now)
    return _moved(message_id, [message_id] if done else [], "resolved")


def cancel_all(wanted: Filter, *, dry_run: bool = False) -> int:
    """Cancel everything that matches and has not begun; answer how many messages that are."""
    states = (MessageStatus.SCHEDULED, MessageStatus.QUEUED)
    return _count(wanted, states) if dry_run else _in_parts(wanted, states, Message.cancel)


def requeue_all(wanted: Filter, now: datetime, *, dry_run: bool = False) -> int:
    """Send again everything that matches and ended in ERROR, CANCELLED or EXPIRED; answer how many that are."""
    states = (MessageStatus.ERROR, MessageStatus.CANCELLED, MessageStatus.EXPIRED)
    return _count(wanted, states) if dry_run else _in_parts(wanted, states, lambda ids: Message.requeue(ids, now))


def send_all_now(wanted: Filter, now: datetime, *, dry_run: bool = False) -> int:
    """Make everything that matches and waits due at once, within the budgets; answer how many messages that are."""
    states = (MessageStatus.SCHEDULED,)
    return _count(wanted, states) if dry_run else _in_parts(wanted, states, lambda ids: Message.bring_forward(ids, now))


def resolve_all(wanted: Filter, decision: Decision, now: datetime, *, dry_run: bool = False) -> int:
    """Decide the same about everything that matches and is UNKNOWN; answer how many messages that are."""
    states = (MessageStatus.UNKNOWN,)
    if dry_run:
        return _count(wanted, states)
    return _in_parts(wanted, states, lambda ids: [one for one in ids if _decide(_row(one), decision, now)])


def _count(wanted: Filter, states: Sequence[MessageStatus]) -> int:
    return sum(listing.count(replace(wanted, status=s)) for s in states if wanted.status in {None, s})


def _in_parts(wanted: Filter, states: Sequence[MessageStatus], act: Callable[[Sequence[str]], Sequence[str]]) -> int:
    """Act on a filter part by part, each part by itself, so that nobody waits for the whole."""
    total = 0
    for status in states:
        if wanted.status not in {None, status}:
            continue
        last: str | None = None
        while ids := listing.find_ids(replace(wanted, status=status), limit=_AT_ONCE, after=last):
            total += len(act(ids))
            last = ids[-1]
    return total


def _view(row: Message, contents: Contents) -> MessageView:
    return MessageView(
        **_line_fields(row, contents.recipients[0].address if contents.recipients else None),
        mailbox_key=row.mailbox_key,
        recipients=tuple(RecipientView(to.kind.value, to.address, to.name) for to in contents.recipients),
        text=contents.text,
        html=contents.html,
        history=tuple({camel(name): value for name, value in entry.items()} for entry in row.history),
    )


def _row(message_id: str) -> Message:
    with borrowed():
        row = Message.get_or_none(Message.id == message_id)
    if row is None:
        raise NotFoundError("message", message_id)
    return row


def _decide(row: Message, decision: Decision, now: datetime) -> bool:
    if row.status != MessageStatus.UNKNOWN.value:
        return False
    match decision:
        case Decision.SENT:
            return row.confirm_sent(now, "A person confirmed that it was sent.")
        case Decision.RESEND:
            return row.send_again(now, "A person had it sent again.")
        case Decision.DISCARD:
            return bool(Message.cancel([row.id]))


def _moved(message_id: str, moved: Sequence[str], what: str) -> MessageView:
    if not moved:
        raise ConflictError(f"message {message_id} is {_row(message_id).status} and cannot be {what}")
    return show(message_id)


def _line_fields(row: Message, first_recipient: str | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "sender": row.sender,
        "status": MessageStatus(row.status),
        "priority": Priority(row.priority),
        "subject": row.subject,
        "first_recipient": first_recipient,
        "recipient_count": row.recipient_count,
        "created_on": row.created_on,
        "requested_on": row.requested_on,
        "scheduled_on": row.scheduled_on,
        "expires_on": row.expires_on,
        "attempted_on": row.attempted_on,
        "sent_on": row.sent_on,
        "attempts": row.attempts,
        "deferrals": row.deferrals,
        "waiting_for": row.waiting_for,
        "last_error": row.last_error,
    }
