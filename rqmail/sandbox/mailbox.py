"""One mailbox: its folders, what lies in them, and how busy it is."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rqmail.sandbox.windows import RollingWindow

#: Well-known folder names as they stand in a URL, and how the folder shows.
FOLDERS = {
    "inbox": "Inbox",
    "drafts": "Drafts",
    "outbox": "Outbox",
    "sentitems": "Sent Items",
    "deleteditems": "Deleted Items",
}


@dataclass(slots=True)
class StoredMessage:
    """A message in a folder; ``id`` changes when it moves, ``immutable_id`` does not."""

    properties: dict[str, Any]
    folder: str
    id: str
    immutable_id: str
    visible_from: float = 0.0
    attachments: list[dict[str, Any]] = field(default_factory=list)
    #: The whole message as it came, of one that came from outside.
    mime: bytes = b""


class Mailbox:
    """What one mailbox holds and how much of its limits is used."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.user_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"mailto:{address}"))
        self.in_flight = 0
        self.max_in_flight = 0
        self.accepted = 0
        self.refused = 0
        self.calls = RollingWindow(600)
        self.sends = RollingWindow(60)
        self.recipients = RollingWindow(86_400)
        self.uploaded = RollingWindow(300)
        self._messages: dict[str, StoredMessage] = {}
        self._folders: dict[str, dict[str, StoredMessage]] = {name: {} for name in FOLDERS}

    def enter(self) -> None:
        """One more call is in flight."""
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def leave(self) -> None:
        """One call is over."""
        self.in_flight -= 1

    def folder_id(self, name: str) -> str:
        """Answer the id of the well-known folder ``name``."""
        return base64.urlsafe_b64encode(hashlib.sha256(f"{self.address}/{name}".encode()).digest()).decode()

    def find_folder(self, name_or_id: str) -> str | None:
        """Answer the well-known name behind a name (any case) or an id."""
        if name_or_id.lower() in FOLDERS:
            return name_or_id.lower()
        return next((name for name in FOLDERS if self.folder_id(name) == name_or_id), None)

    def store(self, folder: str, properties: dict[str, Any], visible_from: float = 0.0) -> StoredMessage:
        """Put a new message into ``folder``, unseen before ``visible_from`` (epoch seconds)."""
        message = StoredMessage(properties, folder, _new_id(), _new_id(), visible_from)
        message.attachments = properties.pop("attachments", [])
        self._index(message)
        return message

    def move(self, message: StoredMessage, folder: str, visible_from: float = 0.0) -> None:
        """Move ``message``: it gets a new id and keeps its immutable one."""
        self.remove(message)
        message.folder, message.id, message.visible_from = folder, _new_id(), visible_from
        self._index(message)

    def remove(self, message: StoredMessage) -> None:
        """Delete ``message`` for good."""
        for key in (message.id, message.immutable_id):
            self._messages.pop(key, None)
        self._folders[message.folder].pop(message.immutable_id, None)

    def find(self, message_id: str, now: float) -> StoredMessage | None:
        """Answer the message of either kind of id that can be seen ``now``."""
        message = self._messages.get(message_id)
        return message if message is not None and message.visible_from <= now else None

    def messages(self, folder: str | None, now: float) -> Iterator[StoredMessage]:
        """Walk the messages that can be seen ``now`` in ``folder``, or in all of them."""
        for name in [folder] if folder else FOLDERS:
            for message in self._folders[name].values():
                if message.visible_from <= now:
                    yield message

    def _index(self, message: StoredMessage) -> None:
        self._messages[message.id] = self._messages[message.immutable_id] = message
        self._folders[message.folder][message.immutable_id] = message


def _new_id() -> str:
    return "AAMk" + base64.urlsafe_b64encode(uuid.uuid4().bytes * 3).decode()
