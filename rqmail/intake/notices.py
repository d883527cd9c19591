"""What whoever hands a message in should know about it, though it is taken in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rqmail.intake.attachments import is_blocked
from rqmail.intake.content import AROUND_A_FILE
from rqmail.intake.recipients import Folded
from rqmail.intake.sender_rules import SenderRules
from rqmail.mailers.base import as_base64
from rqmail.mailers.graph.size import LARGEST_REQUEST
from rqmail.models.message import NewMessage

#: What Graph's JSON puts around a mail, and around a recipient beside the address and the name.
_AROUND_A_MAIL = 1_000
_AROUND_A_RECIPIENT = 60


class NoticeCode(StrEnum):
    """What there is to know, and what ``about`` then is."""

    BLOCKED_TYPE = "blocked-type"  #: the name of the file
    NEEDS_READ_WRITE = "needs-read-write"  #: the bytes of the mail
    LACKS_READ_WRITE = "lacks-read-write"  #: the same
    NAMED_TWICE = "named-twice"  #: the address


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about a message that is taken in all the same, but that whoever hands it in should know.

    ``code`` and ``about`` say the same for those who write it in their own words.
    """

    field: str
    text: str
    code: NoticeCode
    about: str

    def told(self) -> dict[str, str]:
        """Answer what programs are told: the field and the text."""
        return {"field": self.field, "text": self.text}


def notices_of(message: NewMessage, rules: SenderRules, may_write: Callable[[str], bool | None]) -> tuple[Notice, ...]:
    """Say which files may be kept from whoever receives them, and that a large mail needs a permission.

    ``may_write`` tells whether the app has that permission for a sender, where somebody knows.
    """
    found = [
        Notice(
            "attachments",
            f"Exchange or Outlook may keep {one.name} from who receives it: its type is blocked",
            NoticeCode.BLOCKED_TYPE,
            one.name,
        )
        for one in message.attachments
        if is_blocked(one.name)
    ]
    if message.extras.raw:
        found = _lacking(
            "a mail in MIME form is sent as a draft", message.attachments[0].size, may_write(message.sender)
        )
    elif rules.through_graph and message.attachments and (size := _request_size(message)) > LARGEST_REQUEST:
        found += _lacking(f"a mail of {size:,} bytes goes up in parts", size, may_write(message.sender))
    return tuple(found)


def notice_of_folded(fold: Folded) -> Notice:
    """Say that an address was named twice."""
    text = f"{fold.address} was named twice: kept in {fold.kept}, left out of {fold.left_out}"
    return Notice(fold.left_out, text, NoticeCode.NAMED_TWICE, fold.address)


def _lacking(what: str, size: int, may_write: bool | None) -> list[Notice]:
    if may_write:
        return []
    needs = f"{what}, which needs the app's permission Mail.ReadWrite"
    if may_write is None:
        return [Notice("attachments", needs, NoticeCode.NEEDS_READ_WRITE, f"{size:,}")]
    waits = f"{needs}; it did not have it when it was last asked, and the mail waits until it has"
    return [Notice("attachments", waits, NoticeCode.LACKS_READ_WRITE, f"{size:,}")]


def _request_size(message: NewMessage) -> int:
    """Answer about how many bytes the mail is as one request to Graph."""
    bodies = len(json.dumps(message.html if message.html is not None else message.text, ensure_ascii=False).encode())
    files = sum(as_base64(one.size) + AROUND_A_FILE // 3 + len(one.name.encode()) for one in message.attachments)
    people = sum(_AROUND_A_RECIPIENT + len(f"{to.address}{to.name}".encode()) for to in message.recipients)
    return _AROUND_A_MAIL + bodies + files + people
