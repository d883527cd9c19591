"""Tenants: whose mail leaves through whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.administration.tenants import TenantField, TenantView
from rqmail.bootstrap import application
from rqmail.cli.checking import check_senders
from rqmail.cli.parameters import Duration, Limit, secret_from
from rqmail.cli.printing import (
    checked_word,
    json_option,
    no_check_option,
    print_json,
    print_table,
    show_standing,
    warn_of_check,
    warn_of_left_behind,
)
from rqmail.insight.checked import last_checks
from rqmail.insight.jsonable import as_json
from rqmail.ratelimit.limits import above_exchange
from rqmail.terminal.tables import plain, table

_SECRET_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_FIELDS = (
    click.option("--address", help="microsoft-graph: the mailbox that sends."),
    click.option("--graph-tenant-id", help="Its Entra tenant, where it is not ours."),
    click.option("--graph-client-id", help="Its own app registration."),
    click.option("--graph-client-secret-file", type=_SECRET_FILE, help="A file with that app's secret; - is stdin."),
    click.option("--per-minute", type=Limit(), help="microsoft-graph: sendMail calls a minute, or `default`."),
    click.option("--recipients-per-day", type=Limit(), help="microsoft-graph: recipients in 24 hours, or `default`."),
    click.option("--sendgrid-from", help="sendgrid: the address mail is sent from."),
    click.option("--sendgrid-api-key-file", type=_SECRET_FILE, help="A file with the API key; - is stdin."),
)
_LIMITS = {"per_minute": "rate_limit_per_minute", "recipients_per_day": "rate_limit_recipients_per_day"}
_PROVIDERS = click.Choice(["microsoft-graph", "sendgrid", "default"])
_CLEARABLE = click.Choice(
    ["address", "graph-tenant-id", "graph-client-id", "graph-client-secret", "sendgrid-from", "sendgrid-api-key"]
)


def _field_options(function: Any) -> Any:
    for option in reversed(_FIELDS):
        function = option(function)
    return function


@click.group()
def tenant() -> None:
    """Tenants and their mail settings."""


@tenant.command("list")
@json_option
def list_(*, json_: bool) -> None:
    """List the tenants; secrets only as set or not."""
    views, checks = application().tenants.all(), last_checks()
    if json_:
        print_json([as_json(view) | {"check": as_json(checks.get(f"tenant:{view.key}"))} for view in views])
        return
    shown = table(
        "key",
        "provider",
        "address",
        "app",
        "secret",
        "check",
        folds=("address", "app"),
        drops=("check", "secret", "app", "address"),
    )
    for view in views:
        has_secret = view.has_sendgrid_api_key if view.provider == "sendgrid" else view.has_graph_client_secret
        address = view.sendgrid_from if view.provider == "sendgrid" else view.address
        secret, check = "set" if has_secret else "", checked_word(checks, f"tenant:{view.key}")
        shown.add_row(view.key, view.provider, plain(address), plain(view.graph_client_id), secret, check)
    print_table(shown, "No tenant yet: add one with `rqmail tenant add KEY --provider PROVIDER`.")


@tenant.command(
    epilog="""\b
