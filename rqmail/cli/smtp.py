"""The SMTP door: ``smtp``."""

from __future__ import annotations

import click

from rqmail.bootstrap import application
from rqmail.cli.listening import listening
from rqmail.smtp.server import serve


@click.command(
    epilog="Example: RQMAIL_SMTP_CERTIFICATE=mail.pem rqmail smtp --host 0.0.0.0 --port 587; programs then"
    " send with any user name, a token of `rqmail token create erp --scope send` as password, and a mailbox's address"
    " as sender."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=2525, show_default=True)
@click.option("--implicit-tls", is_flag=True, help="TLS from the first byte on (as on port 465), instead of STARTTLS.")
def smtp(host: str, port: int, *, implicit_tls: bool) -> None:
    """Take in mail of programs that speak SMTP; it leaves within the budget, as all other mail does."""
    with listening(host, port):
        serve(
            application(),
            host,
            port,
            implicit_tls=implicit_tls,
            on_listening=lambda found: click.echo(f"SMTP on {host}:{found}"),
        )
