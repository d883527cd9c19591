"""Messages: looked at, cancelled, sent again, decided about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from rqmail.administration import messages
from rqmail.administration.audit import COMMAND_LINE
from rqmail.administration.export import as_csv
from rqmail.administration.messages import BulkActionName, Filter, MessageLine, MessageView
from rqmail.bootstrap import application
from rqmail.cli.parameters import sender, sender_options
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.cli.showing import print_view
from rqmail.insight.jsonable import as_json
from rqmail.insight.spreadsheet import delimiter_named
from rqmail.intake.sender_rules import require_sender
from rqmail.models.message import MessageStatus
from rqmail.terminal.tables import moment, plain, table
from rqmail.text.counting import counted

if TYPE_CHECKING:  # it brings the mailers with it, which looking does not need
    from rqmail.administration.changes import Changes

_STATES = click.Choice(
    ["SCHEDULED", "QUEUED", "SENDING", "SENT", "ERROR", "UNKNOWN", "CANCELLED", "EXPIRED"], case_sensitive=False
)


def _filter_options(function: Any) -> Any:
    for option in (
        click.option("--subject", metavar="TEXT", help="Only with this in the subject."),
        click.option("--import", "import_id", metavar="ID", help="Only what came with this import."),
        click.option("--recipient", metavar="ADDRESS", help="Only to this address."),
        sender_options,
        click.option("--status", type=_STATES, help="Only in this state."),
        click.option(
            "-q",
            "--search",
            metavar="TEXT",
            help="An address or part of one, a domain, a name, a subject, a message id, a request-id.",
        ),
    ):
        function = option(function)
    return function


@click.group()
def message() -> None:
    """Messages and what may be done to them."""


@message.command()
@click.argument("message_id", metavar="ID")
@json_option
def show(message_id: str, *, json_: bool) -> None:
    """Show one message: where it is, why, and every attempt to send it."""
    app = application()
    view = messages.show(message_id)
    wait = messages.wait_of(view, app.waiting)
    if json_:
        print_json(as_json(view) | as_json(wait))
    else:
        print_view(view, wait, app.clock())


@message.command("list", epilog="Example: rqmail message list --status ERROR --mailbox news --limit 20")
@_filter_options
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--after", metavar="ID", help="Begin after this message: the last one of the page before.")
@json_option
def list_(limit: int, after: str | None, *, json_: bool, **wanted: Any) -> None:
    """List messages, newest first."""
    now = application().clock()
    lines = messages.find(_filter(**wanted), limit=limit, after=after)
    if json_:
        print_json(lines)
        return
    shown = table(
        "id",
        "status",
        "sender",
        "to",
        "when",
        "tries",
        "subject",
        "why",
        right=("tries",),
        folds=("to", "subject", "why"),
        drops=("tries", "why", "when", "sender", "to", "subject"),
    )
    for line in lines:
        why = line.last_error or line.waiting_for or ""
        shown.add_row(
            line.id,
            line.status.value,
            line.sender,
            plain(_recipients(line)),
            moment(line.sent_on or line.scheduled_on, now),
            str(line.attempts),
            plain(line.subject),
            plain(why),
        )
    print_table(shown, "No message matches; without filters all are listed. Hand one in with `rqmail send`.")


@message.command(epilog="Example: rqmail message export --mailbox news --delimiter ';' --output messages.csv")
@_filter_options
@click.option("--delimiter", default=",", metavar="CHAR", help="What stands between cells: , ; | or tab.")
@click.option("-o", "--output", type=click.File("wb"), default="-", help="A file; standard output if left out.")
def export(output: BinaryIO, delimiter: str, **wanted: Any) -> None:
    """Write messages with their recipients as CSV that a spreadsheet opens, newest first."""
    application()
    for line in as_csv(_filter(**wanted), delimiter_named(delimiter)):
        output.write(line.encode())


@message.command(epilog="Example: rqmail message cancel --all --mailbox news --dry-run")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "all_", is_flag=True, help="Everything that matches the options.")
@_filter_options
@click.option("--dry-run", is_flag=True, help="Only count what would be cancelled.")
@json_option
def cancel(ids: tuple[str, ...], *, all_: bool, dry_run: bool, json_: bool, **wanted: Any) -> None:
    """Cancel messages that have not begun to be sent."""
    _act(
        ids,
        "cancelled",
        "cancel",
        one=lambda changes, message_id: changes.cancel_message(message_id),
        wanted=wanted,
        all_=all_,
        dry_run=dry_run,
        json_=json_,
    )


@message.command(epilog="Example: rqmail message requeue --all --status ERROR")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "all_", is_flag=True, help="Everything that matches the options.")
@_filter_options
@click.option("--dry-run", is_flag=True, help="Only count what would be sent again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def requeue(ids: tuple[str, ...], *, all_: bool, dry_run: bool, yes: bool, json_: bool, **wanted: Any) -> None:
    """Send again, from the first attempt on, what ended in ERROR, CANCELLED or EXPIRED.

    With --all what ended in ERROR, unless --status names another. A message still expires when it was to: one whose
    moment has passed is sent again only when its id is given.
    """
    _act(
        ids,
        "scheduled again",
        "requeue",
        one=lambda changes, message_id: changes.requeue_message(message_id),
        wanted=wanted,
        all_=all_,
        dry_run=dry_run,
        json_=json_,
        sure=yes,
    )


_DECISIONS: dict[str, tuple[BulkActionName, str]] = {
    "sent": ("confirm-sent", "confirmed as sent"),
    "resend": ("resend", "scheduled to be sent again"),
    "discard": ("discard", "discarded"),
}


@message.command(
    epilog="""\b
