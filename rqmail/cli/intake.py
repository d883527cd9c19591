"""Handing messages in: ``send`` one, ``import`` a file of them."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rqmail.administration.changes import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.errors import WRONG_USAGE
from rqmail.cli.parameters import TextFile, sender, sender_options
from rqmail.cli.printing import json_option, print_json
from rqmail.insight.jsonable import as_json
from rqmail.intake.draft import Draft
from rqmail.intake.files import ImportReport, format_of, import_messages
from rqmail.terminal.tables import console

_SPOOLED = 8_000_000


@click.command(
    epilog="""\b
Examples:
  rqmail send --mailbox news --to jan@voorbeeld.nl --subject Hallo --text "Dag Jan"
  rqmail send --mailbox news --to "Jörg <j@beispiel.de>,a@x.nl" --subject Hi --html-file mail.html
  rqmail send --mailbox news --to a@x.nl --subject Later --text … --at 2026-03-01T09:00:00+01:00"""
)
@sender_options
@click.option("--to", multiple=True, metavar="ADDRESSES", help="Recipients, separated by commas; may be repeated.")
@click.option("--cc", multiple=True, metavar="ADDRESSES", help="Copies to.")
@click.option("--bcc", multiple=True, metavar="ADDRESSES", help="Blind copies to.")
@click.option("--subject", required=True, help="The subject.")
@click.option("--text", help="The plain text.")
@click.option("--html", help="The HTML.")
@click.option("--text-file", type=TextFile(), help="Read the text from a file, - for standard input.")
@click.option("--html-file", type=TextFile(), help="Read the HTML from a file, - for standard input.")
@click.option("--at", metavar="ISO8601", help="Not before this moment, with its time zone.")
@click.option("--expires", metavar="ISO8601", help="Give up at this moment.")
@click.option("--priority", type=click.Choice(["high", "normal", "low"]), default="normal", show_default=True)
@json_option
def send(
    mailbox: str | None,
    tenant: str | None,
    to: tuple[str, ...],
    cc: tuple[str, ...],
    bcc: tuple[str, ...],
    subject: str,
    text: str | None,
    html: str | None,
    text_file: str | None,
    html_file: str | None,
    at: str | None,
    expires: str | None,
    priority: str,
    *,
    json_: bool,
) -> None:
    """Hand in one message and print its id. It leaves as soon as its time and the budget allow."""
    if text is not None and text_file is not None:
        raise click.UsageError("--text and --text-file exclude each other.")
    if html is not None and html_file is not None:
        raise click.UsageError("--html and --html-file exclude each other.")
    draft = Draft(
        sender=sender(mailbox, tenant),
        subject=subject,
        to=to,
        cc=cc,
        bcc=bcc,
        text=text if text_file is None else text_file,
        html=html if html_file is None else html_file,
        at=at,
        expires=expires,
        priority=priority,
    )
    [taken] = application().intake.by(COMMAND_LINE).take([draft])
    if json_:
        print_json({"id": taken.message.id, "folded": taken.folded}, one_line=True)
        return
    click.echo(taken.message.id)
    for fold in taken.folded:
        click.echo(f"{fold.address} was named twice: kept in {fold.kept}, left out of {fold.left_out}.", err=True)


@click.command(
    "import",
    epilog="""\b
CSV has a header row: to, subject, text and/or html; optional cc, bcc, at, priority, expires.
Separated by comma, semicolon or tab; UTF-8. Several addresses in one cell: separated by ; or ,
JSON lines have the same names, one object a line.

\b
Examples:
  rqmail import campaign.csv --mailbox news --dry-run
  rqmail import campaign.csv --mailbox news --json""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@sender_options
@click.option("--format", "format_", type=click.Choice(["csv", "jsonl"]), help="Otherwise told by the file's name.")
@click.option("--dry-run", is_flag=True, help="Check everything, store nothing.")
@json_option
def import_(file: str, mailbox: str | None, tenant: str | None, format_: Any, *, dry_run: bool, json_: bool) -> None:
    """Hand in every row of FILE (CSV or JSON lines) as a message: all of them, or none if one is wrong."""
    intake = application().intake.by(COMMAND_LINE)
    with _rewindable(file) as opened, _progress(show=sys.stderr.isatty() and not json_) as on_progress:
        report = import_messages(
            intake,
            opened,
            sender(mailbox, tenant),
            format_=format_ or format_of(file),
            dry_run=dry_run,
            on_progress=on_progress,
        )
    if report.error_count:
        _print_errors(file, report, json_=json_)
        raise click.exceptions.Exit(WRONG_USAGE)
    if json_:
        print_json({"rows": report.rows, "stored": report.stored, "dryRun": dry_run})
    elif dry_run:
        click.echo(f"{report.rows:,} rows are good; nothing was stored (--dry-run).")
    else:
        click.echo(f"{report.stored:,} messages were stored and will leave as the budget allows.")


@contextmanager
def _rewindable(file: str) -> Iterator[IO[bytes]]:
    """Open the file; standard input is kept aside, because it is read twice."""
    if file != "-":
        with Path(file).open("rb") as opened:
            yield opened
        return
    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as spooled:
        shutil.copyfileobj(sys.stdin.buffer, spooled)
        spooled.seek(0)
        yield spooled


@contextmanager
def _progress(*, show: bool) -> Iterator[Callable[[str, int], None]]:
    if not show:
        with nullcontext():
            yield lambda _stage, _rows: None
        return

    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,.0f} rows"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        tasks = {"check": progress.add_task("checked", total=None)}

        def on_progress(stage: str, rows: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task("stored", total=None)
            progress.update(tasks[stage], completed=rows)

        yield on_progress


def _print_errors(file: str, report: ImportReport, *, json_: bool) -> None:

    summary = f"{file}: {report.error_count:,} of {report.rows:,} rows cannot be used; nothing was stored."
    if json_:
        error = {"type": "InvalidRows", "message": summary, "errorCount": report.error_count, "rows": report.rows}
        click.echo(json.dumps({"error": error | {"errors": as_json(report.errors)}}, ensure_ascii=False), err=True)
        return
    click.echo(f"Error: {summary}", err=True)
    for one in report.errors:
        click.echo(f"  row {one.row}: {one.message}", err=True)
    if report.error_count > len(report.errors):
        click.echo(f"  … and {report.error_count - len(report.errors):,} more", err=True)
