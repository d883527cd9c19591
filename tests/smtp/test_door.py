"""What clients are answered, and that 250 means a stored row."""

from __future__ import annotations

import base64
import hashlib
import json
import smtplib
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network

import peewee
import pytest

from rqmail.delivery.leaving_out import NobodyLeftError, without_suppressed
from rqmail.models.attachments import MessageAttachment
from rqmail.models.base import pooled_connection
from rqmail.models.contents import is_raw, load_contents
from rqmail.models.message import Message
from rqmail.smtp.certificate import Certificate
from rqmail.smtp.connection import MAX_CONNECTIONS_OF_ONE, Guests
from smtp.conftest import Authority, Listening
from smtp.talking import FROM, content_of, mail, plain, raw, recipients, stored

on_both = pytest.mark.parametrize("application", ["sqlite", "postgresql"], indirect=True)


@on_both
def test_a_mail_is_stored_with_what_it_says_before_250_is_said(door: Listening) -> None:
    written = mail(To="Zoë de Vries <zoe@x.nl>, b@x.nl", Cc='"Jansen, \\"J\\"" <c@x.nl>', Reply_To="r@x.nl")
    written.add_alternative('<p>Zie <img src="cid:logo@x"></p>', subtype="html")
    written.get_payload()[1].add_related(b"\x89PNG", "image", "png", cid="<logo@x>", filename="logo.png")  # type: ignore[union-attr]
    written.add_attachment(b"%PDF", "application", "pdf", filename="factuur é.pdf")
    with door.client() as client:
        assert client.send_message(written, FROM, ["zoe@x.nl", "b@x.nl", "C@x.nl", "hidden@x.nl"]) == {}
    [row] = stored()
    assert (row.sender, row.subject, row.recipient_count) == ("mailbox:invoices", "Factuur 7", 4)
    assert recipients(row.id) == [
        ("to", "Zoë de Vries", "zoe@x.nl"),
        ("to", "", "b@x.nl"),
        ("cc", 'Jansen, "J"', "c@x.nl"),
        ("bcc", "", "hidden@x.nl"),
    ]
    content = content_of(row)
    assert content.text == "Zie de bijlage.\n"
    assert content.html == '<p>Zie <img src="cid:logo@x"></p>\n'
    with pooled_connection():
        files = list(MessageAttachment.select().where(MessageAttachment.message == row.id))
    assert [(one.name, one.content_type, one.size, one.is_inline) for one in files] == [
        ("logo.png", "image/png", 4, True),
        ("factuur é.pdf", "application/pdf", 4, False),
    ]


def test_what_is_announced_is_true(door: Listening) -> None:
    with door.client(sign_in=False) as client:
        client.ehlo()
        said = client.esmtp_features
        assert said["size"] == "300000"
        assert {"8bitmime", "smtputf8", "pipelining", "enhancedstatuscodes", "auth"} <= set(said)
        assert sorted(said["auth"].split()) == ["LOGIN", "PLAIN"]
        assert "starttls" not in said


def test_commands_may_be_sent_without_waiting_for_answers(door: Listening) -> None:
    said = raw(
        door, b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA",
        b"Subject: one", b"", b"..a dot", b"a dot at the end.", b".",
        f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA", b".",
    )  # fmt: skip
    assert [line[:9] for line in said] == [
        b"220 " + said[0][4:9], b"250 HELP", b"235 2.7.0", b"250 2.1.0", b"250 2.1.5", b"354 End d", b"250 2.0.0",
        b"250 2.1.0", b"250 2.1.5", b"354 End d", b"554 5.6.0", b"221 2.0.0",
    ]  # fmt: skip
    [row] = stored()
    assert content_of(row).text == ".a dot\na dot at the end.\n"


