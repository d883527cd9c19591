"""In development and staging nothing reaches a recipient, and what would have can be read."""

from __future__ import annotations

import json
from dataclasses import replace
from email import message_from_bytes, policy
from io import BytesIO

import pytest

from mailers.servers import Script, serving
from rqmail.errors import MailTransientError
from rqmail.mailers.base import Address, MailFile
from rqmail.mailers.factory import MailerFactory
from rqmail.mailers.staging import FolderMailer
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.settings import Settings
from rqmail.text.of_html import text_of_html

FILES = (
    MailFile("factuur é.pdf", "application/pdf", 4, "", lambda: BytesIO(b"%PDF")),
    MailFile("logo.png", "image/png", 1, "", lambda: BytesIO(b"x"), is_inline=True, content_id="logo@x"),
    MailFile("old.eml", "message/rfc822", 4, "", lambda: BytesIO(b"a: b")),
)


@pytest.mark.parametrize("bodies", [{}, {"html": None}, {"text": None}, {"text": None, "html": None}])
def test_a_mail_in_the_folder_is_read_back_whole_by_pythons_own_reader(mail, tmp_path, bodies):
    sender = Address("news@contoso.example", "Nieuws")
    sent = replace(
        mail, files=FILES, reply_to=(Address("r@x.nl"),), importance="high", headers={"X-Order": "7"}, **bodies
    )
    assert FolderMailer(sender, tmp_path / "out").send(sent).status == 202
    [path] = (tmp_path / "out").iterdir()
    assert path.name == f"{mail.id}.eml"
    read = message_from_bytes(path.read_bytes(), policy=policy.default)
    assert [one.addr_spec for one in read["to"].addresses] == [one.address for one in mail.to]
    assert [one.display_name for one in read["to"].addresses] == [one.name for one in mail.to]
    assert read["bcc"].addresses[0].addr_spec == "bcc@example.org"
    assert (str(read["from"]), read["subject"], read["importance"]) == (
        "Nieuws <news@contoso.example>",
        mail.subject,
        "high",
    )
    text = sent.text if sent.text is not None or sent.html is None else text_of_html(sent.html).rstrip()
    for kind, body in (("plain", text), ("html", sent.html)):
        found = read.get_body((kind,))
        assert (found.get_content().rstrip("\r\n") if found else "") == (body or "")
    content = {part.get_filename(): part.get_payload(decode=True) for part in read.walk() if part.get_filename()}
    assert content["factuur é.pdf"] == b"%PDF"
    assert content["old.eml"] == b"a: b"
    assert content.get("logo.png", b"x") == b"x"


def test_a_folder_that_cannot_be_written_to_is_tried_again_later(mail, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MailTransientError, match="RQMAIL_TRANSPORT"):
        FolderMailer(Address("a@x.nl"), tmp_path / "file" / "out").send(mail)


class Mailbox:
    key, address = "news", "news@contoso.example"
    rate_limit_per_minute = rate_limit_recipients_per_day = None


def factory(limiter, **settings):
    return MailerFactory(Settings(_env_file=None, **settings), limiter)


@pytest.fixture
def limiter(redis_url):
    limiter = MailRateLimiter.from_url(redis_url)
    yield limiter
    limiter.close()


def test_mail_of_every_sender_goes_to_the_folder_without_any_provider(limiter, mail, tmp_path):
    made = factory(limiter, transport=f"folder:{tmp_path}")
    made.get_mailer_for_system_mailbox(Mailbox()).send(mail)
    made.get_mailer().send(replace(mail, id="other"))
    assert {path.name for path in tmp_path.iterdir()} == {f"{mail.id}.eml", "other.eml"}


def test_the_console_shows_the_mail_and_names_its_files(limiter, mail, capsys):
    factory(limiter, transport="console").get_mailer().send(replace(mail, files=FILES))
    said = capsys.readouterr().out
    assert "x-rqmail-id" in said
    assert "[factuur é.pdf, application/pdf, 4 bytes]" in said


def test_redirected_mail_goes_to_one_address_and_says_whom_it_was_meant_for(limiter, mail):
    script = Script([(202, {"X-Message-Id": "1"}, b"")])
    with serving(script) as url:
        made = factory(
            limiter, redirect_to="me@x.nl", sendgrid_api_key="SG.key", sendgrid_from="a@x.nl", sendgrid_base_url=url
        )
        made.get_mailer().send(mail)
    asked = json.loads(script.asked[0].body)
    assert asked["personalizations"] == [{"to": [{"email": "me@x.nl"}]}]
    assert asked["subject"] == f"[zoe@example.org, plain@example.org, cc@example.org and 1 more] {mail.subject}"
    assert asked["headers"]["x-rqmail-intended-to"] == (
        "zoe@example.org, plain@example.org, cc@example.org, bcc@example.org"
    )


def test_a_mailbox_s_mail_is_redirected_too(limiter, mail, tmp_path):
    made = factory(limiter, transport=f"folder:{tmp_path}", redirect_to="me@x.nl")
    made.get_mailer_for_system_mailbox(Mailbox()).send(mail)
    read = message_from_bytes((tmp_path / f"{mail.id}.eml").read_bytes(), policy=policy.default)
    assert [one.addr_spec for one in read["to"].addresses] == ["me@x.nl"]
    assert (read["cc"], read["bcc"]) == (None, None)


class Refused:
    def take(self):
        raise LookupError("the claim is not ours any more")


@pytest.mark.parametrize("transport", ["console", "folder"])
def test_nothing_is_written_without_a_permit(limiter, mail, tmp_path, capsys, transport):
    made = factory(limiter, transport="console" if transport == "console" else f"folder:{tmp_path}")
    with pytest.raises(LookupError):
        made.get_mailer().send(replace(mail, permit=Refused()))
    assert (capsys.readouterr().out, list(tmp_path.iterdir())) == ("", [])
