"""What a message carries beside subject, text and recipients: attached files, and the fields few messages have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, BinaryIO


class Importance(StrEnum):
    """How a mail program marks a message; it does not change when the message goes out."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Person:
    """A checked address that is no recipient, with the name shown beside it (empty for none)."""

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """One file a message carries; its bytes are kept once under ``sha256``, however many messages carry them.

    ``content_id`` is what the HTML calls an inline picture by (``cid:…``). ``source`` opens the bytes until they are
    kept; it is ``None`` for what was read from the database.
    """

    name: str
    content_type: str
    size: int
    sha256: str
    is_inline: bool = False
    content_id: str | None = None
    source: Callable[[], AbstractContextManager[BinaryIO]] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Extras:
    """The fields of a message that few messages have; ``headers`` are names and values in order, each name once.

    ``from_`` is whom the mail is from where that is not the mailbox itself. With ``ignore_unsubscribed`` it also goes
    to whoever unsubscribed: a mail that is no news, such as an invoice. With ``unsubscribe`` it gets a link of its only
    recipient's own to unsubscribe by, when it is sent. With ``raw`` its only file is the mail itself in MIME form,
    to be sent as it is. ``message_id`` and ``date`` are those of the mail in MIME form it was handed in as.
    """

    reply_to: tuple[Person, ...] = ()
    importance: Importance = Importance.NORMAL
    read_receipt: bool = False
    delivery_receipt: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    from_: Person | None = None
    ignore_unsubscribed: bool = False
    unsubscribe: bool = False
    raw: bool = False
    message_id: str | None = None
    date: datetime | None = None

    @property
    def unsubscribe_url(self) -> str | None:
        """The address at which one click unsubscribes (RFC 8058), where the headers name one."""
        told = {name.lower(): value for name, value in self.headers}
        url = re.search(r"<(https://[^>\s]+)>", told.get("list-unsubscribe", ""))
        return url[1] if url and "list-unsubscribe-post" in told else None

    def to_column(self) -> str | None:
        """Write what is not as usual as JSON; nothing where all of it is as usual."""
        told: dict[str, Any] = {
            "replyTo": [[one.address, one.name] for one in self.reply_to],
            "importance": "" if self.importance is Importance.NORMAL else self.importance.value,
            "readReceipt": self.read_receipt,
            "deliveryReceipt": self.delivery_receipt,
            "headers": self.headers,
            "from": [] if self.from_ is None else [self.from_.address, self.from_.name],
            "ignoreUnsubscribed": self.ignore_unsubscribed,
            "unsubscribe": self.unsubscribe,
            "raw": self.raw,
            "messageId": self.message_id,
            "date": None if self.date is None else self.date.isoformat(),
        }
        given = {name: value for name, value in told.items() if value}
        return json.dumps(given, ensure_ascii=False, separators=(",", ":")) if given else None


NO_EXTRAS = Extras()


def extras_of(column: str | None) -> Extras | None:
    """Read what :meth:`Extras.to_column` wrote; ``None`` for a column that was edited into something else."""
    if not column:
        return NO_EXTRAS
    try:
        told = json.loads(column)
        return Extras(
            reply_to=tuple(Person(*one) for one in told.get("replyTo", ())),
            importance=Importance(told.get("importance", "normal")),
            read_receipt=bool(told.get("readReceipt")),
            delivery_receipt=bool(told.get("deliveryReceipt")),
            headers=tuple((str(name), str(value)) for name, value in told.get("headers", ())),
            from_=Person(*told["from"]) if told.get("from") else None,
            ignore_unsubscribed=bool(told.get("ignoreUnsubscribed")),
            unsubscribe=bool(told.get("unsubscribe")),
            raw=bool(told.get("raw")),
            message_id=str(told["messageId"]) if told.get("messageId") else None,
            date=datetime.fromisoformat(told["date"]) if told.get("date") else None,
        )
    except (ValueError, TypeError, AttributeError):
        return None
