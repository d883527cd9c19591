"""Clients as they are: devices and frameworks that take SMTP in their own way."""

from __future__ import annotations

import base64
import socket

import pytest

from smtp.conftest import Listening
from smtp.talking import FROM, content_of, plain, raw, stored


def dialog(door: Listening, *lines: bytes) -> list[bytes]:
    """What the door answers to each of these, sent one after the other."""
    said = []
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client, client.makefile("rb") as answers:
        for line in (b"", *lines):
            client.sendall(line)
            while (answer := answers.readline())[3:4] == b"-":
                pass
            said.append(answer)
    return said[1:]


@pytest.mark.parametrize("end", [b".\n", b".\r\n"])
def test_a_device_that_never_sends_a_cr_ends_its_mail_without_one(door: Listening, end: bytes) -> None:
    begin = [b"EHLO x\n", plain(door.token) + b"\n", f"MAIL FROM:<{FROM}>\n".encode(), b"RCPT TO:<a@x.nl>\n", b"DATA\n"]
    said = dialog(door, *begin, b"Subject: Caf\xe9\n\n..scan\n" + b"x" * 70_000 + b"\n" + end, b"NOOP\n")
    assert [line[:3] for line in said] == [b"250", b"235", b"250", b"250", b"354", b"250", b"250"]
    [row] = stored()
    assert row.subject == "Café"
    assert content_of(row).text == ".scan\n" + "x" * 70_000 + "\n"


@pytest.mark.parametrize("end", [b"\n.\n", b"\n.\r\n", b"\r\n.\n"])
def test_what_a_relay_passes_on_ends_at_no_bare_line_feed(door: Listening, end: bytes) -> None:
    smuggled = f"MAIL FROM:<{FROM}>\r\nRCPT TO:<b@x.nl>\r\nDATA\r\nSubject: smuggled\r\n\r\nx".encode()
    said = raw(
        door, b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>".encode(), b"RCPT TO:<a@x.nl>", b"DATA",
        b"Subject: one\r\n\r\nhello" + end + smuggled, b".",
    )  # fmt: skip
    assert [line[:3] for line in said[-2:]] == [b"250", b"221"]
    assert [row.subject for row in stored()] == ["one"]


@pytest.mark.parametrize("word", ["login", "Login", "LOGIN"])
def test_a_mechanism_is_known_in_any_case_as_dotnet_writes_it(door: Listening, word: str) -> None:
    name, password = base64.b64encode(b"erp"), base64.b64encode(door.token.encode())
    said = dialog(door, b"EHLO x\r\n", f"AUTH {word} ".encode() + name + b"\r\n", password + b"\r\n")
    assert [line[:3] for line in said] == [b"250", b"334", b"235"]


@pytest.mark.parametrize("behind", [" SIZE=20 AUTH=<>", " auth=erp+40x BODY=8BITMIME", " SMTPUTF8 AUTH=a@x.nl"])
def test_a_relay_may_say_on_whose_behalf_it_sends(door: Listening, behind: str) -> None:
    assert raw(door, b"EHLO x", plain(door.token), f"MAIL FROM:<{FROM}>{behind}".encode())[3].startswith(b"250 2.1.0")


def test_an_empty_answer_to_sign_in_with_is_a_wrong_token(door: Listening) -> None:
    assert raw(door, b"EHLO x", b"AUTH PLAIN =")[2].startswith(b"535 5.7.8")
