"""Handing messages in: ``send`` one, ``import`` a file of them."""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rqmail.administration.changes import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.errors import WRONG_USAGE
from rqmail.cli.parameters import TextFile, sender, sender_options
from rqmail.cli.printing import json_option, print_json
from rqmail.errors import InvalidInputError
from rqmail.insight.jsonable import as_json
from rqmail.intake.columns import ERROR_COLUMN, Naming
from rqmail.intake.draft import Draft
from rqmail.intake.files import MAX_ERRORS_TOLD, BadRow, ImportReport, Reading, format_of, import_messages
from rqmail.intake.moments import local_time
from rqmail.terminal.tables import console

_SPOOLED = 8_000_000

#: A program reads so many errors at most; --errors writes all of them.
MOST_ERRORS_IN_JSON = 1_000


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
A table has a header row: to, subject, text and/or html; optional cc, bcc, at, priority, expires.
CSV: separated by comma, semicolon, tab or |, in UTF-8, UTF-16 or Windows-1252. Also .xlsx and .ods.
Several addresses in one cell: separated by ; or ,   JSON has the same names: an array, or objects.

\b
Examples:
  rqmail import campaign.csv --mailbox news --dry-run
  rqmail import list.xlsx --mailbox news --column to=E-mail --column text=Bericht --ignore-other-columns
  rqmail import campaign.csv --mailbox news --errors wrong.csv""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@sender_options
@click.option("--format", "format_", type=click.Choice(["csv", "jsonl"]), help="Otherwise told by the file's name.")
@click.option("--encoding", metavar="NAME", help="The encoding of the file; otherwise it is found out.")
@click.option("--sheet", metavar="NAME", help="The sheet of a spreadsheet; otherwise the first.")
@click.option("--column", "columns", multiple=True, metavar="NAME=THEIRS", help="What the file calls a column of ours.")
@click.option("--ignore-other-columns", is_flag=True, help="Pass over columns that are none of ours.")
@click.option("--timezone", metavar="ZONE", help="Where times without a zone are local; default RQMAIL_TIMEZONE.")
@click.option("--date-format", metavar="FORMAT", help="How times are written, such as %d-%m-%Y %H:%M.")
@click.option("--skip-duplicates", is_flag=True, help="Leave out rows whose recipients an earlier row has.")
@click.option("--errors", type=click.Path(dir_okay=False, writable=True), help="Write the bad rows to this CSV file.")
@click.option("--dry-run", is_flag=True, help="Check everything, store nothing; exits with 2 when a row is bad.")
@json_option
def import_(
    file: str,
    mailbox: str | None,
    tenant: str | None,
    format_: Any,
    encoding: str | None,
    sheet: str | None,
    columns: tuple[str, ...],
    timezone: str | None,
    date_format: str | None,
    errors: str | None,
    *,
    ignore_other_columns: bool,
    skip_duplicates: bool,
    dry_run: bool,
    json_: bool,
) -> None:
    """Hand in every row of FILE (CSV, .xlsx, .ods, JSON) as a message: all of them, or none if one is wrong."""
    app = application()
    reading = Reading(
        format_ or format_of(file),
        encoding,
        sheet,
        Naming(_named(columns), ignore_other_columns),
        local_time(timezone or app.settings.timezone, date_format),
    )
    with (
        _rewindable(file) as opened,
        _progress(show=sys.stderr.isatty() and not json_) as on_progress,
        _bad_rows(errors, file) as on_bad_row,
    ):
        report = import_messages(
            app.intake.by(COMMAND_LINE),
            opened,
            sender(mailbox, tenant),
            reading,
            dry_run=dry_run,
            skip_duplicates=skip_duplicates,
            errors_told=MOST_ERRORS_IN_JSON if json_ else MAX_ERRORS_TOLD,
            on_bad_row=on_bad_row,
            on_progress=on_progress,
        )
    if report.error_count and not (json_ and dry_run):
        _print_errors(file, report, errors, json_=json_)
    elif json_:
        print_json(as_json(report) | {"dryRun": dry_run})
    else:
        _print_report(report, dry_run=dry_run)
    if report.error_count:
        raise click.exceptions.Exit(WRONG_USAGE)


def _named(columns: tuple[str, ...]) -> dict[str, str]:
    named = {}
    for one in columns:
        ours, equals, theirs = one.partition("=")
        if not equals or not theirs.strip() or ours.strip().lower() in named:
            raise InvalidInputError("column", one, "NAME=THEIRS, each of our names once, such as to=E-mail")
        named[ours.strip().lower()] = theirs
    return named


@contextmanager
def _bad_rows(path: str | None, file: str) -> Iterator[Callable[[BadRow], None]]:
    """Write every bad row with the cells it has and what is wrong, ready to be mended and imported again."""
    if path is None:
        yield lambda _row: None
        return
    if file != "-" and Path(path).exists() and Path(path).samefile(file):
        raise click.UsageError(f"--errors {path} would overwrite the file that is read: name another.")
    try:
        opened = Path(path).open("w", encoding="utf-8-sig", newline="")  # noqa: SIM115 - closed below
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror or type(error).__name__}.") from None
    with opened:
        writer = csv.writer(opened)
        headed = False

        def write(bad: BadRow) -> None:
            nonlocal headed
            header = [name for name in bad.header if name.strip().lower() != ERROR_COLUMN]
            if not headed:
                writer.writerow([*header, ERROR_COLUMN])
                headed = True
            kept = [
                cell
                for position, cell in enumerate(bad.cells)
                if position >= len(bad.header) or bad.header[position].strip().lower() != ERROR_COLUMN
            ]
            told = f"row {bad.error.row}: {bad.error.message}"
            missing = [""] * (len(header) - len(kept))
            writer.writerow([*kept[: len(header)], *missing, told, *kept[len(header) :]])

        yield write


def _print_report(report: ImportReport, *, dry_run: bool) -> None:
    if report.encoding not in {"", "utf-8", "utf-8-sig"}:
        click.echo(f"Read as {report.encoding}; --encoding names another.", err=True)
    if report.passed_over:
        above = "; ".join(filter(None, report.passed_over)) or "blank"
        click.echo(f"Above the header {len(report.passed_over)} rows were passed over: {above}.", err=True)
    if report.duplicates:
        what = "were left out" if report.skipped else "would be left out by --skip-duplicates"
        click.echo(f"{report.duplicates:,} rows repeat the recipients of earlier ones; they {what}.", err=True)
    if dry_run:
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
def _progress(*, show: bool) -> Iterator[Callable[[str, int, float], None]]:
    if not show:
        yield lambda _stage, _rows, _share: None
        return

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description} {task.percentage:>3.0f} %, {task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        tasks = {"check": progress.add_task("checked", total=1.0, rows=0)}

        def on_progress(stage: str, rows: int, share: float) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task("stored", total=1.0, rows=0)
            progress.update(tasks[stage], completed=share, rows=rows)

        yield on_progress


def _print_errors(file: str, report: ImportReport, errors: str | None, *, json_: bool) -> None:
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
    if errors is not None:
        click.echo(f"All of them are in {errors}, with what is wrong in the column {ERROR_COLUMN}.", err=True)
