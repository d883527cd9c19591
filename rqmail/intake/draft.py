"""Intake: what an application hands in is checked here, and only then becomes a message that waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from rqmail.clock import Clock
from rqmail.content_store import ContentStore
from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import Attachment, Reader
from rqmail.intake.content import (
    checked_extras,
    checked_files,
    checked_raw,
    refuse_what_no_upload_takes,
    refuse_what_sendgrid_refuses,
)
from rqmail.intake.moments import check_moments, moment_of
from rqmail.intake.notices import Notice, notice_of_folded, notices_of
from rqmail.intake.recipients import Folded, recipients_of
from rqmail.intake.sender_rules import (
    ANY_SENDER,
    MAX_MESSAGE_BYTES,
    SenderRules,
    may_write_drafts,
    require_sender,
)
from rqmail.intake.senders import Sender, all_senders
from rqmail.intake.suppressed import without_suppressed
from rqmail.logs import event_log
from rqmail.models.base import transaction
from rqmail.models.content import Importance
from rqmail.models.mailbox import largest_message_bytes
from rqmail.models.message import Message, NewKey, NewMessage, Priority
from rqmail.text.scrubbing import scrubbed, scrubbed_start

log = event_log()

MAX_SUBJECT_LENGTH = 998
#: Bytes of text and HTML together; Graph takes at most 4 MB a request, all wrapping included.
MAX_BODY_BYTES = 3_000_000

_UNPRINTABLE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Draft:
    """A message as an application hands it in, nothing checked yet.

    ``sender`` is ``mailbox:KEY``, ``tenant:KEY`` or ``default``. Addresses are lines such as ``a@x.nl; Jörg <j@y.de>``
    or sequences of them. ``at`` and ``expires`` are ISO 8601 texts or datetimes, both with their time zone.
    ``importance`` is how mail programs mark it, ``priority`` when it goes out. ``headers`` are names and values;
    ``unsubscribe_url`` makes those of one-click unsubscribing. ``from_`` is whom it is from, where not the mailbox.
    With ``ignore_unsubscribed`` it also goes to whoever unsubscribed: no news, but what somebody needs, as an invoice.
    ``unsubscribe`` gives a mail to one recipient a link to unsubscribe by, and mail programs their one click. ``raw``
    is the mail itself in MIME form (bytes, a path, an open binary file): it is sent as it is, to these recipients, and
    takes no attachments beside it. ``message_id`` and ``date`` are those of a mail that is passed on; without them
    they are written when it is sent.
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
    attachments: Sequence[Attachment] = ()
    reply_to: str | Sequence[str] = ()
    importance: Importance | str = Importance.NORMAL
    read_receipt: bool = False
    delivery_receipt: bool = False
    headers: Sequence[tuple[str, str]] = ()
    unsubscribe_url: str | None = None
    from_: str | None = None
    ignore_unsubscribed: bool = False
    unsubscribe: bool = False
    raw: bytes | str | Path | BinaryIO | None = None
    message_id: str | None = None
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A draft that passed every check: the message to be stored.

    ``folded`` tells which of its addresses were named twice, ``notices`` what whoever hands it in should know, and the
    message's ``left_out`` which of them are suppressed.
    """

    message: NewMessage
    folded: tuple[Folded, ...] = ()
    notices: tuple[Notice, ...] = ()

    def all_notices(self) -> tuple[Notice, ...]:
        """Answer the notices, and first one for each address that was named twice."""
        return (*map(notice_of_folded, self.folded), *self.notices)


class Intake:
    """Takes messages in: checks them, stores them, and asks for a dispatch at once when one of them is due.

    ``nudge`` asks for a tick without waiting for the next poll, ``keep_ticks`` sees that there is a next poll; the
    message is safe before they are called. Attached files go to ``contents``; ``max_message_bytes`` bounds a message
    of a mailbox that has no bound of its own; ``unsubscribing_needs`` says what is missing for links to unsubscribe.
    """

    def __init__(
        self,
        clock: Clock,
        nudge: Callable[[], object],
        keep_ticks: Callable[[], object] = lambda: None,
        *,
        contents: ContentStore | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        unsubscribing_needs: Callable[[], str | None] = lambda: None,
        who: str | None = None,
    ) -> None:
        self._clock = clock
        self._unsubscribing_needs = unsubscribing_needs
        self._nudge = nudge
        self._keep_ticks = keep_ticks
        self._contents = contents or ContentStore(clock)
        self._max_message_bytes = max_message_bytes
        self._who = who

    def by(self, who: str) -> Intake:
        """Answer the same intake in somebody's name: a message's history begins with who handed it in."""
        named = copy(self)
        named._who = who
        return named

    def submit(self, draft: Draft, *, connection: Any = None) -> str:
        """Take one message in and answer its id; raises ``InvalidInputError`` naming the field that is wrong.

        With a ``connection`` of the caller's own to the same PostgreSQL database, the message is stored in the
        transaction that is open there: it waits once that is committed, and never was after a rollback.
        """
        if connection is None:
            return self.submit_all([draft])[0]
        message = self.checks().check(draft).message
        self.keep_files([message])
        Message.submit_within(connection, [message], self._clock(), self._who)
        return message.id

    def submit_all(self, drafts: Sequence[Draft]) -> list[str]:
        """Take all of these in, or none if one is wrong, and answer their ids in order."""
        return [one.message.id for one in self.take(drafts)]

    def take(self, drafts: Sequence[Draft]) -> list[Checked]:
        """Take all of these in, or none if one is wrong, and answer what became of each."""
        checks = self.checks()
        checked = []
        for one in checks.check_all(drafts):
            if isinstance(one, InvalidInputError):
                raise one
            checked.append(one)
        self.store(one.message for one in checked)
        return checked

    def checks(self) -> Checks:
        """Answer the checks that a request of this moment has to pass."""
        return Checks(self._clock(), self._max_message_bytes, self._unsubscribing_needs)

    def largest_message_bytes(self) -> int:
        """Answer how many bytes a message may have as it is sent, whichever mailbox it is of."""
        return max(self._max_message_bytes, largest_message_bytes())

    def senders(self) -> list[Sender]:
        """Answer every mailbox and tenant there is, with what its messages must keep to."""
        return all_senders(self._max_message_bytes)

    def keep_files(self, messages: Iterable[NewMessage]) -> None:
        """Keep the bytes of everything attached to messages that have been checked; they are stored after that."""
        self._contents.keep(one for message in messages for one in message.attachments)

    def store(
        self,
        messages: Iterable[NewMessage],
        on_stored: Callable[[int], None] | None = None,
        *,
        keys: Sequence[NewKey] = (),
    ) -> None:
        """Keep the files of messages that have been checked, then insert the messages, in one transaction.

        ``on_stored`` hears in it how many there are; what it raises undoes everything. ``keys`` are written down with
        the messages; where one of them is there already, nothing is stored: one of ``TAKEN_ERRORS``.
        """
        now = self._clock()
        handed_in = list(messages)
        self.keep_files(handed_in)
        if on_stored is None:
            Message.submit(handed_in, now, self._who, keys=keys)
        else:
            with transaction():
                Message.submit(handed_in, now, self._who, keys=keys)
                on_stored(len(handed_in))
        self.announce(due=any(is_due(message, now) for message in handed_in))

    def announce(self, *, due: bool) -> None:
        """Say that messages wait: the ticks are kept on the schedule, and one is asked for now when any of them is due.

        The messages are safe: what fails here is only logged.
        """
        self._ask_for_a_tick(self._keep_ticks)
        if due:
            self._ask_for_a_tick(self._nudge)

    def _ask_for_a_tick(self, ask: Callable[[], object]) -> None:
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - the message is stored: whatever fails here, the next poll finds it
            log.warning("intake.nudgeFailed", err=type(error).__name__)


def check(
    draft: Draft,
    now: datetime,
    rules: SenderRules = ANY_SENDER,
    reader: Reader | None = None,
    may_write: Callable[[str], bool | None] = lambda _sender: None,
) -> Checked:
    """Turn a draft into a message that can be stored; raises ``InvalidInputError`` naming the field that is wrong.

    Whether the sender exists, what rules it has, and who is suppressed, is asked apart, once for many: :class:`Checks`.
    """
    recipients, folded = recipients_of(draft.to, draft.cc, draft.bcc, ascii_only=rules.ascii_only)
    at, expires = moment_of("at", draft.at), moment_of("expires", draft.expires)
    check_moments(at, expires, now)
    text, html = _bodies(draft)
    subject = _subject(draft.subject)
    extras = checked_extras(
        reply_to=draft.reply_to,
        importance=draft.importance,
        read_receipt=draft.read_receipt,
        delivery_receipt=draft.delivery_receipt,
        headers=draft.headers,
        unsubscribe_url=draft.unsubscribe_url,
        from_=draft.from_,
        ignore_unsubscribed=draft.ignore_unsubscribed,
        unsubscribe=draft.unsubscribe,
        message_id=draft.message_id,
        date=draft.date,
    )
    if draft.unsubscribe and len(recipients) > 1:
        raise InvalidInputError(
            "unsubscribe", f"{len(recipients)} recipients", "one recipient: the link is theirs alone"
        )
    if draft.raw is None:
        files = checked_files(
            draft.attachments, text=text, html=html, most_bytes=rules.max_message_bytes, reader=reader or Reader()
        )
    else:
        files = checked_raw(draft.raw, draft.attachments, rules, reader or Reader())
        extras = replace(extras, raw=True)
    if rules.through_graph:
        refuse_what_no_upload_takes(files)
    else:
        refuse_what_sendgrid_refuses(recipients, extras.headers)
    message = NewMessage(
        sender=draft.sender,
        subject=subject,
        recipients=recipients,
        text=text,
        html=html,
        requested_on=at,
        expires_on=expires,
        priority=_priority(draft.priority),
        attachments=files,
        extras=extras,
    )
    return Checked(message, folded, notices_of(message, rules, may_write))


class Checks:
    """The checks of one request, whichever door it came through: each sender is looked up once, each file read once."""

    def __init__(
        self,
        now: datetime,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        unsubscribing_needs: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._now = now
        self._max_message_bytes = max_message_bytes
        self._unsubscribing_needs = unsubscribing_needs
        self._rules: dict[str, SenderRules] = {}
        self._reader = Reader()
        self._may_write: dict[str, bool | None] = {}

    def check(self, draft: Draft) -> Checked:
        """Turn a draft into a message that can be stored, or raise ``InvalidInputError``."""
        [checked] = self.check_all([draft])
        if isinstance(checked, InvalidInputError):
            raise checked
        return checked

    def check_all(self, drafts: Sequence[Draft | InvalidInputError]) -> list[Checked | InvalidInputError]:
        """Turn each of some drafts into a message that can be stored, or into what is wrong with it.

        Who is suppressed is left out of each message; ``AllSuppressedError`` stands for one with nobody left.
        """
        found = [self._formed(draft) for draft in drafts]
        sound = [one for one in found if isinstance(one, Checked)]
        allowed = iter(without_suppressed([one.message for one in sound]))
        answers: list[Checked | InvalidInputError] = []
        for one in found:
            if isinstance(one, Checked):
                message = next(allowed)
                answers.append(message if isinstance(message, InvalidInputError) else replace(one, message=message))
            else:
                answers.append(one)
        return answers

    def _formed(self, draft: Draft | InvalidInputError) -> Checked | InvalidInputError:
        if isinstance(draft, InvalidInputError):
            return draft
        try:
            rules = self._rules.get(draft.sender) or self.require_sender(draft.sender)
            if draft.unsubscribe and (needed := self._unsubscribing_needs()) is not None:
                raise InvalidInputError("unsubscribe", draft.unsubscribe, needed)
            return check(draft, self._now, rules, self._reader, self._may_write_drafts)
        except InvalidInputError as wrong:
            return wrong

    def _may_write_drafts(self, sender: str) -> bool | None:
        if sender not in self._may_write:
            self._may_write[sender] = may_write_drafts(sender)
        return self._may_write[sender]

    def know(self, sender: str, rules: SenderRules) -> None:
        """Take it that a sender exists and has these rules: whoever says so has just looked."""
        self._rules[sender] = rules

    def require_sender(self, sender: str) -> SenderRules:
        """Answer what a sender's messages must keep to; raises ``InvalidInputError`` unless the sender exists."""
        self._rules[sender] = require_sender(sender, self._max_message_bytes)
        return self._rules[sender]


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


def is_due(message: NewMessage, now: datetime) -> bool:
    """Say whether this message may go out now: it is worth a tick of its own."""
    return message.requested_on is None or message.requested_on <= now


def _beginning(body: object) -> str:
    text = repr(body)
    return scrubbed(text) if len(text) <= 60 else scrubbed_start(text, 60) + "…"
