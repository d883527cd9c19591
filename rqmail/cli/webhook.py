"""Webhooks: programs that are told of what happens to mail."""

from __future__ import annotations

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.bootstrap import application
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.clock import utc_now
from rqmail.insight.jsonable import as_json
from rqmail.terminal.tables import moment, plain, table
from rqmail.text.counting import counted

_EVENTS = ["sent", "failed", "bounced", "unsubscribed", "campaign-finished", "mailbox-paused"]


@click.group()
def webhook() -> None:
    """Programs that are told of what happens to mail, by signed requests to their address (docs/webhooks.md)."""


@webhook.command(
    epilog="""\b
Examples:
  rqmail webhook add https://erp.example.org/mail-events --event failed --event bounced
  rqmail webhook add https://erp.example.org/mail-events --event sent --json"""
)
@click.argument("url")
@click.option(
    "--event", "events", multiple=True, required=True, type=click.Choice(_EVENTS), help="What to tell; repeatable."
)
@json_option
def add(url: str, events: tuple[str, ...], *, json_: bool) -> None:
    """Tell URL of these events from now on, and print the secret that signs them: it cannot be shown again."""
    view, secret = application().changes.by(COMMAND_LINE).add_webhook(url, events)
    if json_:
        print_json(as_json(view) | {"secret": secret})
        return
    click.echo(f"Webhook {view.id} is told of: {', '.join(view.events)}.")
    click.echo(f"Its secret, shown this once: {secret}")


@webhook.command("list", epilog="Example: rqmail webhook list --json")
@json_option
def list_(*, json_: bool) -> None:
    """List the webhooks, and how telling them goes; never their secrets."""
    views = application().webhooks.all()
    if json_:
        print_json({"webhooks": views})
        return
    shown = table(
        "id", "url", "events", "state", "waiting", "last delivered", folds=("url", "events"), drops=("last delivered",)
    )
    now = utc_now()
    for one in views:
        told = "" if one.delivered_on is None else moment(one.delivered_on, now)
        shown.add_row(one.id, plain(one.url), ", ".join(one.events), one.state, f"{one.waiting:,}", told)
    print_table(shown, "No webhook yet: `rqmail webhook add URL --event failed` adds one.")


@webhook.command(epilog="Example: rqmail webhook show wh_1a2b3c4d")
@click.argument("webhook_id", metavar="ID")
@json_option
def show(webhook_id: str, *, json_: bool) -> None:
    """Show the webhook ID: what it is told, and how that goes."""
    view = application().webhooks.get(webhook_id)
    if json_:
        print_json(view)
        return
    now = utc_now()
    lines = {
        "id": view.id,
        "url": view.url,
        "events": ", ".join(view.events),
        "state": view.state,
        "failing since": view.failing_since and moment(view.failing_since, now),
        "last error": view.last_error,
        "next call": view.next_call_on and moment(view.next_call_on, now),
        "last delivered": view.delivered_on and moment(view.delivered_on, now),
        "waiting": f"{view.waiting:,}",
        "created": f"{moment(view.created_on, now)} by {view.created_by}",
    }
    for name, value in lines.items():
        if value:
            click.echo(f"{name:>14}: {plain(value)}")


@webhook.command(epilog="Example: rqmail webhook remove wh_1a2b3c4d")
@click.argument("webhook_id", metavar="ID")
@json_option
def remove(webhook_id: str, *, json_: bool) -> None:
    """Tell the webhook ID nothing more, and forget what it was told."""
    was = application().changes.by(COMMAND_LINE).remove_webhook(webhook_id)
    if json_:
        print_json(was)
    else:
        click.echo(
            f"Webhook {webhook_id} was removed; {counted(was.waiting, 'event was', 'events were')} not delivered."
        )