Examples:
  rqmail tenant add acme --provider microsoft-graph --address post@acme.nl
  rqmail tenant add beta --provider sendgrid --sendgrid-from post@beta.nl --sendgrid-api-key-file -"""
)
@click.argument("key")
@click.option("--provider", type=_PROVIDERS, default="default", show_default=True, help="Through whom its mail leaves.")
@_field_options
@no_check_option
@json_option
def add(key: str, provider: str, *, no_check: bool, json_: bool, **fields: Any) -> None:
    """Add a tenant named KEY."""
    view = application().changes.by(COMMAND_LINE).add_tenant(key, provider, **_given(fields))
    _saved(view, f"Tenant {key} was added.", ask=not no_check, json_=json_)


@tenant.command("set", epilog="Example: rqmail tenant set acme --address nieuws@acme.nl --clear graph-tenant-id")
@click.argument("key")
@click.option("--provider", type=_PROVIDERS, help="Through whom its mail leaves.")
@_field_options
@click.option("--clear", multiple=True, type=_CLEARABLE, help="Empty this field; may be repeated.")
@no_check_option
@json_option
def set_(key: str, provider: str | None, clear: tuple[str, ...], *, no_check: bool, json_: bool, **fields: Any) -> None:
    """Change a tenant; what is left out stays."""
    changes = _given(fields | {"provider": provider})
    for name in clear:
        changes[name.replace("-", "_")] = None
    if not changes:
        raise click.UsageError("Nothing to change.")
    view = application().changes.by(COMMAND_LINE).set_tenant(key, **changes)
    _saved(view, f"Tenant {key} was changed.", ask=not no_check, json_=json_)
    warn_of_left_behind(application().changes.left_behind(f"tenant:{key}"))


@tenant.command()
@click.argument("key")
@json_option
def delete(key: str, *, json_: bool) -> None:
    """Remove a tenant; refused while mail of it waits."""
    application().changes.by(COMMAND_LINE).delete_tenant(key)
    if json_:
        print_json({"key": key})
    else:
        click.echo(f"Tenant {key} was removed.")


@tenant.command(epilog='Example: rqmail tenant pause acme --reason "contract ended" --duration 2h')
@click.argument("key")
@click.option("--reason", required=True, help="Why; shown wherever somebody asks.")
@click.option("--duration", type=Duration(), help="For how long (90s, 5m, 2h, 3d); otherwise until it is resumed.")
@json_option
def pause(key: str, reason: str, duration: timedelta | None, *, json_: bool) -> None:
    """Send nothing of a tenant's mail for a while; it waits."""
    view = application().changes.by(COMMAND_LINE).pause_tenant(key, reason, duration)
    if json_:
        print_json(view)
    else:
        click.echo(f"Tenant {key} is paused {f'for {duration}' if duration else 'until it is resumed'}.")


@tenant.command()
@click.argument("key")
@json_option
def resume(key: str, *, json_: bool) -> None:
    """End a pause, a person's or one after errors of the provider."""
    view = application().changes.by(COMMAND_LINE).resume_tenant(key)
    if json_:
        print_json(view)
    else:
        click.echo(f"Tenant {key} sends again.")


@tenant.command()
@click.argument("key")
@json_option
def explain(key: str, *, json_: bool) -> None:
    """Say why mail of a tenant goes out or does not, and what is left of its budget where it has one."""
    show_standing(application().overview.tenant(key), json_=json_)


@tenant.command(epilog="Example: rqmail tenant check acme")
@click.argument("key", required=False)
@click.option("--all", "all_", is_flag=True, help="Check every tenant.")
@json_option
def check(key: str | None, *, all_: bool, json_: bool) -> None:
    """Ask a tenant's provider whether it would send; no mail is sent. Exits with 1 when it cannot."""
    check_senders("tenant", key, [view.key for view in application().tenants.all()] if all_ else None, json_=json_)


def _saved(view: TenantView, text: str, *, ask: bool, json_: bool) -> None:
    """Tell what was saved; with ``ask``, what the provider says about it too."""
    found = application().checks.check_saved(f"tenant:{view.key}", ask=ask)
    if json_:
        print_json(as_json(view) | {"check": as_json(found)})
    else:
        click.echo(text)
    for warning in above_exchange(view.rate_limit_per_minute, view.rate_limit_recipients_per_day):
        click.echo(f"Warning: {warning}", err=True)
    warn_of_check(found)


def _given(fields: dict[str, Any]) -> dict[str, TenantField]:
    given: dict[str, TenantField] = {}
    for name, value in fields.items():
        if name in _LIMITS:
            if value is not None:
                given[_LIMITS[name]] = None if value == "default" else value
        elif value is not None:
            given[name.removesuffix("_file")] = secret_from(value) if name.endswith("_file") else value
    return given
