"""Campaigns on the command line: created from a list and a template, tried, started, steered."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.campaign_views import export, list_, people, status
from rqmail.cli.errors import WRONG_USAGE
from rqmail.cli.parameters import Duration, TextFile
from rqmail.cli.printing import json_option, print_json
from rqmail.insight.jsonable import as_json
from rqmail.terminal.tables import console, plain
from rqmail.text.counting import counted

if TYPE_CHECKING:
    from rqmail.administration.campaigns import CampaignChanges
    from rqmail.campaigns.campaign import Creation
    from rqmail.campaigns.window import SendingWindow
    from rqmail.models.campaigns import Campaign

#: Rows that are printed for a person; all of them are in what --json prints.
_PRINTED = 20


@click.group()
def campaign() -> None:
    """One text for many people, each once, over one mailbox or several.

    Nothing is sent before `start`; `preview` and `test` show what people would get.
    """


for command in (list_, status, people, export):
    campaign.add_command(command)


@campaign.command(
    epilog="""\b
LIST is a table (CSV, .xlsx, .ods) with a column `to`; every other column is data for the templates, named in small
letters with _ for blanks: `First name` is {{ first_name }}. {{ to }} and {{ to_name }} are always there.
Templates are Jinja2; in HTML what rows say is escaped. {{ price|currency("EUR") }}, {{ day|date("long") }},
{{ total|number }} write money, days and numbers in --language.

