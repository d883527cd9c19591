"""Messages as people look at them, and what people may do to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from rqmail.campaigns.rendering import contents_of
from rqmail.errors import ConflictError, NotFoundError
from rqmail.insight.jsonable import camel
from rqmail.insight.waiting import Wait, Waiting
from rqmail.models import listing
from rqmail.models.backlog import Place
from rqmail.models.base import pooled_connection
from rqmail.models.content import Importance, Person
from rqmail.models.contents import Contents
from rqmail.models.deliveries import Delivery, deliveries_of
from rqmail.models.listing import Filter
from rqmail.models.message import Message, MessageStatus, Priority
from rqmail.models.recipients import Result, results_of

__all__ = ["BulkActionName", "Decision", "Filter", "Happening", "MessageLine", "MessageView", "RecipientView"]

BulkActionName = Literal["cancel", "requeue", "send-now", "confirm-sent", "resend", "discard"]

#: In which states an action finds something to move.
_MOVES: dict[BulkActionName, tuple[MessageStatus, ...]] = {
    "cancel": (MessageStatus.SCHEDULED, MessageStatus.QUEUED),
    "requeue": (MessageStatus.ERROR, MessageStatus.CANCELLED, MessageStatus.EXPIRED),
    "send-now": (MessageStatus.SCHEDULED,),
    "confirm-sent": (MessageStatus.UNKNOWN,),
    "resend": (MessageStatus.UNKNOWN,),
    "discard": (MessageStatus.UNKNOWN,),
}

#: What is decided about an attempt of unknown outcome stands among the attempts.
_DECIDED = frozenset({"confirmed-sent", "sent-again", "given-up"})

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
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class ResultView:
    """What became of one recipient: ``suppressed`` (``code`` is why) or ``bounced``.

    A bounce is ``probable`` where its report was matched by address, time and subject alone.
    """

    address: str
    result: str
    code: str | None
    detail: str | None
    at: datetime
    probable: bool


@dataclass(frozen=True, slots=True)
class AttachmentView:
    """One file of a message: ``number`` counts them from 1, ``sha256`` names its bytes wherever they are kept."""

    number: int
    name: str
    content_type: str
    size: int
    sha256: str
    is_inline: bool
    content_id: str | None


@dataclass(frozen=True, slots=True)
class HeaderView:
    """One header that was asked for, beside those every mail has."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a message.

    ``what`` is ``handed-in``, ``waited``, ``attempt``, ``looked-for``, ``confirmed-sent``, ``sent-again``,
    ``given-up``, ``cancelled``, ``discarded``, ``requeued``, ``brought-forward`` or ``expired``; ``by`` is who did it,
    where it was not done by itself. A wait tells for what (``waiting_for``) and, when over, for how many ``seconds``.
    ``attempt`` is what is known of an attempt, as in ``history``.
    """

    at: datetime
    what: str
    by: str | None = None
    detail: str | None = None
    waiting_for: str | None = None
    seconds: float | None = None
    attempt: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MessageView(MessageLine):
    """One message in full; ``history`` tells every attempt, ``events`` all that happened, both oldest first.

    ``from_`` is whom it is from where that is not the mailbox; ``unsubscribe_url`` is told where one click does it
    (RFC 8058), and stands among the ``headers`` too; with ``unsubscribe`` a link of its recipient's own is added when
    it is sent.
    """

    mailbox_key: str | None
    recipients: tuple[RecipientView, ...]
    results: tuple[ResultView, ...]
    text: str | None
    html: str | None
    attachments: tuple[AttachmentView, ...]
    reply_to: tuple[Person, ...]
    importance: Importance
    read_receipt: bool
    delivery_receipt: bool
    headers: tuple[HeaderView, ...]
    unsubscribe_url: str | None
    unsubscribe: bool
    ignore_unsubscribed: bool
    from_: Person | None
    history: tuple[dict[str, Any], ...]
    events: tuple[Happening, ...]


def show(message_id: str) -> MessageView:
    """Answer one message in full."""
    row = _row(message_id)
    results, delivered = results_of([message_id]), deliveries_of([message_id])
    contents = contents_of([message_id])[message_id]
    return _view(row, contents, results.get(message_id, []), delivered.get(message_id, {}))


def attachment(message_id: str, number: str) -> AttachmentView:
    """Answer one file of a message; raises ``NotFoundError`` where it has none of that number."""
    found = next((one for one in show(message_id).attachments if str(one.number) == number), None)
    if found is None:
        raise NotFoundError("attachment", f"{message_id}/{number}")
    return found


def wait_of(view: MessageView, waiting: Waiting) -> Wait:
    """Answer what a message waits for and when it is expected to go out."""
    if view.status is not MessageStatus.SCHEDULED:
        return Wait()
    place = Place(view.id, view.sender, view.priority, view.scheduled_on, view.recipient_count)
    return waiting.of(place, waiting_for=view.waiting_for, expires_on=view.expires_on)


def show_all(message_ids: Sequence[str]) -> list[MessageView]:
    """Answer these messages in full, in the order asked for; those that are gone are left out."""
    with pooled_connection():
        rows = {row.id: row for row in Message.select().where(Message.id.in_(list(message_ids)))}
    contents = contents_of(list(rows))
    results, delivered = results_of(list(rows)), deliveries_of(list(rows))
    return [
        _view(rows[one], contents[one], results.get(one, []), delivered.get(one, {}))
        for one in message_ids
        if one in rows
    ]


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


def cancel(message_id: str, now: datetime, by: str) -> MessageView:
    """Cancel a message that has not begun; raises ``ConflictError`` when it has."""
    return _moved(message_id, Message.cancel([message_id], now, by), "cancelled")


def requeue(message_id: str, now: datetime, by: str) -> MessageView:
    """Send again a message that ended in ERROR, CANCELLED or EXPIRED; raises ``ConflictError`` for any other.

    It still expires when it was to; a moment that has passed is dropped, since somebody asks for this very message.
    """
    moved = Message.requeue([message_id], now, by) or Message.requeue([message_id], now, by, too_late=True)
    return _moved(message_id, moved, "sent again")


def send_now(message_id: str, now: datetime, by: str) -> MessageView:
    """Make a waiting message due at once; the budget still holds. ``ConflictError`` when it does not wait."""
    return _moved(message_id, Message.bring_forward([message_id], now, by), "brought forward")


def resolve(message_id: str, decision: Decision, now: datetime, by: str) -> MessageView:
    """Decide about an UNKNOWN message: it was sent, it is to be sent again, or it is discarded."""
    done = _decide(_row(message_id), decision, now, by)
    return _moved(message_id, [message_id] if done else [], "resolved")


def count_of(action: BulkActionName, wanted: Filter, now: datetime) -> int:
    """Count the messages that :func:`act_on_all` would move now."""
    return sum(count_of_each(action, wanted, now).values())


def count_of_each(action: BulkActionName, wanted: Filter, now: datetime) -> dict[MessageStatus, int]:
    """Count the messages that :func:`act_on_all` would move now, for each status that has any."""
    parts = [(part.status, listing.count(part)) for part in _matching(action, wanted, now)]
    return {status: number for status, number in parts if status is not None and number}


def act_on_all(action: BulkActionName, wanted: Filter, now: datetime, by: str) -> int:
    """Do the same to every message that matches and is in a state that allows it; answer how many were moved.

    Part by part, each part by itself, so that nobody waits for the whole.
    """
    total = 0
    for part in _matching(action, wanted, now):
        last: str | None = None
        while ids := listing.find_ids(part, limit=_AT_ONCE, after=last):
            total += _act(action, ids, now, by)
            last = ids[-1]
    return total


def moves(action: BulkActionName, wanted: Filter) -> tuple[MessageStatus, ...]:
    """Say in which states this action moves what matches.

    What failed is sent again, and what was cancelled or has expired only where somebody named it, by status or by id.
    """
    states = _MOVES[action]
    if wanted.status is not None:
        return tuple(status for status in states if status is wanted.status)
    return (MessageStatus.ERROR,) if action == "requeue" and wanted.ids is None else states


def _matching(action: BulkActionName, wanted: Filter, now: datetime) -> list[Filter]:
    late = now if action == "requeue" else None
    return [replace(wanted, status=status, expires_after=late) for status in moves(action, wanted)]


def _act(action: BulkActionName, ids: Sequence[str], now: datetime, by: str) -> int:
    match action:
        case "cancel":
            return len(Message.cancel(ids, now, by))
        case "requeue":
            return len(Message.requeue(ids, now, by))
        case "send-now":
            return len(Message.bring_forward(ids, now, by))
        case "discard":
            return len(Message.discard(ids, now, by))
        case "confirm-sent":
            decision = Decision.SENT
        case "resend":
            decision = Decision.RESEND
    return sum(_decide(_row(one), decision, now, by) for one in ids)


def _view(
    row: Message, contents: Contents, results: Iterable[Result], delivered: Mapping[str, Delivery]
) -> MessageView:
    extras = contents.extras
    return MessageView(
        **_line_fields(row, contents.recipients[0].address if contents.recipients else None),
        mailbox_key=row.mailbox_key,
        recipients=tuple(
            RecipientView(to.kind.value, to.address, to.name, delivered.get(to.address)) for to in contents.recipients
        ),
        results=tuple(
            ResultView(one.address, one.result, one.code, one.detail, one.at, one.probable) for one in results
        ),
        text=contents.text,
        html=contents.html,
        attachments=tuple(
            AttachmentView(number, one.name, one.content_type, one.size, one.sha256, one.is_inline, one.content_id)
            for number, one in enumerate(contents.attachments, start=1)
        ),
        reply_to=extras.reply_to,
        importance=extras.importance,
        read_receipt=extras.read_receipt,
        delivery_receipt=extras.delivery_receipt,
        headers=tuple(HeaderView(name, value) for name, value in extras.headers),
        unsubscribe_url=extras.unsubscribe_url,
        unsubscribe=extras.unsubscribe,
        ignore_unsubscribed=extras.ignore_unsubscribed,
        from_=extras.from_,
        history=tuple(_camel(entry) for entry in row.history),
        events=tuple(_happenings(row)),
    )


def _happenings(row: Message) -> Iterator[Happening]:
    """Tell the history of a message in order; what cannot be read of it is left out."""
    told = [(at, entry) for entry in row.events if (at := _moment(entry.get("at"))) is not None]
    if not told or told[0][1].get("what") != "handed-in":
        yield Happening(row.created_on, "handed-in")
    ends = [at for at, _ in told[1:]] + [row.ended_on]
    for (at, entry), end in zip(told, ends, strict=False):
        what, by, detail = entry.get("what"), entry.get("by"), entry.get("detail")
        if what == "waited":
            seconds = None if end is None else (end - at).total_seconds()
            yield Happening(at, what, waiting_for=entry.get("waiting_for"), seconds=seconds)
        elif what is not None:
            yield Happening(at, str(what), by, detail)
        elif entry.get("outcome") in _DECIDED:
            yield Happening(at, str(entry["outcome"]), by, detail)
        else:
            yield Happening(at, "attempt", by, detail, attempt=_camel(entry))


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _camel(entry: dict[str, Any]) -> dict[str, Any]:
    return {camel(name): value for name, value in entry.items()}


def _row(message_id: str) -> Message:
    with pooled_connection():
        row = Message.get_or_none(Message.id == message_id)
    if row is None:
        raise NotFoundError("message", message_id)
    return row


def _decide(row: Message, decision: Decision, now: datetime, by: str) -> bool:
    if row.status != MessageStatus.UNKNOWN.value:
        return False
    match decision:
        case Decision.SENT:
            return row.confirm_sent(now, "A person confirmed that it was sent.", by)
        case Decision.RESEND:
            return row.send_again(now, "A person had it sent again.", by)
        case Decision.DISCARD:
            return bool(Message.discard([row.id], now, by))


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
