"""One message as people read it on a terminal."""

from __future__ import annotations

from datetime import datetime, timedelta

from rqmail.administration.messages import Happening, MessageView, RecipientView
from rqmail.insight.waiting import Wait
from rqmail.models.content import Importance, Person
from rqmail.terminal.tables import console, moment, plain, table


def print_view(view: MessageView, wait: Wait, now: datetime) -> None:
    """Write all that is known of a message."""
    out = console()
    fields = {
        "id": view.id,
        "status": view.status.value + (f", waits for {view.waiting_for}" if view.waiting_for else ""),
        "sender": view.sender,
        "subject": view.subject,
        "created": moment(view.created_on, now),
        "requested": moment(view.requested_on, now),
        "scheduled": moment(view.scheduled_on, now),
        "waits": wait.waits_because,
        "expected": moment(wait.expected_on, now),
        "expires": moment(view.expires_on, now),
        "sent": moment(view.sent_on, now),
        "tries": f"{view.attempts} (and put off {view.deferrals} times)",
        "error": view.last_error,
    }
    for kind in ("to", "cc", "bcc"):
        fields[kind] = ", ".join(_person(to) for to in view.recipients if to.kind == kind)
    fields |= {
        "from": None if view.from_ is None else _person(view.from_),
        "reply to": ", ".join(map(_person, view.reply_to)),
        "importance": None if view.importance is Importance.NORMAL else view.importance.value,
        "receipts": " and ".join(["read"] * view.read_receipt + ["delivered"] * view.delivery_receipt),
        "one click": _one_click(view),
        "goes to": "who unsubscribed, too" if view.ignore_unsubscribed else None,
    }
    for name, value in fields.items():
        if value:
            out.print(f"{name:>10}  {plain(value)}")
    for header in view.headers:
        out.print(f"{'header':>10}  {plain(f'{header.name}: {header.value}')}")
    for file in view.attachments:
        shown_inline = f", inline as {file.content_id}" if file.is_inline else ""
        told = f"{file.name} ({file.content_type}, {file.size:,} bytes, SHA-256 {file.sha256}{shown_inline})"
        out.print(f"{'file':>10}  {plain(told)}")
    for result in view.results:
        sure = ", probably" if result.probable else ""
        why = f"{result.code}: {result.detail}" if result.detail else result.code
        out.print(f"{result.result:>10}  {plain(f'{result.address} ({why}{sure}, {moment(result.at, now)})')}")
    for known in (one.delivery for one in view.recipients if one.delivery is not None):
        sure = ", probably" if known.probable else ""
        taken = f"{known.address} ({known.status}{sure}, taken {moment(known.received_on, now)})"
        out.print(f"{'delivery':>10}  {plain(taken)}")
    happened = table("when", "what", "by", "detail", folds=("what", "detail"), drops=("by",))
    for one in view.events:
        happened.add_row(moment(one.at, now), plain(_what(one)), plain(one.by or ""), plain(_detail(one)))
    out.print(happened)


def _one_click(view: MessageView) -> str | None:
    if view.unsubscribe:
        return "unsubscribes by a link of its recipient's own"
    return view.unsubscribe_url and f"unsubscribes at {view.unsubscribe_url}"


def _what(one: Happening) -> str:
    if one.attempt is not None:
        return f"attempt: {one.attempt.get('outcome')}"
    if one.waiting_for is not None:
        return f"waited for {one.waiting_for}"
    return one.what


#: What is told of an attempt, as far as it is known.
_FACTS = {
    "durationMs": "{} ms",
    "status": "status {}",
    "code": "{}",
    "requestId": "request-id {}",
    "mailboxKey": "through {}",
}


def _detail(one: Happening) -> str:
    if one.attempt is not None:
        known = {name: value for name in _FACTS if (value := one.attempt.get(name)) is not None}
        facts = ", ".join(_FACTS[name].format(value) for name, value in known.items())
        return f"{facts}: {one.detail}" if one.detail else facts
    if one.seconds is not None:
        return f"for {timedelta(seconds=round(one.seconds))}"
    return one.detail or ""


def _person(one: RecipientView | Person) -> str:
    return f"{one.name} <{one.address}>" if one.name else one.address