def test_a_printers_mail_is_taken_as_it_is(door: Listening) -> None:
    said = raw(
        door, b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA",
        b"From: printer\nSubject: Caf\xe9\nTo: a@x.nl\n\n" + b"a long line " * 20_000 + b"\n.\nscan\n", b".",
    )  # fmt: skip
    assert said[-2].startswith(b"250 2.0.0")
    [row] = stored()
    assert row.subject == "Café"
    assert content_of(row).text.endswith("\n.\nscan\n\n")


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (b"MAIL FROM:<nobody@contoso.example>", b"550 5.7.1"),
        (b"MAIL FROM:<>", b"550 5.7.1"),
        (b"MAIL FROM:<", b"553 5.1.3"),
        (f"MAIL FROM:<{FROM}> SIZE=300001".encode(), b"552 5.3.4"),
        (b"RCPT TO:<a@x.nl>", b"503 5.5.1"),
        (b"DATA", b"503 5.5.1"),
        (b"VRFY a@x.nl", b"252 "),
        (b"NONSENSE", b"500 5.5.2"),
        (b"AUTH PLAIN", b"503 5.5.1"),
        (b"STARTTLS", b"454 4.7.0"),
    ],
)
def test_a_command_that_cannot_be_done_is_refused_with_its_code(door: Listening, command: bytes, reply: bytes) -> None:
    assert raw(door, b"EHLO x", plain(door.token), command)[3].startswith(reply)


