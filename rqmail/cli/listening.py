"""Where a process is to listen, and that it cannot: said in a line."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import click

_CANNOT_LISTEN = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM})


@contextmanager
def listening(host: str, port: int) -> Iterator[None]:
    """Say so where ``host`` or ``port`` is taken, forbidden or none of this machine's."""
    try:
        yield
    except socket.gaierror as error:
        raise _cannot(host, port, error.strerror or "no such host") from None
    except OSError as error:
        if error.errno not in _CANNOT_LISTEN:
            raise
        raise _cannot(host, port, os.strerror(error.errno)) from None


def _cannot(host: str, port: int, why: str) -> click.ClickException:
    return click.ClickException(f"{host}:{port} cannot be listened on ({why}).")
