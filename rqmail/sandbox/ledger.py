"""The list of every mail the sandbox accepted, and what can be counted about it."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class AcceptedMail:
    """One mail that was answered with 202, or would have been had its answer not been lost on purpose."""

    seq: int
    time: str
    mailbox: str
    rqmailId: str | None
    subject: str
    to: list[str]
    cc: list[str]
    bcc: list[str]
    bodyType: str
    body: str
    headers: dict[str, str]
    attachments: list[dict[str, Any]]
    via: str
    requestId: str
    clientRequestId: str
    internetMessageId: str
    nonDelivery: str | None
    carriedOver: bool


#: The names of the JSON fields of an accepted mail.
FIELDS = tuple(entry.name for entry in fields(AcceptedMail))


@dataclass(slots=True)
class Ledger:
    """Everything accepted since the last reset, in order, counted as it comes."""

    mails: list[AcceptedMail] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    non_delivered: Counter[str] = field(default_factory=Counter)
    times_seen: Counter[str] = field(default_factory=Counter)
    over_minute: int = 0
    _repeated: set[str] = field(default_factory=set)

    def add(self, mail: AcceptedMail) -> None:
        """Write down one accepted mail."""
        self.mails.append(mail)
        self.over_minute += mail.carriedOver
        if mail.nonDelivery:
            self.non_delivered[mail.nonDelivery] += 1
        if mail.rqmailId:
            self.times_seen[mail.rqmailId] += 1
            if self.times_seen[mail.rqmailId] > 1:
                self._repeated.add(mail.rqmailId)

    @property
    def duplicates(self) -> dict[str, int]:
        """How often each of our ids was accepted, of those accepted more than once."""
        return {rqmail_id: self.times_seen[rqmail_id] for rqmail_id in sorted(self._repeated)}

    def find(self, seq: int) -> AcceptedMail | None:
        """Answer the mail with the number ``seq``."""
        return self.mails[seq - 1] if 1 <= seq <= len(self.mails) else None

    def select(self, *, mailbox: str | None = None, after: int = 0, limit: int | None = None) -> Iterable[AcceptedMail]:
        """Answer the mails with a number above ``after``, oldest first, of one mailbox if named."""
        start = bisect.bisect_right(self.mails, after, key=lambda mail: mail.seq)
        found = [mail for mail in self.mails[start:] if mailbox is None or mail.mailbox == mailbox]
        return found if limit is None else found[:limit]


def as_json(mail: AcceptedMail, wanted: Container[str] | None = None) -> dict[str, Any]:
    """Turn ``mail`` into its JSON form, or only some of its fields."""
    return {name: getattr(mail, name) for name in FIELDS if wanted is None or name in wanted}
