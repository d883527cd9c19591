"""Connections that say nothing, or say it byte by byte, on the real server: everybody else is answered meanwhile."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from rqmail.web import channels

Opener = Callable[..., Any]


def answering(_environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@pytest.fixture
def serving() -> Iterator[Opener]:
    """Serve on loopback with these options, in a thread; answers the server and its port."""
    with ExitStack() as ending:

        def serve(**options: Any) -> tuple[Any, int]:
            server = channels.create(answering, host="127.0.0.1", port=0, threads=2, asyncore_use_poll=True, **options)
            thread = threading.Thread(target=server.run)
            thread.start()
            ending.callback(thread.join)
            ending.callback(server.close)
            ending.callback(server.task_dispatcher.shutdown)
            ending.callback(server.trigger.pull_trigger, lambda: server.asyncore.close_all(server._map))
            return server, server.effective_port

        yield serve


@pytest.fixture
def connect() -> Iterator[Callable[[int, bytes], socket.socket]]:
    """Open a connection to a port and say something on it."""
    with ExitStack() as ending:

        def connect(port: int, said: bytes = b"") -> socket.socket:
            connection = ending.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.sendall(said)
            return connection

        yield connect


def is_answered(port: int) -> bool:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        asking.request("GET", "/")
        return asking.getresponse().read() == b"ok"
    finally:
        asking.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_120_slow_connections_silence_nobody(serving: Opener, connect: Any) -> None:
    _, port = serving(connection_limit=channels.connection_limit())
    slow = [connect(port, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ") for _ in range(120)]
    assert is_answered(port)
    assert len(slow) == 120


def test_when_every_place_is_taken_the_longest_silent_connection_gives_its_up(serving: Opener, connect: Any) -> None:
    _, port = serving(connection_limit=channels.SPARE + 12)
    slow = [connect(port, b"GET / HTTP/1.1\r\nX-Slow: ") for _ in range(60)]
    assert all(is_answered(port) for _ in range(5))
    assert is_closed(slow[0])
    slow[-1].settimeout(0.2)
    assert not is_closed(slow[-1])


def test_a_request_that_trickles_in_is_silence_and_one_that_keeps_coming_is_not(
    serving: Opener, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, port = serving(channel_timeout=channels.SECONDS_TO_ASK, cleanup_interval=3600)
    began = time.time()
    trickling = connect(port, b"GET / HTTP/1.1\r\n")
    uploading = connect(port, b"PUT / HTTP/1.1\r\nContent-Length: 400000\r\n\r\n" + b"x" * 300_000)
    wait_for(lambda: sum(one.request is not None for one in list(server.active_channels.values())) == 2)
    monkeypatch.setattr(channels, "now", lambda: began + 15)
    trickling.sendall(b"X")  # a byte now and then, as late as it may be
    uploading.sendall(b"x")
    wait_for(lambda: max(one.last_activity for one in list(server.active_channels.values())) == began + 15)
    assert is_answered(port)  # so that the other byte has been seen too
    server.maintenance(began + channels.SECONDS_TO_ASK + 5)
    server.trigger.pull_trigger()
    assert is_closed(trickling)
    uploading.settimeout(0.2)
    assert not is_closed(uploading)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the server's thread has seen what was sent, for ten seconds at most."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
