"""What a message carries beside its text, on its page."""

from __future__ import annotations

import re

import pytest

from rqmail import Draft
from rqmail.intake.attachments import Attachment

PDF = "请 Überweisung & <b>.pdf"


@pytest.fixture
def carried(application, news) -> str:
    """A message that carries everything there is."""
    return application.intake.submit(
        Draft(
            sender=f"mailbox:{news}",
            to="jan@x.nl",
            subject="Factuur",
            html='<img src="cid:logo">',
            attachments=[
                Attachment(PDF, b"%PDF" + b"x" * 2_400_000),
                Attachment("logo.png", b"\x89PNG\r\n\x1a\n", is_inline=True, content_id="logo"),
                Attachment("page.html", b"<script>alert(1)</script>"),
            ],
            reply_to=["Ann <ann@x.nl>"],
            importance="high",
            read_receipt=True,
            delivery_receipt=True,
            headers=[("X-Order", "<i>4711</i>")],
            unsubscribe_url="https://x.nl/u/1",
            from_="Raad <raad@x.nl>",
        )
    )


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("admin", ("2.4 MB", "8 bytes", "shown in the HTML as cid:logo", "Answers go to", "when it is read, when it")),
        ("beheerder", ("2,4 MB", "8 byte", "in de HTML getoond als cid:logo", "Antwoorden gaan naar", "bij het lezen")),
    ],
)
def test_a_message_shows_what_it_carries_in_the_viewers_language(request, carried, who, told):
    page = request.getfixturevalue(who).look(f"/ui/messages/{carried}")
    assert "请 Überweisung &amp; &lt;b&gt;.pdf" in page
    assert "X-Order: &lt;i&gt;4711&lt;/i&gt;" in page
    for text in (*told, "https://x.nl/u/1", "raad@x.nl", "ann@x.nl", "application/pdf"):
        assert text in page


def test_a_message_that_carries_nothing_more_shows_none_of_it(admin, application, news):
    plain = application.intake.submit(Draft(sender="mailbox:news", to="jan@x.nl", subject="Dag", text="Dag"))
    page = admin.look(f"/ui/messages/{plain}")
    for text in ("Files", "Answers go to", "Receipts", "Headers", "Importance"):
        assert text not in page


def test_a_file_is_downloaded_from_the_page_and_never_shown(admin, anyone, carried):
    links = re.findall(r'href="(/ui/messages/[^"]+/attachments/\d)" download', admin.look(f"/ui/messages/{carried}"))
    assert len(links) == 3
    saved = admin.client.get(links[2])
    assert saved.data == b"<script>alert(1)</script>"
    assert saved.headers["Content-Disposition"] == "attachment; filename=page.html"
    assert saved.headers["X-Content-Type-Options"] == "nosniff"
    assert saved.headers["Content-Security-Policy"] == "sandbox"
    assert anyone.get(links[2]).status_code in {302, 303}
    assert admin.client.get(links[2] + "1").status_code == 404
