"""Tokens: who may use the API and sign in to the pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from rqmail.administration.access import Scope
from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.parameters import Duration
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.insight.jsonable import as_json
from rqmail.terminal.tables import plain, table


@click.group()
def token() -> None:
    """Tokens for the API and the pages."""


@token.command("list")
@json_option
def list_(*, json_: bool) -> None:
    """List the named tokens, the revoked ones too; never the tokens themselves."""
    views = application().access.tokens()
    if json_:
        print_json(views)
        return
    shown = table(
        "name",
        "scopes",
        "mailboxes",
        "created",
        "last used",
        "expires",
        "revoked",
        folds=("scopes", "mailboxes"),
        drops=("created", "last used"),
    )
    for view in views:
        shown.add_row(
            plain(view.name),
            ", ".join(view.scopes),
            "all" if view.mailboxes is None else plain(", ".join(view.mailboxes)),
            _moment(view.created_on),
            _moment(view.last_used_on),
            _moment(view.expires_on),
            _moment(view.revoked_on),
        )
    print_table(shown, "No named token yet: make one with `rqmail token create NAME --scope send`.")


@token.command(epilog="Example: rqmail token create erp --scope send --mailbox invoices --expires-in 365d")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="send hands mail in, read looks at everything, admin does all of it; may be repeated.",
)
@click.option(
    "--mailbox",
    "mailboxes",
    multiple=True,
    metavar="KEY",
    help="Hand in and see its mail alone; may be repeated.",
)
@click.option("--expires-in", type=Duration(), help="How long it holds; without this until it is revoked.")
@json_option
def create(
    name: str, scopes: tuple[str, ...], mailboxes: tuple[str, ...], expires_in: timedelta | None, *, json_: bool
) -> None:
    """Issue a token named NAME and print it: it cannot be shown again."""
    app = application()
    expires_on = None if expires_in is None else app.clock() + expires_in
    view, issued = app.changes.by(COMMAND_LINE).create_token(name, scopes, expires_on, mailboxes)
    if json_:
        print_json(as_json(view) | {"token": issued})
    else:
        click.echo(issued)


@token.command(epilog="Example: rqmail token revoke webshop")
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke the token named NAME."""
    application().changes.by(COMMAND_LINE).revoke_token(name)
    click.echo(f"Token {name} was revoked.")


def _moment(value: datetime | None) -> str:
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M}Z"