@pytest.mark.parametrize("address", [b"no address", b"a@", b"a b@x.nl", b"\xff@x.nl", b"a@x..nl"])
def test_a_recipient_that_is_none_is_refused(door: Listening, address: bytes) -> None:
    said = raw(door, b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<" + address + b">")
    assert said[4][:3] in {b"553", b"501"}


def test_too_many_recipients_are_refused_for_now(door: Listening) -> None:
    with door.client() as client:
        refused = client.sendmail(FROM, [f"a{number}@x.nl" for number in range(503)], mail().as_bytes())
    assert {code for code, _ in refused.values()} == {452}
    assert len(refused) == 3
    assert stored()[0].recipient_count == 500


def test_a_mail_that_is_too_large_is_refused_and_the_connection_goes_on(door: Listening) -> None:
    with door.client() as client:
        client.ehlo()
        client.mail(FROM)
        client.rcpt("a@x.nl")
        code, text = client.data(b"Subject: x\r\n\r\n" + b"x" * 70 + b"\r\n" + b"y" * 300_000)
        assert (code, text[:5]) == (552, b"5.3.4")
        client.send_message(mail())
    assert len(stored()) == 1


@pytest.mark.parametrize("password", ["", "wrong", "é", "rqm_" + "x" * 43])
def test_a_wrong_token_is_refused(door: Listening, password: str) -> None:
    with door.client(sign_in=False) as client:
        client.ehlo()
        code, _ = client.docmd("AUTH", "PLAIN " + base64.b64encode(b"\0a\0" + password.encode()).decode())
        assert code == 535
        assert client.mail(FROM)[0] == 530
        assert client.login("whoever", door.token)[0] == 235


@pytest.mark.parametrize("mechanism", ["plain", "login"])
def test_a_token_signs_in_by_either_mechanism(door: Listening, mechanism: str) -> None:
    with door.client(sign_in=False) as client:
        client.ehlo()
        client.user, client.password = "anyone", door.token
        assert client.auth(mechanism, getattr(client, f"auth_{mechanism}"), initial_response_ok=False)[0] == 235


def test_a_token_needs_the_scope_send(door: Listening) -> None:
    token = door.app.access.create("monitor", ["read"], by="test")[1]
    with door.client(sign_in=False) as client, pytest.raises(smtplib.SMTPAuthenticationError, match="scope send"):
        client.login("x", token)


def test_a_token_bound_to_mailboxes_sends_from_these_alone(door: Listening) -> None:
    token = door.app.access.create("printer", ["send"], by="test", mailboxes=["news"])[1]
    with door.client(sign_in=False) as client:
        client.login("x", token)
        with pytest.raises(smtplib.SMTPSenderRefused, match=r"5\.7\.1"):
            client.send_message(mail())
        client.send_message(mail(From="news@contoso.example"))
    assert [row.sender for row in stored()] == ["mailbox:news"]


def test_a_token_that_is_revoked_sends_no_more_on_a_connection_it_opened(door: Listening) -> None:
    token = door.app.access.create("printer", ["send"], by="test")[1]
    with door.client(sign_in=False) as client, door.client(sign_in=False) as half_way:
        for one in (client, half_way):
            one.login("x", token)
        half_way.docmd("MAIL", f"FROM:<{FROM}>")
        half_way.docmd("RCPT", "TO:<a@x.nl>")
        half_way.docmd("DATA")
        door.app.access.revoke("printer")
        with pytest.raises(smtplib.SMTPSenderRefused, match=r"530|5\.7\.0"):
            client.send_message(mail())
        assert client.login("x", door.token)[0] == 235
        half_way.send(b"Subject: late\r\n\r\nx\r\n.\r\n")
        assert half_way.getreply()[0] == 530
    assert stored() == []


@pytest.mark.parametrize(("name", "may"), [("bound", False), ("free", True)])
def test_a_bound_token_writes_in_the_name_of_no_other_mailbox(door: Listening, name: str, may: bool) -> None:
    mailboxes = ["news"] if name == "bound" else []
    token = door.app.access.create(name, ["send"], by="test", mailboxes=mailboxes)[1]
    with door.client(sign_in=False) as client:
        client.login("x", token)
        written = mail(From="Invoices <invoices@CONTOSO.example>")
        if may:
            client.send_message(written, "news@contoso.example", ["a@x.nl"])
        else:
            with pytest.raises(smtplib.SMTPDataError, match=r"5\.7\.1"):
                client.send_message(written, "news@contoso.example", ["a@x.nl"])
        client.send_message(mail(From="boss@elsewhere.example"), "news@contoso.example", ["a@x.nl"])
    assert len(stored()) == 1 + may


def test_what_is_said_before_tls_is_not_heard_after_it(opened: Callable[..., Listening], authority: Authority) -> None:
    door = opened(Certificate(authority.file, None))
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(b"EHLO x\r\nSTARTTLS\r\nEHLO injected\r\nMAIL FROM:<a@x.nl>\r\n")
        said = b""
        while b"start TLS\r\n" not in said:
            said += client.recv(1)
        with authority.trust.wrap_socket(client, server_hostname="localhost") as secure:
            secure.sendall(b"NOOP\r\nMAIL FROM:<b@x.nl>\r\nQUIT\r\n")
            said = b""
            while piece := secure.recv(1000):
                said += piece
    assert [line[:3] for line in said.splitlines()] == [b"250", b"503", b"221"]  # 503: nobody has said EHLO


@on_both
def test_a_mail_that_comes_again_is_stored_once_and_other_recipients_are_another_mail(door: Listening) -> None:
    same = mail(Message_ID="<7@erp.example>")
    with door.client() as client:
        client.send_message(same)
        client.send_message(same)
        client.send_message(same, FROM, ["other@x.nl"])
        client.send_message(mail())
        client.send_message(mail())
    assert len(stored()) == 4
    door.app.clock.advance(hours=25)  # type: ignore[attr-defined]
    with door.client() as client:
        client.send_message(same)
    assert len(stored()) == 5


def test_while_the_database_is_away_nothing_is_said_to_be_stored(
    door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise peewee.OperationalError("server closed the connection unexpectedly")

    with door.client() as client:
        client.mail(FROM)
        client.rcpt("a@x.nl")
        monkeypatch.setattr("rqmail.intake.draft.Intake.store", away)
        code, text = client.data(mail().as_bytes())
        assert (code, text[:5]) == (451, b"4.3.0")
        monkeypatch.undo()
        client.send_message(mail())
    assert len(stored()) == 1


def test_what_json_cannot_say_is_taken_as_it_came(door: Listening) -> None:
    signed = b"From: a@x.nl\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n"
    with door.client() as client:
        client.sendmail(FROM, ["a@x.nl"], signed)
    [message] = stored()
    assert is_raw(message.id)


def test_no_client_takes_more_than_its_share_of_connections() -> None:
    guests = Guests()
    assert all(guests.admit("10.0.0.1") for _ in range(MAX_CONNECTIONS_OF_ONE))
    assert not guests.admit("10.0.0.1")
    assert guests.admit("10.0.0.2")
    guests.gone("10.0.0.1")
    assert guests.admit("10.0.0.1")
    assert sum(guests.admit(f"10.1.0.{number}") for number in range(256)) == 200 - MAX_CONNECTIONS_OF_ONE - 1


def test_a_client_that_goes_on_far_beyond_the_limit_is_hung_up_on(door: Listening) -> None:
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        lines = [b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA", b""]
        client.sendall(b"\r\n".join(lines))
        said = b""
        with suppress(OSError):
            for _ in range(100):
                client.sendall(b"x" * 20_000)
        with suppress(OSError):
            while piece := client.recv(65536):
                said += piece
    assert b"552 5.3.4" in said
    assert stored() == []


def test_one_client_too_many_is_told_so_and_served_when_another_has_gone(
    door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqmail.smtp.connection.MAX_CONNECTIONS_OF_ONE", 1)
    with door.client(), pytest.raises(smtplib.SMTPConnectError, match="421"), door.client():
        pass
    for _ in range(100):  # until the first has been seen to go
        with suppress(smtplib.SMTPConnectError), door.client() as client:
            client.send_message(mail())
            break
    assert len(stored()) == 1


def test_a_silent_client_is_hung_up_on(opened: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rqmail.smtp.connection.IDLE_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", opened().port), timeout=10) as client:
        while client.recv(1000):
            pass


def test_a_mail_that_is_half_taken_is_finished_when_the_process_is_told_to_end(door: Listening) -> None:
    with door.client() as client:
        client.mail(FROM)
        client.rcpt("a@x.nl")
        assert client.docmd("DATA")[0] == 354
        client.send(b"Subject: half")
        door.stop()
        client.send(b" a mail\r\n\r\nx\r\n.\r\n")
        assert client.getreply()[0] == 250
    assert [row.subject for row in stored()] == ["half a mail"]


def test_a_sender_is_known_in_any_case(door: Listening) -> None:
    with door.client() as client:
        client.send_message(mail(), "INVOICES@Contoso.Example")
    assert [row.sender for row in stored()] == ["mailbox:invoices"]


def extras_of(row: Message) -> dict[str, object]:
    return json.loads(content_of(row).extras or "{}")


def test_headers_that_no_mail_may_carry_are_left_out_and_the_others_come_along(door: Listening) -> None:
    written = mail(X_Order="7", References="<1@x>", X_MS_Exchange_Organization_SCL="-1", Reply_To="the printer")
    written["X-Long"] = "x" * 1200
    written["X-Twice"], written["X-Empty"] = "first", ""
    written["X-Twice"] = "second"
    with door.client() as client:
        client.send_message(written)
    [row] = stored()
    assert extras_of(row) == {"headers": [["X-Order", "7"], ["References", "<1@x>"], ["X-Twice", "first"]]}


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        (f"ERP <{FROM}>", None),
        ("Team <team@contoso.example>", ["team@contoso.example", "Team"]),
        ("printer", None),
    ],
)
def test_a_from_that_is_not_the_mailbox_is_kept_as_whom_the_mail_is_from(
    door: Listening, named: str, kept: list[str] | None
) -> None:
    with door.client() as client:
        client.sendmail(FROM, ["a@x.nl"], f"From: {named}\r\nSubject: s\r\n\r\nx".encode())
    assert extras_of(stored()[0]).get("from") == kept


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_over_starttls_a_mail_goes_in_as_without(opened: Callable[..., Listening], authority: Authority) -> None:
    door = opened(Certificate(authority.file, None))
    with door.client(sign_in=False) as client:
        client.starttls(context=authority.trust)
        client.login("x", door.token)
        client.send_message(mail())
    assert len(stored()) == 1


def test_tls_from_the_first_byte_on(opened: Callable[..., Listening], authority: Authority) -> None:
    door = opened(Certificate(authority.file, None), implicit_tls=True)
    with smtplib.SMTP_SSL("localhost", door.port, timeout=10, context=authority.trust) as client:
        client.login("x", door.token)
        client.send_message(mail())
    assert len(stored()) == 1


def test_without_tls_a_token_is_taken_from_trusted_addresses_alone(
    opened: Callable[..., Listening], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = opened(Certificate(authority.file, None))
    monkeypatch.setattr("rqmail.smtp.connection.Guests.trusts", lambda _self, _address: False)
    with door.client(sign_in=False) as client:
        client.ehlo()
        assert "auth" not in client.esmtp_features
        assert client.docmd("AUTH", "PLAIN " + base64.b64encode(b"\0a\0" + door.token.encode()).decode())[0] == 538
        client.starttls(context=authority.trust)
        assert client.login("x", door.token)[0] == 235


def test_a_changed_certificate_is_used_for_the_next_connection(
    opened: Callable[..., Listening], authority: Authority
) -> None:
    certificate = Certificate(authority.file, None)
    door = opened(certificate, implicit_tls=True)

    def presented() -> str:
        with (
            socket.create_connection(("127.0.0.1", door.port), timeout=10) as plain_socket,
            authority.trust.wrap_socket(plain_socket, server_hostname="localhost") as secure,
        ):
            return hashlib.sha256(secure.getpeercert(binary_form=True) or b"").hexdigest()

    first = presented()
    authority.issue()
    assert certificate.look()
    assert presented() != first
    authority.file.write_text("no certificate")
    assert not certificate.look()
    presented()


@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("?", False),
    ],
)
def test_loopback_and_named_networks_are_trusted(address: str, trusted: bool) -> None:
    assert Guests((ip_network("10.0.0.0/8"),)).trusts(address) is trusted


def test_what_one_should_know_of_a_mail_is_in_the_log_beside_its_id(
    door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[dict[str, object]] = []
    monkeypatch.setattr("rqmail.smtp.door.log.info", lambda event, **fields: heard.append({"event": event} | fields))
    sent = mail()
    sent.add_attachment(b"MZ", "application", "x-msdownload", filename="run.exe")
    with door.client() as client:
        client.send_message(sent, FROM, ["a@x.nl"])
    [told] = [one for one in heard if one["event"] == "smtp.accepted"]
    assert told["messageUuid"] == stored()[0].id
    assert told["notices"] == ["Exchange or Outlook may keep run.exe from who receives it: its type is blocked"]


def test_who_is_suppressed_is_left_out_and_a_mail_for_nobody_else_is_taken_and_ends_saying_so(door: Listening) -> None:
    door.app.suppressions.add("b@x.nl", source="test")
    with door.client() as client:
        assert client.send_message(mail(), FROM, ["a@x.nl", "B@x.nl"]) == {}
        assert client.send_message(mail(Subject="Factuur 8"), FROM, ["b@x.nl"]) == {}
    some, nobody = stored()
    assert recipients(some.id) == [("to", "", "a@x.nl")]
    assert recipients(nobody.id) == [("bcc", "", "b@x.nl")]
    with pytest.raises(NobodyLeftError, match=r"every recipient is suppressed: b@x\.nl"):
        without_suppressed(nobody, load_contents([nobody.id])[nobody.id], door.app.clock())


def test_a_mail_that_people_need_says_in_a_header_that_it_goes_to_who_unsubscribed(door: Listening) -> None:
    door.app.suppressions.add("b@x.nl", reason="unsubscribe", source="test")
    with door.client() as client:
        assert client.send_message(mail(X_RQMail_Ignore_Unsubscribed="yes"), FROM, ["a@x.nl", "b@x.nl"]) == {}
    [row] = stored()
    assert {address for _, _, address in recipients(row.id)} == {"a@x.nl", "b@x.nl"}
    extras = load_contents([row.id])[row.id].extras
    assert (extras.ignore_unsubscribed, extras.headers) == (True, ())
