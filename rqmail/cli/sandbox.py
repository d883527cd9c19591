"""A stand-in for Microsoft Graph: ``sandbox``."""

from __future__ import annotations

from pathlib import Path

import click

from rqmail.cli.listening import listening
from rqmail.cli.printing import json_option, print_json
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID
from rqmail.sandbox.server import Sandbox


@click.command(
    epilog="""\b
Point the other processes at it:
  RQMAIL_GRAPH_BASE_URL, RQMAIL_GRAPH_AUTHORITY, RQMAIL_CA_BUNDLE   as printed
  RQMAIL_GRAPH_TENANT_ID, _CLIENT_ID, _CLIENT_SECRET                as printed"""
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen; 0 takes a free one.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--latency-ms", type=click.FloatRange(min=0), default=0, show_default=True, help="How long a call takes.")
@click.option(
    "--bounce",
    "bounces",
    multiple=True,
    metavar="ADDRESS=CODE",
    help="Mail to this address comes back with this status, such as jan@x.nl=5.1.1; may be repeated.",
)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="ADDRESS=STATUS",
    help="Mail to this address is traced with this status, such as jan@x.nl=quarantined; may be repeated.",
)
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Keeps the certificate between runs."
)
@json_option
def sandbox(
    port: int,
    host: str,
    latency_ms: float,
    bounces: tuple[str, ...],
    traces: tuple[str, ...],
    data_dir: Path | None,
    *,
    json_: bool,
) -> None:
    """Serve a stand-in for Microsoft Graph and Entra over HTTPS, with Microsoft's real limits, until Ctrl-C."""
    if data_dir is not None:
        data_dir.mkdir(parents=True, exist_ok=True)
    try:
        back, traced = _by_address(bounces), _by_address(traces)
        server = Sandbox(port, host=host, data_dir=data_dir, latency_ms=latency_ms, bounces=back, traces=traced)
    except ValueError as wrong:
        name = "bounce" if str(wrong).startswith("bounces") else "trace"
        raise click.UsageError(f"--{name}: {wrong}.") from None

    def tell() -> None:
        variables = {
            "RQMAIL_GRAPH_BASE_URL": server.base_url,
            "RQMAIL_GRAPH_AUTHORITY": server.authority,
            "RQMAIL_CA_BUNDLE": str(server.ca_file),
            "RQMAIL_GRAPH_TENANT_ID": SANDBOX_TENANT_ID,
            "RQMAIL_GRAPH_CLIENT_ID": SANDBOX_CLIENT_ID,
            "RQMAIL_GRAPH_CLIENT_SECRET": SANDBOX_CLIENT_SECRET,
        }
        if json_:
            print_json(variables, one_line=True)
        else:
            click.echo("\n".join(f"{name}={value}" for name, value in variables.items()))
            click.echo(f"What was accepted: {server.authority}/")

    with listening(host, port):
        server.serve_forever(tell)


def _by_address(wishes: tuple[str, ...]) -> dict[str, str]:
    return {address: value for address, _, value in (wish.partition("=") for wish in wishes)}
