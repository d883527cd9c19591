"""The processes that carry the mail: ``worker`` and ``scheduler``."""

from __future__ import annotations

import click

from rqmail.bootstrap import application
from rqmail.processes import scheduler as schedulers
from rqmail.processes import worker as workers


@click.command(epilog="The stock command works as well: rq worker -c rqmail.rqconfig -j rqmail.queues.MailJob")
@click.option("--burst", is_flag=True, help="End when the queues are empty.")
def worker(*, burst: bool) -> None:
    """Send mail until told to stop; start as many as needed."""
    raise click.exceptions.Exit(workers.run(application(), burst=burst))


@click.command(epilog="The stock command works as well, after `rqmail init`: rqscheduler -j rqmail.queues.MailJob -i 1")
def scheduler() -> None:
    """Keep the ticks coming: dispatch, recovery, purge. One is enough, two do no harm."""
    raise click.exceptions.Exit(schedulers.run(application()))
