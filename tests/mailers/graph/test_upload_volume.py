"""What a mail uploads, as the mailer knows it to the byte and as a message's row tells it beforehand."""

from __future__ import annotations

import pytest

from rqmail.mailers.base import Address, Mail, MailFile
from rqmail.mailers.graph.upload import upload_volume
from rqmail.models.content import AttachedFile
from support.messages import new_message

MB = 1_000_000


@pytest.mark.parametrize(
    ("sizes", "volume"),
    [
        ((), 0),
        ((2 * MB,), 0),
        ((3 * MB,), 0),
        ((4 * MB,), 4 * MB),
        ((9 * MB, 0), 9 * MB),
        ((2_400_000, 2_400_000), 6_400_000),
        ((150 * MB,), 150 * MB),
    ],
)
def test_a_row_tells_what_its_mail_uploads_as_the_mailer_does(sizes, volume):
    mail = Mail(
        id="m",
        subject="Hello",
        to=(Address("reader0@example.org"),),
        text="Hello there.",
        files=tuple(MailFile("a.pdf", "application/pdf", size, "hash", lambda: None) for size in sizes),
    )
    files = tuple(AttachedFile("a.pdf", "application/pdf", size, "hash", False, None) for size in sizes)
    assert upload_volume(mail) == volume
    assert new_message(attachments=files).upload_bytes == (volume or None)
