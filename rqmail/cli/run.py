"""The whole system on one machine: ``run``."""

from __future__ import annotations

from pathlib import Path

import click

from rqmail.local.story import LocalRun


@click.command(
    epilog="""\b
Everything is kept in the folder var: the database, Valkey's data, keys, logs.
Another terminal joins in with:  set -a; . var/env; set +a; rqmail status
With RQMAIL_GRAPH_TENANT_ID, _CLIENT_ID and _CLIENT_SECRET set, mail goes through the real Microsoft Graph."""
)
@click.option("--once", is_flag=True, help="End when the sample campaign is accepted: 0, or 1 with the reason.")
@click.option("--var", "folder", type=click.Path(file_okay=False, path_type=Path), default="var", show_default=True)
@click.option("--load-sample", is_flag=True, help="Load the sample campaign with the real Graph as well.")
@click.option(
    "--web-port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Another if it is taken."
)
def run(folder: Path, web_port: int, *, once: bool, load_sample: bool) -> None:
    """Run the whole system on this machine, with nothing else installed, until Ctrl-C.

    An embedded Valkey, a SQLite database, a stand-in for Microsoft Graph, the scheduler, two workers and the admin
    pages. A sample campaign is sent from two mailboxes, one of which hits its budget.
    """
    raise click.exceptions.Exit(LocalRun(folder, web_port=web_port, once=once, load_sample=load_sample).run())
