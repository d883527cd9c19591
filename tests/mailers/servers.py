"""Small servers that answer exactly what a test says, or misbehave exactly as it says."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Asked:
    """One request a server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclass
class Script:
    """Answers in order, the last one again and again; keeps what was asked."""

    answers: list = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    connections: set = field(default_factory=set)

    def next(self, request: Asked) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        status, headers, body = answer
        return status, headers, body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def serving(script: Script, authority: trustme.CA | None = None) -> Iterator[str]:
    """Serve ``script`` on loopback, over TLS if a certificate authority is given; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.connections.add(self.client_address)
            request = Asked(self.command, self.path, dict(self.headers), body)
            status, headers, content = script.next(request)
            lines = [f"HTTP/1.1 {status} X"]
            if not any(name.lower() in ("content-length", "transfer-encoding") for name in headers):
                lines.append(f"Content-Length: {len(content)}")
            lines += [f"{name}: {value}" for name, value in headers.items()]
            self.wfile.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request, client_address):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def behaving(behaviour: Callable[[socket.socket], None]) -> Iterator[str]:
    """Accept raw connections and hand each to ``behaviour``; yields the http address."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def accept():
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=run, args=(connection,), daemon=True).start()

    def run(connection):
        with connection, suppress(OSError):
            behaviour(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def read_request(connection: socket.socket) -> bytes:
    """Read one whole request with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def reset(connection: socket.socket) -> None:
    """Close with a reset instead of a goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def refused_url() -> str:
    """An address on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def bundle_of(authority: trustme.CA, folder: Path) -> Path:
    """Write the authority's certificate where a CA bundle is expected."""
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path
