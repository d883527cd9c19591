"""Handing in a file of messages: ``import`` it, list what was imported, undo it."""

from __future__ import annotations

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

from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.errors import WRONG_USAGE
from rqmail.cli.parameters import sender, sender_options
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.clock import utc_now
from rqmail.insight.jsonable import as_json
from rqmail.intake.bad_rows import BadRowsFile
from rqmail.intake.columns import ERROR_COLUMN
from rqmail.intake.files import MAX_ERRORS_TOLD, reading_of
from rqmail.intake.importing import MOST_REMEMBERED
from rqmail.intake.reports import BadRow, ImportReport
from rqmail.terminal.tables import console, moment, plain, table
from rqmail.text.counting import counted

_SPOOLED = 8_000_000

#: Memory that reading a spreadsheet may take: whoever runs commands here may use more than one who uploads a file.
_SHEET_BYTES = 4 * 1024**3


@click.command(
    "import",
    epilog="""\b
A table has a header row: to, subject, text and/or html; optional cc, bcc, at, priority, expires,
reply_to, importance, read_receipt, delivery_receipt, unsubscribe (yes or no), unsubscribe_url, header:NAME,
attachments (names of files in --attachments-dir, separated by ;).
CSV: separated by comma, semicolon, tab or |, in UTF-8, UTF-16 or Windows-1252. Also .xlsx and .ods.
Several addresses in one cell: separated by ; or ,   JSON has the same names: an array, or objects.

\b
Examples:
  rqmail import campaign.csv --mailbox news --dry-run
  rqmail import list.xlsx --mailbox news --column to=E-mail --column text=Bericht --ignore-other-columns
  rqmail import campaign.csv --mailbox news --errors wrong.csv
  rqmail import invoices.csv --mailbox invoices --attachments-dir pdfs --column attachments=Factuur
  rqmail import --list
  rqmail import --undo 0198f6a2-77f1-7c3e-9d55-0a8f4be2c1d7""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), required=False)
@sender_options
@click.option("--format", "format_", type=click.Choice(["csv", "jsonl"]), help="Otherwise told by the file's name.")
@click.option("--encoding", metavar="NAME", help="The encoding of the file; otherwise it is found out.")
@click.option(
    "--delimiter", type=click.Choice([",", ";", "tab", "|"]), help="What stands between cells, if not found out."
)
@click.option("--sheet", metavar="NAME", help="The sheet of a spreadsheet; otherwise the first.")
@click.option("--column", "columns", multiple=True, metavar="NAME=THEIRS", help="What the file calls a column of ours.")
@click.option("--ignore-other-columns", is_flag=True, help="Pass over columns that are none of ours.")
@click.option("--timezone", metavar="ZONE", help="Where times without a zone are local; default RQMAIL_TIMEZONE.")
@click.option("--date-format", metavar="FORMAT", help="How times are written, such as %d-%m-%Y %H:%M.")
@click.option(
    "--attachments-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the files are that the column attachments names.",
)
@click.option("--skip-duplicates", is_flag=True, help="Leave out rows whose recipients an earlier row has.")
@click.option("--ignore-unsubscribed", is_flag=True, help="Send also to who unsubscribed: no news, but what they need.")
@click.option("--errors", type=click.Path(dir_okay=False, writable=True), help="Write the bad rows to this CSV file.")
@click.option("--dry-run", is_flag=True, help="Check everything, store nothing; exits with 2 when a row is bad.")
@click.option("--list", "list_", is_flag=True, help="List what was imported lately, newest first.")
@click.option("--undo", metavar="ID", help="Cancel all messages of an import, while none has been sent.")
@json_option
def import_(
    file: str | None,
    mailbox: str | None,
    tenant: str | None,
    format_: Any,
    encoding: str | None,
    delimiter: str | None,
    sheet: str | None,
    columns: tuple[str, ...],
    timezone: str | None,
    date_format: str | None,
    attachments_dir: Path | None,
    errors: str | None,
    undo: str | None,
    *,
    list_: bool,
    ignore_other_columns: bool,
    skip_duplicates: bool,
    ignore_unsubscribed: bool,
    dry_run: bool,
    json_: bool,
) -> None:
    """Hand in every row of FILE (CSV, .xlsx, .ods, JSON) as a message: all of them, or none if one is wrong."""
    if [file is not None, list_, undo is not None].count(True) != 1:
        raise click.UsageError("Name a FILE, or --list, or --undo ID.")
    if list_:
        return _list(json_=json_)
    if undo is not None:
        return _undo(undo, json_=json_)
    assert file is not None  # noqa: S101 - one of the three is given
    app = application()
    reading = reading_of(
        file,
        format_=format_,
        encoding=encoding,
        sheet=sheet,
        columns=columns,
        ignore_other_columns=ignore_other_columns,
        timezone=timezone or app.settings.timezone,
        date_format=date_format,
        delimiter=delimiter,
        sheet_bytes=_SHEET_BYTES,
        attachments_dir=attachments_dir,
    )
    with (
        _rewindable(file) as opened,
        _progress(show=sys.stderr.isatty() and not json_) as on_progress,
        _bad_rows(errors, file) as on_bad_row,
    ):
        report = app.imports.by(COMMAND_LINE).take(
            opened,
            sender(mailbox, tenant),
            reading,
            name="" if file == "-" else Path(file).name,
            dry_run=dry_run,
            skip_duplicates=skip_duplicates,
            ignore_unsubscribed=ignore_unsubscribed,
            errors_told=MOST_REMEMBERED if json_ else MAX_ERRORS_TOLD,
            on_bad_row=on_bad_row,
            on_progress=on_progress,
        )
    if report.error_count and not (json_ and dry_run):
        _print_errors(file, report, errors, json_=json_)
    elif json_:
        print_json(_as_json(report) | {"dryRun": dry_run})
    else:
        _print_report(report, dry_run=dry_run)
    if report.error_count:
        raise click.exceptions.Exit(WRONG_USAGE)
    return None


def _list(*, json_: bool) -> None:
    found = application().imports.recent()
    if json_:
        print_json({"imports": found})
        return
    shown = table("import", "state", "sender", "file", "rows", "stored", "by", "begun", drops=("by", "file", "rows"))
    now = utc_now()
    for one in found:
        stored = f"{one.stored:,} of {one.expected:,}"
        shown.add_row(
            one.id, one.state, one.sender, plain(one.file_name), f"{one.rows:,}", stored, plain(one.who),
            moment(one.created_on, now),
        )  # fmt: skip
    print_table(shown, "Nothing was imported yet: `rqmail import FILE --mailbox KEY --dry-run` checks a file.")


def _undo(import_id: str, *, json_: bool) -> None:
    cancelled = application().changes.by(COMMAND_LINE).undo_import(import_id)
    if json_:
        print_json({"import": import_id, "cancelled": cancelled})
    else:
        click.echo(f"The import is undone: {counted(cancelled, 'message was', 'messages were')} cancelled.")


def _as_json(report: ImportReport) -> dict[str, Any]:
    """Write a report for programs: the id of its import comes first."""
    told: dict[str, Any] = as_json(report)
    return {"import": told.pop("importId")} | told


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
        yield BadRowsFile(opened).write


def _print_report(report: ImportReport, *, dry_run: bool) -> None:
    if report.encoding not in {"", "utf-8", "utf-8-sig"}:
        click.echo(f"Read as {report.encoding}; --encoding names another.", err=True)
    if report.passed_over:
        above = "; ".join(filter(None, report.passed_over)) or "blank"
        click.echo(
            f"Above the header {counted(len(report.passed_over), 'row was', 'rows were')} passed over: {above}.",
            err=True,
        )
    if report.duplicates:
        what = "were left out" if report.skipped else "would be left out by --skip-duplicates"
        click.echo(
            f"{counted(report.duplicates, 'row repeats', 'rows repeat')} the recipients of earlier ones; they {what}.",
            err=True,
        )
        for one in report.duplicate_rows:
            click.echo(f"  row {one.row}: {one.address}", err=True)
        if report.duplicates > len(report.duplicate_rows):
            click.echo(f"  … and {report.duplicates - len(report.duplicate_rows):,} more", err=True)
    if report.suppressed:
        click.echo(
            f"{counted(report.suppressed, 'recipient gets', 'recipients get')} nothing, being suppressed;"
            f" {counted(report.emptied, 'row is', 'rows are')} for nobody else, and left out.",
            err=True,
        )
        for gone in report.suppressed_rows:
            click.echo(f"  row {gone.row}: {gone.address} ({gone.reason})", err=True)
        if report.suppressed > len(report.suppressed_rows):
            click.echo(f"  … and {report.suppressed - len(report.suppressed_rows):,} more", err=True)
    _print_notices(report)
    if dry_run:
        click.echo(f"{counted(report.rows, 'row is', 'rows are')} good; nothing was stored (--dry-run).")
    else:
        click.echo(
            f"{counted(report.stored, 'message was', 'messages were')} stored and will leave as the budget allows."
        )
        click.echo(f"Until the first is sent, `rqmail import --undo {report.import_id}` takes them back.", err=True)


def _print_notices(report: ImportReport) -> None:
    if not report.notices:
        return
    click.echo(f"{counted(report.notices, 'thing', 'things')} to know:", err=True)
    for told in report.notice_rows:
        click.echo(f"  row {told.row}: {told.text}", err=True)
    if report.notices > len(report.notice_rows):
        click.echo(f"  … and {report.notices - len(report.notice_rows):,} more", err=True)


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
