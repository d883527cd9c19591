"""Looking at the whole: ``status`` once or every few seconds, ``top`` live."""

# What draws is imported when something is drawn: a program that asks for JSON waits for none of it.
# ruff: noqa: PLC0415

from __future__ import annotations

import time

import click

from rqmail.bootstrap import application
from rqmail.cli.errors import FAILED
from rqmail.cli.printing import json_option, print_json, show_standing


@click.command(epilog="Example: rqmail status -i 5")
@click.option("-i", "--interval", type=click.FloatRange(min=0.2), metavar="SEC", help="Look again every so often.")
@json_option
def status(interval: float | None, *, json_: bool) -> None:
    """Show messages by status, mailboxes with their budgets, when they are done, and what is wrong.

    Exits with 1 when nothing carries mail: Redis not there, no dispatch lately, nobody who schedules the next one (also
    when an emptied Redis forgot the ticks), or no worker that listens for mail. Failed and undecided messages and
    paused mailboxes are told, but are no failure.
    """
    overview = application().overview
    while True:
        now = overview.status()
        if json_:
            print_json(now, one_line=interval is not None)
        else:
            from rqmail.terminal.board import board
            from rqmail.terminal.tables import console

            out = console()
            if interval is not None and out.is_terminal:
                out.clear()
            out.print(board(now))
        if interval is None:
            break
        time.sleep(interval)
    if now.is_wrong:
        raise click.exceptions.Exit(FAILED)


@click.command()
@click.option("-i", "--interval", type=click.FloatRange(min=0.2), default=1.0, show_default=True, metavar="SEC")
def top(interval: float) -> None:
    """Watch it live, until Ctrl-C."""
    from rich.live import Live

    from rqmail.terminal.board import board
    from rqmail.terminal.tables import console

    overview = application().overview
    out = console()
    with Live(board(overview.status()), console=out, screen=out.is_terminal, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(interval)
                live.update(board(overview.status()), refresh=True)
        except KeyboardInterrupt:
            return


@click.command(epilog="Examples: rqmail explain tenant:acme; rqmail explain default; rqmail explain news")
@click.argument("sender")
@json_option
def explain(sender: str, *, json_: bool) -> None:
    """Say why mail of SENDER goes out or does not.

    SENDER is mailbox:KEY, tenant:KEY or default; a key alone does where only one sender has it.
    """
    show_standing(application().overview.sender(sender), json_=json_)
