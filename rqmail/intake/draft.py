"""Intake: what an application hands in is checked here, and only then becomes a message that waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import structlog

from rqmail.clock import Clock
from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import parse_addresses
from rqmail.models.base import borrowed, transaction
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, NewMessage, NewRecipient, Priority, RecipientKind

log = structlog.get_logger()

#: Exchange refuses a message to more than this by default, after it has said 202.
MAX_RECIPIENTS = 500
MAX_SUBJECT_LENGTH = 998
#: Bytes of text and HTML together; Graph takes at most 4 MB a request, all wrapping included.
MAX_BODY_BYTES = 3_000_000

_BATCH = 1000
_SENDER = "mailbox:KEY, tenant:KEY or default"
_UNPRINTABLE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as an application hands it in, nothing checked yet.

    ``sender`` is ``mailbox:KEY``, ``tenant:KEY`` or ``default``. Addresses are lines such as ``a@x.nl; Jörg <j@y.de>``
    or sequences of them. ``at`` and ``expires`` are ISO 8601 texts or datetimes, both with their time zone.
    """

    sender: str
    subject: str
    to: str | Sequence[str] = ()
    cc: str | Sequence[str] = ()
    bcc: str | Sequence[str] = ()
    text: str | None = None
    html: str | None = None
    at: datetime | str | None = None
    expires: datetime | str | None = None
    priority: Priority | str = Priority.NORMAL


class Intake:
    """Takes messages in: checks them, stores them, and asks for a dispatch at once when one of them is urgent.

    ``nudge`` asks for a tick without waiting for the next poll; the message is safe before it is called.
    """

    def __init__(self, clock: Clock, nudge: Callable[[], object]) -> None:
        self._clock = clock
        self._nudge = nudge

    def submit(self, draft: Draft) -> str:
        """Take one message in and answer its id; raises ``InvalidInputError`` naming the field that is wrong."""
        return self.submit_all([draft])[0]

    def submit_all(self, drafts: Sequence[Draft]) -> list[str]:
        """Take all of these in, or none if one is wrong, and answer their ids in order."""
        for sender in {draft.sender for draft in drafts}:
            require_sender(sender)
        messages = [check(draft) for draft in drafts]
        self.store(messages)
        return [message.id for message in messages]

    def store(self, messages: Iterable[NewMessage], on_stored: Callable[[int], None] = lambda _: None) -> None:
        """Insert messages that have been checked, in batches and in one transaction.

        ``on_stored`` hears how many each batch added. What ``messages`` raises while it is read undoes everything.
        """
        now = self._clock()
        urgent = False
        waiting = iter(messages)
        with transaction():
            while batch := list(islice(waiting, _BATCH)):
                Message.submit(batch, now)
                urgent = urgent or any(_is_urgent(message, now) for message in batch)
                on_stored(len(batch))
        if urgent:
            self._ask_for_a_tick()

    def _ask_for_a_tick(self) -> None:
        try:
            self._nudge()
        except Exception as error:  # noqa: BLE001 - the message is stored: whatever fails here, the next poll finds it
            log.warning("intake.nudgeFailed", err=type(error).__name__)


def check(draft: Draft) -> NewMessage:
    """Turn a draft into a message that can be stored; raises ``InvalidInputError`` naming the field that is wrong.

    Whether the sender exists is asked apart, once for many: :func:`require_sender`.
    """
    recipients = (
        *_recipients(RecipientKind.TO, draft.to),
        *_recipients(RecipientKind.CC, draft.cc),
        *_recipients(RecipientKind.BCC, draft.bcc),
    )
    if not recipients:
        raise InvalidInputError("to", draft.to or "", "at least one recipient in to, cc or bcc")
    if len(recipients) > MAX_RECIPIENTS:
        raise InvalidInputError(
            "to", len(recipients), f"at most {MAX_RECIPIENTS} recipients in to, cc and bcc together"
        )
    at, expires = _moment("at", draft.at), _moment("expires", draft.expires)
    if expires is not None and at is not None and expires <= at:
        raise InvalidInputError("expires", expires.isoformat(), "a moment after the one the message is to go out at")
    text, html = _bodies(draft)
    return NewMessage(
        sender=draft.sender,
        subject=_subject(draft.subject),
        recipients=recipients,
        text=text,
        html=html,
        requested_on=at,
        expires_on=expires,
        priority=_priority(draft.priority),
    )


def require_sender(sender: str) -> None:
    """Raise ``InvalidInputError`` unless ``sender`` names one that exists."""
    kind, _, key = sender.partition(":")
    if sender == "default":
        return
    if kind not in {"mailbox", "tenant"} or not key:
        raise InvalidInputError("sender", sender, _SENDER)
    with borrowed():
        if kind == "mailbox":
            known = SystemMailbox.get_or_none(SystemMailbox.key == key) is not None
        else:
            known = TenantMailSetting.get_or_none(TenantMailSetting.key == key) is not None
    if not known:
        raise InvalidInputError(kind, key, f"a {kind} that exists (`rqmail {kind} list` shows them)")


def _recipients(kind: RecipientKind, lines: str | Sequence[str]) -> list[NewRecipient]:
    field = kind.value
    if isinstance(lines, str):
        lines = (lines,)
    found = []
    for line in lines:
        if not isinstance(line, str):
            raise InvalidInputError(field, line, "mail addresses as text")
        found += [NewRecipient(kind, to.address, to.name) for to in parse_addresses(line, field)]
    return found


def _subject(subject: str) -> str:
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidInputError("subject", subject, "some text")
    if len(subject) > MAX_SUBJECT_LENGTH or _UNPRINTABLE_LINE.search(subject):
        raise InvalidInputError("subject", subject, f"one line of at most {MAX_SUBJECT_LENGTH} printable characters")
    return subject


def _bodies(draft: Draft) -> tuple[str | None, str | None]:
    size = 0
    for field, body in (("text", draft.text), ("html", draft.html)):
        if body is None:
            continue
        if not isinstance(body, str) or _UNSTORABLE.search(body):
            raise InvalidInputError(field, _beginning(body), "text without NUL or half characters")
        size += len(body) if body.isascii() else len(body.encode())
        if size > MAX_BODY_BYTES:
            raise InvalidInputError(
                field, f"{size:,} bytes", f"at most {MAX_BODY_BYTES:,} bytes of text and HTML together"
            )
    text, html = draft.text or None, draft.html or None
    if text is None and html is None:
        raise InvalidInputError("text", "", "a text or an html body")
    return text, html


def _moment(field: str, value: datetime | str | None) -> datetime | None:
    allowed = "a moment with its time zone, such as 2026-03-01T09:00:00+01:00"
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        aware = isinstance(moment, datetime) and moment.tzinfo is not None
        utc = moment.astimezone(UTC) if aware else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        raise InvalidInputError(field, str(value), allowed)
    return utc


def _priority(value: Priority | str) -> Priority:
    if isinstance(value, Priority):
        return value
    try:
        return Priority[value.strip().upper()]
    except (KeyError, AttributeError):
        raise InvalidInputError("priority", value, "high, normal or low") from None


def _is_urgent(message: NewMessage, now: datetime) -> bool:
    return message.priority == Priority.HIGH and (message.requested_on is None or message.requested_on <= now)


def _beginning(body: object) -> str:
    text = repr(body)
    return text if len(text) <= 60 else text[:60] + "…"
