"""How campaigns stand, on the command line: listed, one in full, its people, its export."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from rqmail.bootstrap import application
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.clock import utc_now
from rqmail.terminal.tables import console, moment, plain, table

if TYPE_CHECKING:
    from rqmail.insight.progress import CampaignLine, CampaignView

_STATUSES = [
    "WAITING",
    "HELD",
    "SUPPRESSED",
    "SCHEDULED",
    "QUEUED",
    "SENDING",
    "SENT",
    "ERROR",
    "UNKNOWN",
    "CANCELLED",
    "EXPIRED",
]

_NUMBERS = (
    "recipients",
    "sent",
    "waiting",
    "failed",
    "unknown",
    "bounced",
    "delivered",
    "suppressed",
    "cancelled",
    "expired",
)


@click.command("list")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@json_option
def list_(limit: int, *, json_: bool) -> None:
    """List the campaigns, the newest first."""
    found = application().campaign_progress.all(limit=limit)
    if json_:
        print_json({"campaigns": found})
        return
    now = utc_now()
    right = ("sent", "waiting", "failed", "unknown")
    shown = table("campaign", "state", "sent", "waiting", "failed", "unknown", "done", right=right, drops=("unknown",))
    for one in found:
        shown.add_row(
            plain(one.name),
            one.state.value,
            f"{one.sent:,} of {one.recipients:,}",
            f"{one.waiting:,}",
            f"{one.failed:,}",
            f"{one.unknown:,}",
            "" if one.done_on is None else moment(one.done_on, now),
        )
    print_table(shown, "No campaign yet: `rqmail campaign create --help` tells how to make one.")


@click.command(epilog="Example: rqmail campaign status spring -i 5")
@click.argument("name")
@click.option("-i", "--interval", type=click.FloatRange(0.5), metavar="SECONDS", help="Again and again until it ends.")
@json_option
def status(name: str, interval: float | None, *, json_: bool) -> None:
    """Show how a campaign stands: who got it, why not, which mailbox does what, when it is done."""
    while True:
        shown = application().campaign_progress.show(name)
        if json_:
            print_json(shown, one_line=interval is not None)
        else:
            _print(shown)
        if interval is None or shown.ended_on is not None:
            return
        sys.stdout.flush()
        time.sleep(interval)


def _print(shown: CampaignView) -> None:
    out, now = console(), utc_now()
    share = 100 * shown.settled // shown.recipients if shown.recipients else 0
    out.print(plain(f"{shown.name}: {shown.state.value}, {share} % settled"))
    for label, number in _numbers(shown):
        if number or label in {"sent", "waiting", "failed"}:
            out.print(plain(f"{label:>11}: {number:,}"))
    if shown.per_minute:
        out.print(plain(f"{'rate':>11}: {shown.per_minute:g} a minute"))
    for label, when in (
        ("starts", shown.starts_on if shown.started_on is None or (shown.starts_on or now) > now else None),
        ("expires", shown.expires_on),
        ("done" if shown.ended_on is None else "last sent", shown.done_on),
    ):
        if when is not None:
            out.print(plain(f"{label:>11}: {moment(when, now)}"))
    if shown.window:
        out.print(plain(f"{'sends':>11}: {shown.window}"))
    pool = table("mailbox", "sent", "in line", "failed", "unknown", right=("sent", "in line", "failed", "unknown"))
    for one in shown.pool:
        sender = one.sender.partition(":")[2]
        pool.add_row(plain(sender), f"{one.sent:,}", f"{one.waiting:,}", f"{one.failed:,}", f"{one.unknown:,}")
    out.print(pool)
    for failure in shown.failures:
        out.print(plain(f"{failure.people:>7,} × {failure.reason}"))


def _numbers(shown: CampaignLine) -> Iterator[tuple[str, int]]:
    for label in (
        "recipients",
        "sent",
        "waiting",
        "failed",
        "unknown",
        "bounced",
        "delivered",
        "suppressed",
        "cancelled",
        "expired",
    ):
        yield label, getattr(shown, label)


@click.command(epilog="Example: rqmail campaign people spring --status ERROR --search voorbeeld.nl")
@click.argument("name")
@click.option("--status", "status_", type=click.Choice(_STATUSES), help="Only who is there.")
@click.option("-q", "--search", default="", metavar="TEXT", help="A part of the address or the name.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--after", type=int, default=0, metavar="NUMBER", help="Begin after this person.")
@json_option
def people(name: str, status_: str | None, search: str, limit: int, after: int, *, json_: bool) -> None:
    """List what became of the people of a campaign."""
    from rqmail.models.progress import Wanted  # noqa: PLC0415 - beside the tables, which `--help` needs not

    found = application().campaign_progress.outcomes(name, Wanted(status_, search), limit=limit, after=after)
    if json_:
        print_json({"people": found})
        return
    shown = table("no", "address", "status", "sent", "mailbox", "told", folds=("told",), drops=("mailbox", "sent"))
    now = utc_now()
    for one in found:
        sent = "" if one.sent_on is None else moment(one.sent_on, now)
        back = f"bounced ({one.bounced})" if one.bounced else None
        told = ", ".join(filter(None, (one.error, back, "unsubscribed" if one.unsubscribed_on else None)))
        shown.add_row(str(one.number), plain(one.address), one.status, sent, plain(one.mailbox or ""), plain(told))
    print_table(shown, "Nobody matches.")
    if len(found) == limit:
        click.echo(f"There may be more: --after {found[-1].number}", err=True)


@click.command(
    epilog="""\b
Examples:
  rqmail campaign export spring > spring.csv
  rqmail campaign export spring --status ERROR --delimiter ';'"""
)
@click.argument("name")
@click.option("--status", "status_", type=click.Choice(_STATUSES), help="Only who is there.")
@click.option("--delimiter", type=click.Choice([",", ";", "tab"]), default=",", show_default=True)
@click.option("--json", "json_", is_flag=True, help="One JSON object a line instead of CSV.")
def export(name: str, status_: str | None, delimiter: str, *, json_: bool) -> None:
    """Write what became of every person of a campaign as CSV, in the order of the list."""
    from rqmail.models.progress import Wanted  # noqa: PLC0415 - as above

    progress = application().campaign_progress
    if json_:
        for one in progress.all_outcomes(name, Wanted(status_)):
            print_json(one, one_line=True)
        return
    for line in progress.as_csv(name, Wanted(status_), delimiter):
        click.echo(line, nl=False)
