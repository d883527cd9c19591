"""An attachment arriving in ranges."""

from __future__ import annotations

import base64
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rqmail.sandbox.answers import GraphRefusal, graph_time
from rqmail.sandbox.mailbox import Mailbox, StoredMessage

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_MAX_FILE = 150 * 1024 * 1024


@dataclass(slots=True)
class UploadSession:
    """One file on its way into a draft; the token in its URL is all the authorization there is."""

    mailbox: Mailbox
    message: StoredMessage
    item: dict[str, Any]
    expires: datetime
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    content: bytearray = field(default_factory=bytearray)

    @classmethod
    def open(cls, mailbox: Mailbox, message: StoredMessage, item: dict[str, Any], expires: datetime) -> UploadSession:
        """Start an upload of the file that ``item`` describes."""
        if item.get("attachmentType") != "file" or not item.get("name"):
            raise GraphRefusal(400, "ErrorInvalidRequest", "attachmentType must be 'file' and name must not be empty.")
        if not 0 < item.get("size", 0) <= _MAX_FILE:
            raise GraphRefusal(400, "ErrorAttachmentSizeLimitExceeded", "The attachment size is not within the limit.")
        return cls(mailbox, message, item, expires)

    def put(self, content_range: str, chunk: bytes) -> bool:
        """Take one range, in order; answer whether the file is complete."""
        found = _RANGE.fullmatch(content_range)
        if found is None:
            raise GraphRefusal(400, "InvalidRange", "The Content-Range header is missing or malformed.")
        first, last, total = (int(number) for number in found.groups())
        if total != self.item["size"] or last - first + 1 != len(chunk) or last >= total:
            raise GraphRefusal(400, "InvalidRange", "The range does not fit the content or the announced size.")
        if first != len(self.content):
            raise GraphRefusal(416, "InvalidRange", f"The next expected range begins at {len(self.content)}.")
        self.content += chunk
        return len(self.content) == total

    @property
    def next_expected_ranges(self) -> list[str]:
        """Where the next range has to begin; Exchange writes the dash at the start only."""
        return [str(len(self.content)) if self.content else "0-"]

    def as_json(self) -> dict[str, Any]:
        """Answer how far the upload is, spelled as Exchange spells it."""
        return {"ExpirationDateTime": graph_time(self.expires), "nextExpectedRanges": self.next_expected_ranges}

    def attach(self) -> dict[str, Any]:
        """Put the complete file on the draft and answer the attachment; inline images are not possible this way."""
        attachment = {
            "@odata.type": "#microsoft.graph.fileAttachment",
            "id": secrets.token_urlsafe(24),
            "name": self.item["name"],
            "contentType": self.item.get("contentType", "application/octet-stream"),
            "isInline": False,
            "size": len(self.content),
            "contentBytes": base64.b64encode(self.content).decode(),
        }
        self.message.attachments.append(attachment)
        return attachment