\b
Examples:
  rqmail campaign create spring --mailbox news --subject "Hello {{ name }}" --html-file mail.html --recipients list.csv
  rqmail campaign create spring --mailbox news --mailbox events --subject Hi --text-file mail.txt \\
    --recipients list.xlsx --column to=E-mail --between 08:00-20:00 --weekdays mon-fri --timezone Europe/Amsterdam
  rqmail campaign create spring --mailbox news --subject Hi --html-file m.html --recipients list.csv --dry-run""",
)
@click.argument("name")
@click.option("--mailbox", "mailboxes", multiple=True, required=True, metavar="KEY", help="A member of the pool.")
@click.option("--subject", required=True, metavar="TEMPLATE", help="The subject.")
@click.option("--html-file", type=TextFile(), help="The HTML template.")
@click.option("--text-file", type=TextFile(), help="The text template.")
@click.option("--recipients", type=click.File("rb"), required=True, metavar="LIST", help="Who gets it.")
@click.option("--language", default="en", show_default=True, help="Of dates, numbers and money.")
@click.option("--at", metavar="ISO8601", help="Not before this moment, once it is started.")
@click.option("--expires", metavar="ISO8601", help="Nobody gets it after this moment.")
@click.option("--between", metavar="HH:MM-HH:MM", help="Send at these hours only.")
@click.option("--weekdays", metavar="DAYS", help="Send on these days only: mon-fri, or mon,wed.")
@click.option("--timezone", metavar="ZONE", help="Whose hours and days these are; default RQMAIL_TIMEZONE.")
@click.option("--not-within", type=Duration(), help="Not to who had mail of another campaign so lately, such as 24h.")
@click.option("--sticky", is_flag=True, help="The same person always hears from the same mailbox.")
@click.option("--unsubscribe", is_flag=True, help="Add links with which people can unsubscribe; needs RQMAIL_WEB_URL.")
@click.option("--reply-to", multiple=True, metavar="ADDRESS", help="Where answers go.")
@click.option(
    "--priority",
    type=click.Choice(["low", "normal"]),
    default="low",
    show_default=True,
    help="Low goes behind all other mail of its mailboxes.",
)
@click.option("--column", "columns", multiple=True, metavar="to=THEIRS", help="What the list calls its addresses.")
@click.option("--encoding", metavar="NAME", help="The encoding of the list; otherwise it is found out.")
@click.option("--delimiter", type=click.Choice([",", ";", "tab", "|"]), help="What stands between its cells.")
@click.option("--sheet", metavar="NAME", help="The sheet of a spreadsheet; otherwise the first.")
@click.option("--skip-invalid", is_flag=True, help="Leave out rows that cannot be used.")
@click.option("--dry-run", is_flag=True, help="Check everything, store nothing; exits with 2 when a row is bad.")
@json_option
def create(
    name: str,
    recipients: IO[bytes],
    columns: tuple[str, ...],
    encoding: str | None,
    delimiter: str | None,
    sheet: str | None,
    *,
    skip_invalid: bool,
    dry_run: bool,
    json_: bool,
    **settings: Any,
) -> None:
    """Create a draft for the people of LIST: all of them, or nothing if a row is wrong."""
    from rqmail.campaigns.audience import ListReading  # noqa: PLC0415 - as in _changes

    reading = ListReading(_address_column(columns), encoding, delimiter, sheet)
    wanted = _wanted(name, settings)
    with _progress(show=sys.stderr.isatty() and not json_) as on_progress:
        made = _changes().create(
            wanted,
            _rewindable(recipients),
            reading,
            skip_invalid=skip_invalid,
            dry_run=dry_run,
            on_progress=on_progress,
        )
    if json_:
        print_json(as_json(made) | {"dryRun": dry_run})
    else:
        _tell(made, dry_run=dry_run)
    if made.invalid and not skip_invalid:
        raise click.exceptions.Exit(WRONG_USAGE)


def _wanted(name: str, settings: dict[str, Any]) -> Any:
    from rqmail.campaigns.campaign import NewCampaign  # noqa: PLC0415 - as in _changes

    window = _window(settings.pop("between"), settings.pop("weekdays"), settings.pop("timezone"))
    return NewCampaign(
        name=name,
        window=window,
        html=settings.pop("html_file"),
        text=settings.pop("text_file"),
        not_within_hours=_hours(settings.pop("not_within")),
        **settings,
    )


def _address_column(columns: tuple[str, ...]) -> str:
    named = "to"
    for one in columns:
        ours, equals, theirs = one.partition("=")
        if ours.strip() != "to" or not equals or not theirs.strip():
            raise click.UsageError(f"--column {one!r}: write to=THEIRS; every other column is data under its own name.")
        named = theirs.strip()
    return named


def _rewindable(file: IO[bytes]) -> IO[bytes]:
    import io  # noqa: PLC0415 - standard input alone

    return file if file.seekable() else io.BytesIO(file.read())


def _window(between: str | None, weekdays: str | None, zone: str | None) -> SendingWindow | None:
    from rqmail.campaigns.window import parse_window  # noqa: PLC0415 - as in _changes

    return parse_window(between, weekdays, zone, usual_zone=application().settings.timezone)


def _hours(not_within: Any) -> int | None:
    if not_within is None:
        return None
    seconds = not_within.total_seconds()
    if seconds % 3600:
        raise click.UsageError("--not-within: write whole hours or days, such as 24h or 7d.")
    return int(seconds // 3600)


def _changes() -> CampaignChanges:
    return application().campaign_changes.by(COMMAND_LINE)


def _tell(made: Creation, *, dry_run: bool) -> None:
    if made.errors:
        what = "nothing was stored" if made.is_refused else "they are left out"
        click.echo(f"Error: {made.invalid:,} of {counted(made.rows, 'row', 'rows')} cannot be used; {what}.", err=True)
        for one in made.errors[:_PRINTED]:
            click.echo(f"  row {one.row}, {one.column}: {one.message}", err=True)
        if made.invalid > _PRINTED:
            click.echo(f"  … and {made.invalid - _PRINTED:,} more; --json tells them.", err=True)
    for number, told, what in (
        (made.duplicates, made.repeated, "repeat a person named before and are left out"),
        (made.suppressed, made.suppressed_rows, "are of people who get no mail (`rqmail suppression list`)"),
    ):
        if number:
            click.echo(f"{counted(number, 'row', 'rows')} {what}:", err=True)
            for one in told[:_PRINTED]:
                click.echo(f"  row {one.row}: {one.message}", err=True)
    for field, empty in made.empty.items():
        click.echo(
            f"{field} is empty in {counted(len(empty), 'row', 'rows')}, the first of them row {empty[0]}.", err=True
        )
    if made.id is not None:
        click.echo(f"Campaign {made.name!r} is a draft for {counted(made.recipients, 'person', 'people')}.")
        click.echo(f"`rqmail campaign preview '{made.name}'` shows it, `… start '{made.name}'` sends it.", err=True)
    elif dry_run and not made.invalid:
        people = counted(made.recipients, "person", "people")
        click.echo(f"{people} would get it; nothing was stored (--dry-run).")


@contextmanager
def _progress(*, show: bool) -> Iterator[Callable[[int, int], None]]:
    if not show:
        yield lambda _done, _of: None
        return
    from rich.progress import Progress  # noqa: PLC0415 - on a terminal alone

    with Progress(console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("people stored", total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


# --- tried ----------------------------------------------------------------------------------------------------------


@campaign.command(epilog="Example: rqmail campaign preview spring --row 17")
@click.argument("name")
@click.option("--row", type=int, default=1, show_default=True, help="Whose mail: 1 is the first person of the list.")
@json_option
def preview(name: str, row: int, *, json_: bool) -> None:
    """Show what one person gets. Nothing is sent."""
    shown = application().campaigns.preview(name, row)
    if json_:
        print_json(shown)
        return
    out = console()
    out.print(plain(f"     to: {shown.address}"))
    out.print(plain(f"   from: {shown.sender}"))
    out.print(plain(f"subject: {shown.subject}"))
    for header, value in shown.headers:
        out.print(plain(f"{header}: {value}"))
    for what, body in (("text", shown.text), ("html", shown.html)):
        if body is not None:
            out.print(f"\n--- {what}")
            for line in body.splitlines():
                out.print(plain(line))


@campaign.command(epilog="Example: rqmail campaign test spring --to me@voorbeeld.nl --row 17")
@click.argument("name")
@click.option("--to", required=True, metavar="ADDRESS", help="Who gets the mail of that person.")
@click.option("--row", type=int, default=1, show_default=True, help="Whose mail: 1 is the first person of the list.")
@json_option
def test(name: str, to: str, row: int, *, json_: bool) -> None:
    """Send one person's mail to somebody else, marked as a test and not counted."""
    message_id = _changes().test(name, to, row)
    if json_:
        print_json({"id": message_id})
    else:
        click.echo(message_id)


