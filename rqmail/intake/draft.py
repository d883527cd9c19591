"""Intake: what an application hands in is checked here, and only then becomes a message that waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import structlog

from rqmail.clock import Clock
from rqmail.errors import InvalidInputError
from rqmail.intake.moments import check_moments, moment_of
from rqmail.intake.recipients import Folded, recipients_of
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.mailbox import Provider, SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, NewMessage, Priority

log = structlog.get_logger()

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


@dataclass(frozen=True, slots=True)
class Checked:
    """A draft that passed every check: the message to be stored, and which of its addresses were named twice."""

    message: NewMessage
    folded: tuple[Folded, ...] = ()


class Intake:
    """Takes messages in: checks them, stores them, and asks for a dispatch at once when one of them is urgent.

    ``nudge`` asks for a tick without waiting for the next poll, ``keep_ticks`` sees that there is a next poll; the
    message is safe before they are called.
    """

    def __init__(
        self,
        clock: Clock,
        nudge: Callable[[], object],
        keep_ticks: Callable[[], object] = lambda: None,
        *,
        who: str | None = None,
    ) -> None:
        self._clock = clock
        self._nudge = nudge
        self._keep_ticks = keep_ticks
        self._who = who

    def by(self, who: str) -> Intake:
        """Answer the same intake in somebody's name: a message's history begins with who handed it in."""
        return Intake(self._clock, self._nudge, self._keep_ticks, who=who)

    def submit(self, draft: Draft) -> str:
        """Take one message in and answer its id; raises ``InvalidInputError`` naming the field that is wrong."""
        return self.submit_all([draft])[0]

    def submit_all(self, drafts: Sequence[Draft]) -> list[str]:
        """Take all of these in, or none if one is wrong, and answer their ids in order."""
        return [one.message.id for one in self.take(drafts)]

    def take(self, drafts: Sequence[Draft]) -> list[Checked]:
        """Take all of these in, or none if one is wrong, and answer what became of each."""
        checks = self.checks()
        checked = [checks.check(draft) for draft in drafts]
        self.store(one.message for one in checked)
        return checked

    def checks(self) -> Checks:
        """Answer the checks that a request of this moment has to pass."""
        return Checks(self._clock())

    def store(self, messages: Iterable[NewMessage], on_stored: Callable[[int], None] = lambda _: None) -> None:
        """Insert messages that have been checked, in batches and in one transaction.

        ``on_stored`` hears how many each batch added. What ``messages`` raises while it is read undoes everything.
        """
        now = self._clock()
        urgent = False
        waiting = iter(messages)
        with transaction():
            while batch := list(islice(waiting, _BATCH)):
                Message.submit(batch, now, self._who)
                urgent = urgent or any(is_urgent(message, now) for message in batch)
                on_stored(len(batch))
        self.announce(urgent=urgent)

    def announce(self, *, urgent: bool) -> None:
        """Say that messages wait: the ticks are kept on the schedule, and the next is asked for now when it is urgent.

        The messages are safe: what fails here is only logged.
        """
        self._ask_for_a_tick(self._keep_ticks)
        if urgent:
            self._ask_for_a_tick(self._nudge)

    def _ask_for_a_tick(self, ask: Callable[[], object]) -> None:
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - the message is stored: whatever fails here, the next poll finds it
            log.warning("intake.nudgeFailed", err=type(error).__name__)


def check(draft: Draft, now: datetime, *, ascii_only: bool = False) -> Checked:
    """Turn a draft into a message that can be stored; raises ``InvalidInputError`` naming the field that is wrong.

    Whether the sender exists, and takes addresses in ASCII only, is asked apart, once for many: :class:`Checks`.
    """
    recipients, folded = recipients_of(draft.to, draft.cc, draft.bcc, ascii_only=ascii_only)
    at, expires = moment_of("at", draft.at), moment_of("expires", draft.expires)
    check_moments(at, expires, now)
    text, html = _bodies(draft)
    message = NewMessage(
        sender=draft.sender,
        subject=_subject(draft.subject),
        recipients=recipients,
        text=text,
        html=html,
        requested_on=at,
        expires_on=expires,
        priority=_priority(draft.priority),
    )
    return Checked(message, folded)


class Checks:
    """The checks of one request, whichever door it came through: each sender is looked up once."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._ascii_only: dict[str, bool] = {}

    def check(self, draft: Draft) -> Checked:
        """Turn a draft into a message that can be stored, or raise ``InvalidInputError``."""
        ascii_only = self._ascii_only.get(draft.sender)
        if ascii_only is None:
            ascii_only = self.require_sender(draft.sender)
        return check(draft, self._now, ascii_only=ascii_only)

    def require_sender(self, sender: str) -> bool:
        """Raise ``InvalidInputError`` unless the sender exists; say whether it takes addresses in ASCII only."""
        self._ascii_only[sender] = require_sender(sender)
        return self._ascii_only[sender]


def require_sender(sender: str) -> bool:
    """Raise ``InvalidInputError`` unless the sender exists; say whether it takes ASCII only (SendGrid)."""
    kind, _, key = sender.partition(":") if isinstance(sender, str) else ("", "", "")
    if sender == "default":
        return True
    if kind not in {"mailbox", "tenant"} or not key:
        raise InvalidInputError("sender", sender, _SENDER)
    with pooled_connection():
        if kind == "mailbox":
            mailbox = SystemMailbox.get_or_none(SystemMailbox.key == key)
            provider = None if mailbox is None else Provider.MICROSOFT_GRAPH.value
        else:
            tenant = TenantMailSetting.get_or_none(TenantMailSetting.key == key)
            provider = None if tenant is None else tenant.provider
    if provider is None:
        raise InvalidInputError(kind, key, f"a {kind} that exists (`rqmail {kind} list` shows them)")
    return provider != Provider.MICROSOFT_GRAPH.value


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


def _priority(value: Priority | str) -> Priority:
    if isinstance(value, Priority):
        return value
    try:
        return Priority[value.strip().upper()]
    except (KeyError, AttributeError):
        raise InvalidInputError("priority", value, "high, normal or low") from None


def is_urgent(message: NewMessage, now: datetime) -> bool:
    """Say whether a person waits for this message now: it is worth a tick of its own."""
    return message.priority == Priority.HIGH and (message.requested_on is None or message.requested_on <= now)


def _beginning(body: object) -> str:
    text = repr(body)
    return text if len(text) <= 60 else text[:60] + "…"