Examples:
  rqmail message resolve 0190… sent
  rqmail message resolve sent --all --mailbox news --dry-run"""
)
@click.argument("arguments", nargs=-1, required=True, metavar="[ID]... DECISION")
@click.option("--all", "all_", is_flag=True, help="Everything undecided that matches the options.")
@_filter_options
@click.option("--dry-run", is_flag=True, help="Only count what would be decided.")
@json_option
def resolve(arguments: tuple[str, ...], *, all_: bool, dry_run: bool, json_: bool, **wanted: Any) -> None:
    """Decide about UNKNOWN messages. DECISION: sent (it was), resend (send it again), discard (leave it)."""
    *ids, decision = arguments
    if decision not in _DECISIONS:
        raise click.UsageError(f"{decision!r} is no decision; end with one of {', '.join(_DECISIONS)}.")
    action, what = _DECISIONS[decision]
    if len(ids) == 1 and not all_ and not dry_run:
        view = application().changes.by(COMMAND_LINE).resolve_message(ids[0], messages.Decision(decision))
        if json_:
            print_json(view)
        else:
            click.echo(f"{view.id} is {view.status.value}.")
        return
    _act(
        tuple(ids),
        what,
        action,
        one=lambda changes, message_id: changes.resolve_message(message_id, messages.Decision(decision)),
        wanted=wanted,
        all_=all_,
        dry_run=dry_run,
        json_=json_,
    )


def _act(
    ids: tuple[str, ...],
    what: str,
    action: BulkActionName,
    *,
    one: Callable[[Changes, str], MessageView],
    wanted: dict[str, Any],
    all_: bool,
    dry_run: bool,
    json_: bool,
    sure: bool = True,
) -> None:
    """Act on the ids one by one, or with ``--all`` on whatever matches; asks first unless it is ``sure``."""
    filtered = any(value is not None for value in wanted.values())
    if all_ == bool(ids):
        raise click.UsageError("Give message ids, or --all with options that say which.")
    if ids and (filtered or dry_run):
        raise click.UsageError("Options that choose messages, and --dry-run, belong to --all.")
    changes = application().changes.by(COMMAND_LINE)
    if not all_:
        count = len([one(changes, message_id) for message_id in ids])
    elif dry_run:
        count = changes.count_bulk(action, _filter(**wanted))
    else:
        if not sure:
            _ask(changes.count_bulk(action, _filter(**wanted)), what)
        shown = {name: value for name, value in wanted.items() if value is not None}
        count = changes.bulk(action, _filter(**wanted), shown)
    if json_:
        print_json({"count": count, "dryRun": dry_run})
    else:
        click.echo(f"{_would_be(count) if dry_run else counted(count, 'message was', 'messages were')} {what}.")


def _ask(count: int, what: str) -> None:
    """Ask whether so many messages are meant; where nobody can be asked, ``--yes`` has to say it."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{_would_be(count)} {what}: give --yes, or --dry-run to only count them.")
    click.confirm(f"{counted(count, 'message is', 'messages are')} {what}. Go on?", abort=True, err=True)


def _would_be(count: int) -> str:
    return counted(count, "message would be", "messages would be")


def _filter(**wanted: Any) -> Filter:
    """Make the filter; a sender that does not exist and never sent anything is an error, not an empty answer."""
    made = _make_filter(**wanted)
    if made.sender is not None and not messages.count(Filter(sender=made.sender)):
        require_sender(made.sender)
    return made


def _make_filter(
    status: str | None,
    mailbox: str | None,
    tenant: str | None,
    recipient: str | None,
    subject: str | None,
    search: str | None,
    import_id: str | None,
) -> Filter:
    return Filter(
        status=None if status is None else MessageStatus(status.upper()),
        sender=None if mailbox is tenant is None else sender(mailbox, tenant),
        recipient=recipient,
        subject=subject,
        search=search,
        import_id=import_id,
    )


def _recipients(line: MessageLine) -> str:
    more = f" (+{line.recipient_count - 1})" if line.recipient_count > 1 else ""
    return (line.first_recipient or "") + more
