"""Setting up, looking after and cleaning up."""

from __future__ import annotations

from datetime import timedelta

import click

from rqmail.bootstrap import Application, application
from rqmail.cli.checkup import alike_as_one, check_everything
from rqmail.cli.errors import FAILED
from rqmail.cli.parameters import Duration
from rqmail.cli.printing import json_option, print_json
from rqmail.models.migrate import migrate, pending
from rqmail.terminal.tables import console, plain, table
from rqmail.text.counting import counted


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 when something is missing, and say what.")
@json_option
def init(*, check: bool, json_: bool) -> None:
    """Create or update the tables and register the ticks. Safe to repeat; run it after every update."""
    app = application()
    if check:
        _say_what_is_missing(app, json_=json_)
        return
    applied = migrate()
    if not json_:
        click.echo(f"Tables: {', '.join(applied) or 'up to date'}.")
    app.imports.recover()
    registered = app.timetable.register()
    if json_:
        print_json({"migrations": applied, "ticks": registered})
    else:
        click.echo(f"Ticks: {', '.join(registered) or 'registered already'}.")


def _say_what_is_missing(app: Application, *, json_: bool) -> None:
    steps = pending()
    if steps and not json_:
        click.echo(f"Tables: {', '.join(steps)} not applied; run `rqmail init`.")
    ticks = app.timetable.missing()
    if json_:
        print_json({"ready": not (steps or ticks), "migrations": steps, "ticks": ticks})
    elif ticks:
        click.echo(f"Ticks: {', '.join(ticks)} not registered; run `rqmail init`.")
    elif not steps:
        click.echo("Tables and ticks are as this version wants them.")
    if steps or ticks:
        raise click.exceptions.Exit(FAILED)


@click.command()
@json_option
def dispatch(*, json_: bool) -> None:
    """Do one pass: hand what can be sent now to the workers."""
    report = application().dispatcher.tick()
    if json_:
        print_json(report)
    elif report.skipped:
        click.echo("Another process is dispatching at this moment.")
    else:
        click.echo(
            f"{counted(report.claimed, 'message was', 'messages were')} handed over"
            f" in {counted(report.jobs, 'job', 'jobs')};"
            f" senders with due mail: {report.senders_due:,}, of them without budget now: {report.senders_waiting:,}."
        )


@click.command()
@click.option("--all", "all_", is_flag=True, help="List each mailbox and tenant, also those with the same finding.")
@json_option
def doctor(*, all_: bool, json_: bool) -> None:
    """Check everything mail needs, and say what to do about what is missing. Exits with 1 when an error is found.

    Every tenant and mailbox is tried with its provider, without a mail; those with the same finding are one line.
    """
    findings = check_everything()
    if json_:
        print_json({"checks": findings})
    else:
        shown = table("check", "", "finding", "what to do", folds=("finding", "what to do"))
        for one in findings if all_ else alike_as_one(findings):
            shown.add_row(one.name, one.level, plain(one.text), plain(one.advice))
        console().print(shown)
    if any(one.level == "error" for one in findings):
        raise click.exceptions.Exit(FAILED)


@click.command(epilog="Example: rqmail purge --older-than 90d --dry-run")
@click.option("--older-than", type=Duration(), help="How long ago they came to their end: 90d.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@json_option
def purge(older_than: timedelta | None, *, dry_run: bool, json_: bool) -> None:
    """Delete messages that came to their end (sent, failed, cancelled, expired) long ago.

    The record of an import goes with the last of its messages. Without --older-than it is what the hourly purge deletes
    by RQMAIL_RETENTION_DAYS, and entries of the audit by RQMAIL_AUDIT_RETENTION_DAYS.
    """
    retention = application().retention
    if older_than is None:
        purged = retention.run(dry_run=dry_run)
    else:
        purged = retention.count(older_than) if dry_run else retention.purge(older_than)
    if json_:
        print_json(
            {
                "count": purged.messages,
                "imports": purged.imports,
                "campaigns": purged.campaigns,
                "auditEntries": purged.audit_entries,
                "dryRun": dry_run,
            }
        )
    else:
        these = (
            counted(purged.messages, "message", "messages"),
            counted(purged.imports, "record of an import", "records of imports"),
            counted(purged.audit_entries, "entry of the audit", "entries of the audit"),
            *((counted(purged.campaigns, "campaign", "campaigns"),) if purged.campaigns else ()),
        )
        click.echo(f"{'Would be deleted' if dry_run else 'Deleted'}: {', '.join(these)}.")
