"""What the SMTP door takes in a second, each mail committed, against aiosmtpd with a handler that writes nothing.

Eight clients, each with one connection and one mail after the other; they and both servers are processes of their own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import subprocess
import sys
import threading
import time

from aiosmtpd.smtp import SMTP

from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import add_mailboxes, free_port, new_message, system
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message

NAME = "smtp"
CLIENTS = 8


def run(quick: bool) -> list[Row]:
    """Hand the same mails to both, in turns."""
    mails, rounds = (80, 1) if quick else (2_000, 5)
    with system("sqlite" if quick else "postgresql") as parts:
        app = parts.application()
        add_mailboxes(100)
        token = app.access.create("bench", ["send"], by="bench")[1]
        ours, bare = free_port(), free_port()
        parts.process("-m", "rqmail.cli", "smtp", "--port", str(ours))
        parts.process("-m", "bench.smtp", "serve", str(bare))
        parts.wait_for_port(ours)
        parts.wait_for_port(bare)
        _send(ours, token, CLIENTS)
        compared = in_turns(rounds, lambda: _stored(ours, token, mails), lambda: _send(bare, "", mails))
    return [
        Row.judged(
            NAME, f"mails a second over SMTP, each committed, {CLIENTS} clients", compared.ours, "per second",
            reference=compared.reference, ratio=compared.ratio, at_least=0.3,
            note=f"against aiosmtpd with a handler that writes nothing; {mails} mails, {rounds} rounds",
        )
    ]  # fmt: skip


def _stored(port: int, token: str, mails: int) -> float:
    before = _count()
    rate = _send(port, token, mails)
    if _count() - before != mails:
        raise RuntimeError(f"{_count() - before} of {mails} mails were stored")
    return rate


def _count() -> int:
    with pooled_connection():
        return Message.select().count()


def _send(port: int, token: str, mails: int) -> float:
    tell(f"{NAME}: {mails} mails to {'ours' if token else 'the bare server'}")
    child = subprocess.run(
        [sys.executable, "-m", "bench.smtp", "send", str(port), str(mails), token],
        stdout=subprocess.PIPE, check=True, timeout=600,
    )  # fmt: skip
    return float(json.loads(child.stdout))


def _clients(port: int, mails: int, token: str) -> None:
    """Be all clients: sign in, then send when all have; print the mails a second."""
    ready, over = threading.Barrier(CLIENTS + 1), threading.Barrier(CLIENTS + 1)
    failed: list[BaseException] = []

    def client(number: int) -> None:
        try:
            with _Client(port, token) as one:
                ready.wait(60)
                for nth in range(number, mails, CLIENTS):
                    one.send(nth)
        except BaseException as error:
            failed.append(error)
            ready.abort()
        over.wait(600)

    for number in range(CLIENTS):
        threading.Thread(target=client, args=(number,), daemon=True).start()
    ready.wait(60)
    began = time.perf_counter()
    over.wait(600)
    if failed:
        raise failed[0]
    print(json.dumps(mails / (time.perf_counter() - began)))


class _Client:
    """A client that is as cheap as can be: what is measured is the server."""

    def __init__(self, port: int, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._answers = self._socket.makefile("rb")
        self._expect(b"220")
        self._say(b"EHLO bench\r\n", b"250")
        if token:
            self._say(b"AUTH PLAIN " + base64.b64encode(b"\0bench\0" + token.encode()) + b"\r\n", b"235")

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, number: int) -> None:
        """Send one mail."""
        sender = f"m{number % 100}@contoso.example"
        self._say(f"MAIL FROM:<{sender}>\r\n".encode(), b"250")
        self._say(b"RCPT TO:<a@example.com>\r\n", b"250")
        self._say(b"DATA\r\n", b"354")
        head = (
            f"From: {sender}\r\nTo: =?utf-8?q?Zo=C3=AB?= <a@example.com>\r\nSubject: Uitnodiging {number}\r\n"
            f"Message-ID: <{number}.{time.monotonic_ns()}@bench>\r\nMIME-Version: 1.0\r\n"
            "Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
        )
        self._say(head.encode() + _BODY + b"\r\n.\r\n", b"250")

    def _say(self, line: bytes, expected: bytes) -> None:
        self._socket.sendall(line)
        self._expect(expected)

    def _expect(self, code: bytes) -> None:
        while (answer := self._answers.readline())[3:4] == b"-":
            pass
        if not answer.startswith(code):
            raise RuntimeError(f"{code!r} was expected, not {answer!r}")


_BODY = (new_message("mailbox:m0", 0).html or "").replace("</p>", "</p>\r\n").encode()


class _TakesAll:
    """The handler of the bare server."""

    async def handle_DATA(self, _server: object, _session: object, _envelope: object) -> str:
        return "250 OK"


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(_TakesAll()), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(_serve(int(sys.argv[2])))
    else:
        _clients(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
