"""What one client may take: bytes of a mail, time, connections."""

from __future__ import annotations

import smtplib
import socket
from collections.abc import Callable

import peewee
import pytest

from rqmail.smtp.certificate import Certificate
from smtp.conftest import Authority, Listening
from smtp.talking import FROM, mail, plain, raw, stored

NEWS = "news@contoso.example"


@pytest.fixture
def own_bounds(door: Listening) -> Listening:
    """``invoices`` may send less than the setting says, ``news`` more."""
    for key, most in (("invoices", 100_000), ("news", 400_000)):
        door.app.mailboxes.set(key, max_message_bytes=most)
    return door


def test_the_largest_bound_of_any_mailbox_is_announced(own_bounds: Listening) -> None:
    with own_bounds.client(sign_in=False) as client:
        client.ehlo()
        assert client.esmtp_features["size"] == "400000"


@pytest.mark.parametrize(("sender", "most"), [(FROM, 100_000), (NEWS, 400_000)])
def test_a_mail_may_be_as_large_as_its_mailbox_may_send(own_bounds: Listening, sender: str, most: int) -> None:
    with own_bounds.client() as client:
        client.ehlo()
        assert client.docmd(f"MAIL FROM:<{sender}> SIZE={most + 1}")[1].startswith(b"5.3.4")
        assert client.docmd(f"MAIL FROM:<{sender}> SIZE={most}")[0] == 250
        client.rcpt("a@x.nl")
        begin = b"Subject: s\r\n\r\n"
        assert client.data(begin + b"x" * (most - len(begin)))[0] == 552
        client.mail(sender)
        client.rcpt("a@x.nl")
        assert client.data(begin + b"x" * (most - len(begin) - 2))[0] == 250
    assert len(stored()) == 1


def test_while_the_database_is_away_a_client_is_still_told_how_large_a_mail_may_be(
    door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        raise peewee.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr("rqmail.intake.draft.largest_message_bytes", away)
    with door.client(sign_in=False) as client:
        client.ehlo()
        assert client.esmtp_features["size"] == "300000"


def until_hung_up_on(client: socket.socket, says: bytes) -> bytes:
    """Say the same again and again, and answer what was said to it at last."""
    client.settimeout(0.02)
    heard = b""
    while True:
        try:
            client.sendall(says)
            piece = client.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            return heard
        if not piece:
            return heard
        heard += piece


def test_a_client_that_does_not_sign_in_is_hung_up_on_whatever_it_says(
    opened: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqmail.smtp.connection.IDLE_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", opened().port), timeout=10) as client:
        assert b"421 4.4.2" in until_hung_up_on(client, b"NOOP\r\n")


def test_a_mail_that_comes_drop_by_drop_is_hung_up_on(
    opened: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqmail.smtp.connection.IDLE_SECONDS", 0.5)
    door = opened()
    lines = [b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA", b""]
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(b"\r\n".join(lines))
        assert b"421 4.4.2" in until_hung_up_on(client, b"a sentence.\r\n")
    assert stored() == []


def test_a_client_that_reads_nothing_is_hung_up_on(
    opened: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqmail.smtp.connection.IDLE_SECONDS", 0.2)
    monkeypatch.setattr("rqmail.smtp.connection._FAREWELL_SECONDS", 0.1)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(("127.0.0.1", opened().port))
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            while True:
                client.sendall(b"EHLO x\r\n" * 1000)


def test_a_mail_that_finds_no_space_is_read_to_its_end_and_refused_for_now(
    door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.write", full)
    said = raw(
        door, b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA",
        b"Subject: s", b"", b"MAIL FROM:<x@y.nl>", b".",
    )  # fmt: skip
    assert [line[:9] for line in said[-3:]] == [b"354 End d", b"452 4.3.1", b"221 2.0.0"]
    monkeypatch.undo()
    with door.client() as client:
        client.send_message(mail())
    assert len(stored()) == 1


def test_a_certificate_whose_key_is_not_there_yet_leaves_the_old_one_in_use(
    opened: Callable[..., Listening], authority: Authority
) -> None:
    key = authority.file.with_name("key.pem")
    issued = authority.ca.issue_cert("127.0.0.1", "localhost")
    issued.cert_chain_pems[0].write_to_path(str(authority.file))
    issued.private_key_pem.write_to_path(str(key))
    certificate = Certificate(authority.file, key)
    door = opened(certificate, implicit_tls=True)
    renewed = authority.ca.issue_cert("127.0.0.1", "localhost")
    renewed.cert_chain_pems[0].write_to_path(str(authority.file))
    assert not certificate.look()
    for _ in range(2):
        with smtplib.SMTP_SSL("localhost", door.port, timeout=10, context=authority.trust) as client:
            assert client.noop()[0] == 250
        renewed.private_key_pem.write_to_path(str(key))
        certificate.look()
