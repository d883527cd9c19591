"""What the HTTP API takes in: single messages of eight clients, and batches of a thousand.

Single messages against Flask and waitress with a handler that reads the JSON and writes the same rows, nothing checked;
a batch against the same messages imported from a CSV file. Clients and servers are processes of their own.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time

from flask import Flask, Response, request
from waitress import serve

from bench.imports import bare_rows, write_csv
from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, add_mailboxes, free_port, new_message, system
from rqmail.bootstrap import Application, build
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.message import Message, MessageContent, Recipient
from rqmail.settings import load_settings

NAME = "api"
CLIENTS = 8
_TOKEN = "a-token-for-nothing-but-a-bench-0123456789"


def run(quick: bool) -> list[Row]:
    """Hand the same messages to both, in turns."""
    single, batches, each, rounds = (40, 1, 100, 1) if quick else (2_000, 5, 1_000, 3)
    with system("sqlite" if quick else "postgresql") as parts:
        app = parts.application()
        add_mailboxes(1)
        ours, bare = free_port(), free_port()
        parts.process("-m", "rqmail.cli", "web", "--port", str(ours), RQMAIL_ADMIN_TOKEN=_TOKEN)
        parts.process("-m", "bench.api", "serve", str(bare))
        parts.wait_for_port(ours)
        parts.wait_for_port(bare)
        _post(ours, CLIENTS, 1)
        one = in_turns(rounds, lambda: _post(ours, single, 1), lambda: _post(bare, single, 1))
        many = in_turns(rounds, lambda: _post(ours, batches, each), lambda: _import(parts, app, batches * each))
    return [
        Row.judged(
            NAME, f"POST /messages a second, each committed, {CLIENTS} clients", one.ours, "per second",
            reference=one.reference, ratio=one.ratio, at_least=0.5,
            note=f"against Flask and waitress with the bare insert; {single} messages, {rounds} rounds",
        ),
        Row.judged(
            NAME, f"messages a second in batches of {each:,}", many.ours, "per second", reference=many.reference,
            ratio=many.ratio, at_least=0.5, note=f"against an import of as many; {batches} batches, {rounds} rounds",
        ),
    ]  # fmt: skip


def _post(port: int, requests: int, each: int) -> float:
    tell(f"{NAME}: {requests} requests with {each} messages each")
    before = _count()
    child = subprocess.run(
        [sys.executable, "-m", "bench.api", "post", str(port), str(requests), str(each)],
        stdout=subprocess.PIPE, check=True, timeout=600,
    )  # fmt: skip
    if (stored := _count() - before) != requests * each:
        raise RuntimeError(f"{stored} of {requests * each} messages were stored")
    return float(json.loads(child.stdout))


def _import(parts: System, app: Application, messages: int) -> float:
    tell(f"{NAME}: importing {messages} messages")
    file = write_csv(parts, messages)
    began = time.perf_counter()
    with file.open("rb") as opened:
        app.imports.take(opened, "mailbox:m0", name=f"{time.monotonic_ns()}.csv")
    return messages / (time.perf_counter() - began)


def _count() -> int:
    with pooled_connection():
        return Message.select().count()


def _clients(port: int, requests: int, each: int) -> None:
    """Be all clients, each with one connection; print the messages a second."""
    new = new_message("mailbox:m0", 0)
    mail = {"mailbox": "m0", "to": [f"{to.name} <{to.address}>" for to in new.recipients], "html": new.html}
    mails = [mail | {"subject": f"{new.subject} {number}"} for number in range(each)]
    body = json.dumps(mails[0] if each == 1 else {"messages": mails}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_TOKEN}"}
    left, lock = iter(range(requests)), threading.Lock()
    failed: list[str] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not failed:
            with lock:
                if next(left, None) is None:
                    return
            connection.request("POST", "/messages", body, headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 201:
                failed.append(f"{answer.status} {said[:300]!r}")

    threads = [threading.Thread(target=client) for _ in range(CLIENTS if each == 1 else 1)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise RuntimeError(failed[0])
    print(json.dumps(requests * each / (time.perf_counter() - began)))


def _serve(port: int) -> None:
    """Be the bare server."""
    build(load_settings())
    server = Flask(__name__)

    @server.post("/messages")
    def submit() -> Response:
        asked = request.get_json()
        message, content, recipient = bare_rows(0)
        with transaction():
            Message.insert(message | {"subject": asked["subject"]}).execute()
            MessageContent.insert(content | {"html": asked["html"]}).execute()
            Recipient.insert(recipient | {"address": asked["to"][0]}).execute()
        return Response(json.dumps({"ids": [message["id"]]}), 201, content_type="application/json")

    serve(server, host="127.0.0.1", port=port, threads=CLIENTS, _quiet=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(int(sys.argv[2]))
    else:
        _clients(*map(int, sys.argv[2:5]))
