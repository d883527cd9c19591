"""What a client hands in is what leaves, as a reader sees it that shares no code with ours."""

from __future__ import annotations

import email
import json
from email.header import decode_header, make_header
from email.message import EmailMessage, Message
from email.policy import SMTP
from email.utils import getaddresses
from pathlib import Path

from rqmail.content_store import ContentStore
from rqmail.delivery.composing import composed
from rqmail.mailers.base import Address, Permit
from rqmail.mailers.graph.message import encode_message
from rqmail.mailers.staging import FolderMailer
from rqmail.models.contents import load_contents
from smtp.conftest import Listening
from smtp.talking import FROM, stored


def invoice() -> EmailMessage:
    written = EmailMessage(policy=SMTP)
    written["Date"] = "Wed, 02 Dec 2026 09:30:00 +0530"
    written["Message-ID"] = "<7.2026$b=1@erp.contoso.example>"
    written["From"] = FROM
    written["To"] = 'Zoë Ünsal <z@x.nl>, "Jansen, Jan" <jan@x.nl>, a@x.nl'
    written["Cc"] = "山田 <y@x.jp>, b@x.nl"
    written["Bcc"] = "secret@x.nl"
    written["Reply-To"] = "Vragen <vragen@contoso.example>"
    written["Subject"] = "Factuur № 7 — voor de heer Jansen"
    written["X-Order"] = "4711"
    written.set_content("Zie de bijlage: €\n.\nGroet\n")
    written.add_alternative('<p>Zie <img src="cid:logo@x"> €</p>\n', subtype="html")
    written.get_payload()[1].add_related(b"\x89PNG\r\n\x00", "image", "png", cid="<logo@x>", filename="logo.png")  # type: ignore[union-attr]
    written.add_attachment(b"%PDF\r\n.\r\n\xff", "application", "pdf", filename="factuur é.pdf")
    written.add_attachment(b"", "application", "octet-stream", filename="leeg.bin")
    return written


def seen(mail: bytes) -> dict[str, object]:
    """Read a mail by the older half of Python's package, of which neither our reader nor our writer uses the parts."""
    read = email.message_from_bytes(mail)
    leaves = [part for part in read.walk() if not part.is_multipart()]
    return {
        "once": {name: _text(read[name]) for name in ("Date", "Message-ID", "Subject", "X-Order")},
        "people": {
            name: [(_text(shown), address) for shown, address in getaddresses([read[name]])]
            for name in ("To", "Cc", "Reply-To")
        },
        "parts": sorted((_described(part) for part in leaves), key=str),
    }


def _described(part: Message) -> tuple[object, ...]:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    kind, name = part.get_content_type(), part.get_filename()
    return (kind, name, part["Content-ID"], content.replace(b"\r\n", b"\n") if name is None else content)


def _text(value: str) -> str:
    return str(make_header(decode_header(value)))


def test_what_a_client_hands_in_leaves_as_it_was_and_bcc_is_seen_by_nobody(door: Listening, tmp_path: Path) -> None:
    written = invoice().as_bytes()
    with door.client() as client:
        client.sendmail(FROM, ["jan@x.nl", "b@x.nl", "hidden@x.nl", "a@x.nl", "z@x.nl", "y@x.jp"], written)
    [row] = stored()
    store = ContentStore(door.app.clock)
    mail = composed(row, load_contents([row.id])[row.id], Permit(lambda: None), store)
    FolderMailer(Address(FROM), tmp_path).send(mail)
    left = (tmp_path / f"{row.id}.eml").read_bytes()
    assert seen(left) == seen(written)
    assert b"secret@x.nl" not in left

    said = json.loads(encode_message(mail))["message"]
    assert said["internetMessageId"] == "<7.2026$b=1@erp.contoso.example>"
    assert [one["emailAddress"]["address"] for one in said.pop("bccRecipients")] == ["hidden@x.nl"]
    assert "hidden" not in json.dumps(said)
    assert "secret" not in json.dumps(said)
