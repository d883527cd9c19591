"""The admin pages and the API: ``web``."""

from __future__ import annotations

import click

from rqmail.bootstrap import application
from rqmail.cli.listening import listening
from rqmail.web.server import serve


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
def web(host: str, port: int) -> None:
    """Serve the admin pages and the API."""
    with listening(host, port):
        serve(application(), host, port)
