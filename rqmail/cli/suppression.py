"""The suppression list: who gets no mail, and why."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.errors import WRONG_USAGE
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.clock import utc_now
from rqmail.terminal.tables import moment, plain, table
from rqmail.text.counting import counted

_F = TypeVar("_F", bound=Callable[..., Any])

_REASONS = ["hard-bounce", "complaint", "unsubscribe", "manual", "import"]

#: Bad rows of a file that are printed for a person.
_PRINTED = 20


def _tenant_option(function: _F) -> _F:
    return click.option("--tenant", metavar="KEY", help="For mail of this tenant alone; without, for all mail.")(
        function
    )


@click.group()
def suppression() -> None:
    """Addresses that get no mail: added, removed, listed, imported, exported.

    Mail to them is refused or goes to its other recipients alone, also when it waits already. Mail that people need,
    such as an invoice, may still go to who unsubscribed: `rqmail send --ignore-unsubscribed`.
    """


@suppression.command(
    epilog="""\b
Examples:
  rqmail suppression add jan@voorbeeld.nl
  rqmail suppression add jan@voorbeeld.nl --reason complaint --tenant acme"""
)
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@click.option("--reason", type=click.Choice(_REASONS), default="manual", show_default=True)
@_tenant_option
@json_option
def add(addresses: tuple[str, ...], reason: str, tenant: str | None, *, json_: bool) -> None:
    """Let each ADDRESS get no mail from now on."""
    changes = application().changes.by(COMMAND_LINE)
    added = [changes.suppress(address, tenant=tenant, reason=reason) for address in addresses]
    if json_:
        print_json({"suppressed": added})
        return
    for one in added:
        click.echo(f"{one.address} gets no mail{_of(one.tenant)} ({one.reason}).")


@suppression.command(epilog="Example: rqmail suppression remove jan@voorbeeld.nl")
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@_tenant_option
@json_option
def remove(addresses: tuple[str, ...], tenant: str | None, *, json_: bool) -> None:
    """Let each ADDRESS get mail again."""
    changes = application().changes.by(COMMAND_LINE)
    removed = [changes.unsuppress(address, tenant=tenant) for address in addresses]
    if json_:
        print_json({"removed": removed})
        return
    for one in removed:
        click.echo(f"{one.address} gets mail again{_of(one.tenant)}; it was suppressed: {one.reason}.")
        if one.unsubscribed_on is not None:
            click.echo(f"{one.address} had unsubscribed on {one.unsubscribed_on:%Y-%m-%d}.", err=True)


@suppression.command("list", epilog="Example: rqmail suppression list --search voorbeeld.nl --reason hard-bounce")
@click.option("-q", "--search", default="", metavar="TEXT", help="An address or a part of one.")
@click.option("--reason", type=click.Choice(_REASONS), help="Only for this reason.")
@_tenant_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--after", metavar="PLACE", help="Begin after this entry: nextCursor of the page before.")
@json_option
def list_(search: str, reason: str | None, tenant: str | None, limit: int, after: str | None, *, json_: bool) -> None:
    """List who gets no mail, by address."""
    from rqmail.campaigns.suppression import place  # noqa: PLC0415 - beside what reads files, which `--help` needs not

    found = application().suppressions.find(search=search, reason=reason, tenant=tenant, limit=limit + 1, after=after)
    following = place(found[limit - 1]) if len(found) > limit else None
    found = found[:limit]
    if json_:
        print_json({"suppressions": found, "nextCursor": following})
        return
    shown = table("address", "for", "reason", "since", "source", folds=("address", "source"), drops=("source", "for"))
    now = utc_now()
    for one in found:
        whose = "all mail" if one.tenant is None else f"tenant {one.tenant}"
        shown.add_row(plain(one.address), plain(whose), one.reason.value, moment(one.since, now), plain(one.source))
    print_table(shown, "Nobody is suppressed, or nobody matches. `rqmail suppression add ADDRESS` adds one.")
    if following is not None:
        click.echo(f"There are more: --after '{following}' shows them.", err=True)


@suppression.command(
    "import",
    epilog="""\b
A list of addresses, one a line, or a table (CSV, .xlsx, .ods) with a column address, and optional reason and since.
Other columns are passed over, so that the exports of other programs can be read.

\b
Examples:
  rqmail suppression import bounces.csv --reason hard-bounce --dry-run
  rqmail suppression import uitgeschreven.txt --reason unsubscribe""",
)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--reason", type=click.Choice(_REASONS), default="import", show_default=True, help="Where a row has none."
)
@_tenant_option
@click.option("--dry-run", is_flag=True, help="Check everything, store nothing; exits with 2 when a row is bad.")
@json_option
def import_(file: BinaryIO, reason: str, tenant: str | None, *, dry_run: bool, json_: bool) -> None:
    """Let every address of FILE get no mail from now on: all of them, or none if a row is wrong."""
    named = getattr(file, "name", "-")
    name = Path(named).name if isinstance(named, str) and not named.startswith(("<", "-")) else ""
    seekable = file if file.seekable() else io.BytesIO(file.read())
    report = (
        application()
        .changes.by(COMMAND_LINE)
        .import_suppressions(seekable, name, tenant=tenant, reason=reason, dry_run=dry_run)
    )
    if json_:
        print_json({"report": report, "dryRun": dry_run})
    elif report.error_count:
        click.echo(
            f"Error: {report.error_count:,} of {report.rows:,} rows cannot be used; nothing was stored.", err=True
        )
        for one in report.errors[:_PRINTED]:
            click.echo(f"  row {one.row}: {one.message}", err=True)
        if report.error_count > _PRINTED:
            click.echo(f"  … and {report.error_count - _PRINTED:,} more", err=True)
    else:
        done = "to be added" if dry_run else "added"
        known = counted(report.known, "row was", "rows were")
        click.echo(f"{counted(report.added, 'address', 'addresses')} {done}; {known} known.")
    if report.error_count:
        raise click.exceptions.Exit(WRONG_USAGE)


@suppression.command(epilog="Example: rqmail suppression export --output suppressed.csv")
@_tenant_option
@click.option("-o", "--output", type=click.File("wb"), default="-", help="A file; standard output if left out.")
def export(output: BinaryIO, tenant: str | None) -> None:
    """Write the list as CSV, as `import` reads it."""
    for part in application().suppressions.as_csv(tenant=tenant):
        output.write(part.encode())


def _of(tenant: str | None) -> str:
    return "" if tenant is None else f" of tenant {tenant}"