# --- steered --------------------------------------------------------------------------------------------------------


def _steering(verb: str, help_: str, said: str) -> click.Command:
    @click.command(verb, help=help_, epilog=f"Example: rqmail campaign {verb} spring")
    @click.argument("name")
    @json_option
    def steer(name: str, *, json_: bool) -> None:
        _steered(getattr(_changes(), verb)(name), said, json_=json_)

    return steer


def _steered(campaign: Campaign, said: str, *, json_: bool) -> None:
    if json_:
        print_json({"id": campaign.id, "name": campaign.name, "state": campaign.state})
    else:
        click.echo(f"Campaign {campaign.name!r} {said}.")


campaign.add_command(_steering("start", "Let a draft go out; one that runs already goes on.", "goes out"))
campaign.add_command(_steering("pause", "Send nothing more, within one tick; what is in flight ends.", "is paused"))
campaign.add_command(_steering("resume", "Go on after a pause.", "goes on"))


@campaign.command(epilog="Example: rqmail campaign cancel spring --yes")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def cancel(name: str, *, yes: bool, json_: bool) -> None:
    """End a campaign for good: what is in flight ends, nobody else gets it."""
    if not yes:
        waiting = application().campaign_progress.show(name).waiting
        click.confirm(
            f"{counted(waiting, 'person', 'people')} will not get it, and it cannot go on. Cancel?",
            abort=True,
            err=True,
        )
    _steered(_changes().cancel(name), "is cancelled", json_=json_)


@campaign.command("retry-failed", epilog="Example: rqmail campaign retry-failed spring")
@click.argument("name")
@json_option
def retry_failed(name: str, *, json_: bool) -> None:
    """Send again what ended in ERROR or was discarded; never what was, or may have been, sent."""
    again = _changes().retry_failed(name)
    if json_:
        print_json({"again": again})
    else:
        click.echo(f"{counted(again, 'message', 'messages')} will be sent again.")


@campaign.command(
    "set", epilog="Example: rqmail campaign set spring --mailbox news --mailbox events --between 08:00-20:00"
)
@click.argument("name")
@click.option("--mailbox", "mailboxes", multiple=True, metavar="KEY", help="The pool from now on; names all of it.")
@click.option("--at", metavar="ISO8601", help="Not before this moment.")
@click.option("--expires", metavar="ISO8601", help="Nobody gets it after this moment; `never` takes it away.")
@click.option("--between", metavar="HH:MM-HH:MM", help="Send at these hours only; `always` at any.")
@click.option("--weekdays", metavar="DAYS", help="Send on these days only.")
@click.option("--timezone", metavar="ZONE", help="Whose hours and days these are; default RQMAIL_TIMEZONE.")
@click.option("--not-within", type=Duration(), help="Not to who had mail of another campaign so lately.")
@json_option
def set_(
    name: str,
    mailboxes: tuple[str, ...],
    at: str | None,
    expires: str | None,
    between: str | None,
    weekdays: str | None,
    timezone: str | None,
    not_within: Any,
    *,
    json_: bool,
) -> None:
    """Change the pool or when it sends, also while it runs."""
    changes: dict[str, Any] = {}
    if at is not None:
        changes["at"] = at
    if expires is not None:
        changes["expires"] = None if expires == "never" else expires
    if between == "always":
        changes["window"] = None
    elif between is not None or weekdays is not None or timezone is not None:
        changes["window"] = _window(between, weekdays, timezone)
    if not_within is not None:
        changes["not_within_hours"] = _hours(not_within)
    changed = _changes().change(name, mailboxes=mailboxes or None, **changes)
    _steered(changed, "is changed", json_=json_)


@campaign.command(epilog="Example: rqmail campaign clone spring autumn")
@click.argument("name")
@click.argument("new_name")
@json_option
def clone(name: str, new_name: str, *, json_: bool) -> None:
    """Make a draft NEW_NAME with the template, the settings and the people of NAME."""
    _steered(_changes().clone(name, new_name), f"is a draft like {name!r}", json_=json_)


@campaign.command(epilog="Example: rqmail campaign delete spring")
@click.argument("name")
@json_option
def delete(name: str, *, json_: bool) -> None:
    """Delete a draft with its list; a campaign that was started can only be cancelled."""
    _changes().delete(name)
    if json_:
        click.echo(json.dumps({"deleted": name}, ensure_ascii=False))
    else:
        click.echo(f"Campaign {name!r} is deleted.")
