"""Ports of this machine: which is free, and whether a server answers on one."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Answer a port nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def is_free(port: int) -> bool:
    """Whether nobody listens on this port."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def listens(port: int) -> bool:
    """Whether somebody takes connections on this port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def answers_ping(port: int) -> bool:
    """Whether Valkey answers a PING: while it reads its file, it takes connections but does not answer yet."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