@webhook.command(epilog="Example: rqmail webhook disable wh_1a2b3c4d")
@click.argument("webhook_id", metavar="ID")
@json_option
def disable(webhook_id: str, *, json_: bool) -> None:
    """Tell the webhook ID nothing until it is enabled: what happens meanwhile it never hears of."""
    view = application().changes.by(COMMAND_LINE).enable_webhook(webhook_id, enabled=False)
    if json_:
        print_json(view)
    else:
        click.echo(f"Webhook {webhook_id} is disabled.")


@webhook.command(epilog="Example: rqmail webhook enable wh_1a2b3c4d")
@click.argument("webhook_id", metavar="ID")
@json_option
def enable(webhook_id: str, *, json_: bool) -> None:
    """Tell the webhook ID again."""
    view = application().changes.by(COMMAND_LINE).enable_webhook(webhook_id, enabled=True)
    if json_:
        print_json(view)
    else:
        click.echo(f"Webhook {webhook_id} is enabled.")


@webhook.command(epilog="Example: rqmail webhook test wh_1a2b3c4d")
@click.argument("webhook_id", metavar="ID")
@json_option
def test(webhook_id: str, *, json_: bool) -> None:
    """Call the webhook ID once, now, with an event of type `test`; exits with 1 if it does not take it."""
    result = application().webhooks.test(webhook_id)
    if json_:
        print_json(result)
    elif result.ok:
        click.echo(f"Webhook {webhook_id} took the test: HTTP {result.status}.")
    else:
        click.echo(f"Error: webhook {webhook_id} did not take the test: {result.error}.", err=True)
    if not result.ok:
        raise click.exceptions.Exit(1)


@webhook.command(
    epilog="""\b
Examples:
  rqmail webhook deliveries wh_1a2b3c4d
  rqmail webhook deliveries wh_1a2b3c4d --failed --json"""
)
@click.argument("webhook_id", metavar="ID")
@click.option("--failed", is_flag=True, help="Only what was tried, and not taken so far.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@click.option("--after", metavar="EVENT", help="Begin after this event: nextCursor of the page before.")
@json_option
def deliveries(webhook_id: str, limit: int, after: str | None, *, failed: bool, json_: bool) -> None:
    """List the events for the webhook ID, newest first, and what became of them."""
    found = application().webhooks.deliveries(webhook_id, failed=failed, limit=limit + 1, after=after)
    following = found[limit - 1].event_id if len(found) > limit else None
    found = found[:limit]
    if json_:
        print_json({"deliveries": found, "nextCursor": following})
        return
    shown = table("event", "type", "state", "attempts", "answer", "happened", "next try", folds=("answer",))
    now = utc_now()
    for one in found:
        answer = one.error or ("" if one.status is None else f"HTTP {one.status}")
        again = "" if one.next_try_on is None else moment(one.next_try_on, now)
        shown.add_row(
            one.event_id, one.type, one.state, str(one.attempts), plain(answer), moment(one.created_on, now), again
        )
    print_table(shown, "Nothing failed." if failed else "Nothing happened that it is told of.")
    if following is not None:
        click.echo(f"There are more: --after {following} shows them.", err=True)


@webhook.command(
    epilog="""\b
Examples:
  rqmail webhook redeliver wh_1a2b3c4d --failed
  rqmail webhook redeliver wh_1a2b3c4d msg_0193a5c47b7e7d53a1f0c2b9e8d7f6a5"""
)
@click.argument("webhook_id", metavar="ID")
@click.argument("events", nargs=-1, metavar="[EVENT]...")
@click.option("--failed", is_flag=True, help="Everything that was not taken so far.")
@json_option
def redeliver(webhook_id: str, events: tuple[str, ...], *, failed: bool, json_: bool) -> None:
    """Deliver each EVENT again at once, or with --failed everything that was not taken."""
    if failed == bool(events):
        raise click.UsageError("give either ids of events, or --failed")
    number = application().changes.by(COMMAND_LINE).redeliver_webhook(webhook_id, None if failed else events)
    if json_:
        print_json({"redelivered": number})
    else:
        click.echo(f"{counted(number, 'event is', 'events are')} delivered again.")
