"""What the tests of the SMTP door say to it, and what it stored of that."""

from __future__ import annotations

import base64
import socket
from email.message import EmailMessage

from rqmail.models.base import pooled_connection
from rqmail.models.message import Message, MessageContent, Recipient
from smtp.conftest import Listening

FROM = "invoices@contoso.example"


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in ({"From": FROM, "To": "a@x.nl", "Subject": "Factuur 7"} | headers).items():
        message[name.replace("_", "-")] = value
    message.set_content("Zie de bijlage.\n")
    return message


def recipients(message_id: str) -> list[tuple[str, str, str]]:
    with pooled_connection():
        rows = list(Recipient.select().where(Recipient.message == message_id).order_by(Recipient.position))
    return [(row.kind, row.name, row.address) for row in rows]


def stored() -> list[Message]:
    with pooled_connection():
        return list(Message.select().order_by(Message.id))


def content_of(row: Message) -> MessageContent:
    with pooled_connection():
        return MessageContent.get(MessageContent.message == row.id)


def raw(door: Listening, *lines: bytes) -> list[bytes]:
    """What the door answers to all of these at once; the last reply is that to QUIT."""
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(b"\r\n".join([*lines, b"QUIT", b""]))
        said = b""
        while piece := client.recv(65536):
            said += piece
    return [line for line in said.split(b"\r\n") if line and line[3:4] != b"-"]


def plain(token: str) -> bytes:
    return b"AUTH PLAIN " + base64.b64encode(b"\0any\0" + token.encode())
