"""What is stored encrypted, and the change of the key it is encrypted with."""

from __future__ import annotations

import sys

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.administration.rotation import Held, VaultReport
from rqmail.bootstrap import application
from rqmail.cli.errors import FAILED
from rqmail.cli.printing import json_option, print_json
from rqmail.insight.jsonable import as_json
from rqmail.terminal.tables import console, plain, table


@click.group()
def vault() -> None:
    """Stored secrets, and the key they are encrypted with.

    To change the key: put the new one into RQMAIL_SECRET_KEY and the one before into RQMAIL_FORMER_SECRET_KEYS, of
    every process; restart them; then `rqmail vault rotate`. The one before may go when `rqmail vault status` says that
    nothing needs it; links to unsubscribe in mail that was signed with it work no longer then.
    """


@vault.command()
@json_option
def status(*, json_: bool) -> None:
    """Say how many stored secrets and tokens still need a former key. Exits with 1 when a secret opens with no key."""
    report = application().rotation.status()
    if json_:
        print_json(as_json(report) | {"needFormerKey": report.former})
    else:
        _show(report)
        if not report.former and report.tokens is not None:
            click.echo("Nothing needs a former key.")
    _end(report)


@vault.command(epilog="Example: rqmail vault rotate --dry-run")
@click.option("--dry-run", is_flag=True, help="Only count what would be encrypted anew.")
@json_option
def rotate(*, dry_run: bool, json_: bool) -> None:
    """Encrypt with RQMAIL_SECRET_KEY what a former key encrypted. Safe to repeat, also after it was killed half-way.

    Exits with 1 when a stored secret opens with none of the keys.
    """
    if dry_run:
        report = application().rotation.status()
    elif json_ or not sys.stderr.isatty():
        report = application().changes.by(COMMAND_LINE).rotate_vault()
    else:
        report = _with_progress()
    if json_:
        print_json(as_json(report) | {"renewed": report.former, "dryRun": dry_run})
    else:
        _show(report)
        verb = "Would be encrypted anew" if dry_run else "Encrypted anew"
        click.echo(f"{verb}: {report.former:,} of {_all(report):,}.")
    _end(report)


def _with_progress() -> VaultReport:
    with click.progressbar(length=1, label="Secrets", file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        return application().changes.by(COMMAND_LINE).rotate_vault(progress)


def _show(report: VaultReport) -> None:
    shown = table("stored", "present key", "former key", "no key opens it")
    for name, held in (("secrets", report.secrets), ("tokens in Redis", report.tokens)):
        if held is not None:
            shown.add_row(name, f"{held.present:,}", f"{held.former:,}", f"{held.unreadable:,}")
    console().print(shown)
    if report.problem is not None:
        click.echo(f"Tokens are not known: {plain(report.problem)}", err=True)
    for name in report.unreadable:
        click.echo(f"No key opens {name}: put its key into RQMAIL_FORMER_SECRET_KEYS, or store it anew.", err=True)


def _all(report: VaultReport) -> int:
    def number(held: Held | None) -> int:
        return 0 if held is None else held.present + held.former + held.unreadable

    return number(report.secrets) + number(report.tokens)


def _end(report: VaultReport) -> None:
    if report.unreadable:
        raise click.exceptions.Exit(FAILED)
