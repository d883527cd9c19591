"""After the database was restored: ``recover-from-backup``."""

from __future__ import annotations

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.printing import json_option, print_json
from rqmail.intake.moments import moment_of
from rqmail.text.counting import counted


@click.command(
    name="recover-from-backup",
    epilog="Example: rqmail recover-from-backup --taken-at 2026-12-03T02:00:00+01:00 --dry-run",
)
@click.option("--taken-at", required=True, metavar="MOMENT", help="When the backup was taken, with its time zone.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@json_option
def recover_from_backup(taken_at: str, *, dry_run: bool, json_: bool) -> None:
    """Let nothing be sent twice after a restore: run it before scheduler and workers are started again.

    What waited when the backup was taken may have been sent since: it becomes UNKNOWN, and is looked up at the provider
    before it is sent. Campaigns that were running are paused, imports that were being stored are stopped: what became
    of the people and rows that had no message yet cannot be looked up. Safe to repeat.
    """
    moment = moment_of("taken-at", taken_at)
    assert moment is not None  # noqa: S101 - click asks for it
    restored = application().restoring.by(COMMAND_LINE).recover(moment, dry_run=dry_run)
    if json_:
        print_json(restored)
        return
    click.echo(
        f"{'Would be' if dry_run else 'Marked as'} in doubt: {counted(restored.messages, 'message', 'messages')}."
    )
    for name in restored.campaigns_paused:
        click.echo(f"{'Would be paused' if dry_run else 'Paused'}: campaign {name}.")
    for import_id in restored.imports_stopped:
        click.echo(f"{'Would be stopped' if dry_run else 'Stopped'}: import {import_id}.")
