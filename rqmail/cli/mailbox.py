"""System mailboxes: who may send, and how much."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rqmail.administration.audit import COMMAND_LINE
from rqmail.administration.fields import MAX_PRUNE_DAYS
from rqmail.administration.mailboxes import MailboxView
from rqmail.bootstrap import application
from rqmail.cli.checking import check_senders
from rqmail.cli.parameters import Duration, Limit, Until
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
from rqmail.insight.checked import last_check, last_checks
from rqmail.insight.jsonable import as_json
from rqmail.models.mailbox import SentItems
from rqmail.ratelimit.limits import above_exchange
from rqmail.terminal.tables import moment, plain, table

if TYPE_CHECKING:  # it brings the mailers with it, which looking does not need
    from rqmail.administration.changes import Changes

_FIELDS = {
    "per_minute": "rate_limit_per_minute",
    "recipients_per_day": "rate_limit_recipients_per_day",
    "pacing": "pacing",
    "max_message_bytes": "max_message_bytes",
    "sent_items": "sent_items",
    "prune_after_days": "prune_after_days",
}

_pacing_option = click.option(
    "--pacing",
    type=click.Choice(["even", "burst", "default"]),
    help="Give a minute's places out over the minute, or at once; `default` for what RQMAIL_PACING says.",
)


_sent_items_option = click.option(
    "--sent-items",
    type=click.Choice([mode.value for mode in SentItems]),
    help="What becomes of copies in Sent Items: kept, none made, or pruned some days after a mail is settled.",
)
_prune_option = click.option(
    "--prune-after-days", type=click.IntRange(1, MAX_PRUNE_DAYS), help="After how many days; with --sent-items prune."
)

_size_option = click.option(
    "--max-message-bytes",
    type=Limit(),
    help="Bytes of one message as it is sent, files as base64; `default` for what RQMAIL_MAX_MESSAGE_BYTES says.",
)


@click.group()
def mailbox() -> None:
    """System mailboxes and their limits."""


@mailbox.command("list")
@json_option
def list_(*, json_: bool) -> None:
    """List the mailboxes and their limits; `rqmail status` shows what is used of them."""
    app = application()
    views, checks = app.mailboxes.all(), last_checks()
    if json_:
        print_json([as_json(view) | {"check": as_json(checks.get(f"mailbox:{view.key}"))} for view in views])
        return
    shown = table(
        "key",
        "address",
        "per minute",
        "recipients/day",
        "message bytes",
        "sent items",
        "paused",
        "check",
        right=("per minute", "recipients/day", "message bytes"),
        folds=("address", "paused"),
        drops=("sent items", "message bytes", "check", "paused", "address"),
    )
    defaults = app.overview.defaults
    for view in views:
        shown.add_row(
            view.key,
            view.address,
            _limit(view.rate_limit_per_minute, defaults.per_minute),
            _limit(view.rate_limit_recipients_per_day, defaults.recipients_per_day),
            _limit(view.max_message_bytes, app.settings.max_message_bytes),
            _sent_items(view),
            plain(f"{moment(view.paused_until, app.clock())}: {view.pause_reason}" if view.paused_until else ""),
            checked_word(checks, f"mailbox:{view.key}"),
        )
    print_table(shown, "No mailbox yet: add one with `rqmail mailbox add KEY --address ADDRESS`.")


@mailbox.command(epilog="Example: rqmail mailbox add news --address nieuws@voorbeeld.nl --per-minute 20")
@click.argument("key")
@click.option("--address", required=True, help="The mail address of the mailbox.")
@click.option("--per-minute", type=Limit(), default="default", help="sendMail calls a minute.")
@click.option("--recipients-per-day", type=Limit(), default="default", help="Recipients in 24 hours.")
@_pacing_option
@_size_option
@_sent_items_option
@_prune_option
@no_check_option
@json_option
def add(
    key: str,
    address: str,
    per_minute: int | str,
    recipients_per_day: int | str,
    pacing: str | None,
    max_message_bytes: int | str | None,
    sent_items: str | None,
    prune_after_days: int | None,
    *,
    no_check: bool,
    json_: bool,
) -> None:
    """Add a mailbox named KEY."""
    fields = _given(
        per_minute=per_minute,
        recipients_per_day=recipients_per_day,
        pacing=pacing,
        max_message_bytes=max_message_bytes,
        sent_items=sent_items,
        prune_after_days=prune_after_days,
    )
    view = application().changes.by(COMMAND_LINE).add_mailbox(key, address, **fields)
    _saved(view, f"Mailbox {key} was added.", is_another=True, ask=not no_check, json_=json_)


@mailbox.command(
    "set",
    epilog="""\b
Examples:
  rqmail mailbox set news --per-minute default
  rqmail mailbox set news --per-minute 5 --until tonight""",
)
@click.argument("key")
@click.option("--address", help="Another mail address.")
@click.option("--per-minute", type=Limit(), help="sendMail calls a minute; `default` for none of its own.")
@click.option("--recipients-per-day", type=Limit(), help="Recipients in 24 hours; `default` for none of its own.")
@click.option(
    "--until",
    type=Until(),
    help="Until when the limits hold, to go back by themselves: 2026-12-24T18:00+01:00, tonight, or for-good.",
)
@_pacing_option
@_size_option
@_sent_items_option
@_prune_option
@no_check_option
@json_option
def set_(
    key: str,
    address: str | None,
    per_minute: int | str | None,
    recipients_per_day: int | str | None,
    pacing: str | None,
    max_message_bytes: int | str | None,
    sent_items: str | None,
    prune_after_days: int | None,
    *,
    until: datetime | str | None,
    no_check: bool,
    json_: bool,
) -> None:
    """Change a mailbox; what is left out stays. Every process obeys within a second or two."""
    changes: dict[str, Any] = _given(
        per_minute=per_minute,
        recipients_per_day=recipients_per_day,
        pacing=pacing,
        max_message_bytes=max_message_bytes,
        sent_items=sent_items,
        prune_after_days=prune_after_days,
    )
    if address is not None:
        changes["address"] = address
    if until is not None:
        changes["limits_until"] = until if isinstance(until, datetime) else None
    if not changes:
        raise click.UsageError(
            "Nothing to change: give --address, --per-minute, --recipients-per-day, --until, --pacing,"
            " --max-message-bytes, --sent-items or --prune-after-days."
        )
    view = _changes().set_mailbox(key, **changes)
    held = f" Its limits go back {moment(view.limits_until, application().clock())}." if view.limits_until else ""
    _saved(view, f"Mailbox {key} was changed.{held}", is_another=address is not None, ask=not no_check, json_=json_)
    warn_of_left_behind(_changes().left_behind(f"mailbox:{key}"))


@mailbox.command(epilog='Example: rqmail mailbox pause news --reason "wrong list" --duration 2h')
@click.argument("key")
@click.option("--reason", required=True, help="Why; shown wherever somebody asks.")
@click.option("--duration", type=Duration(), help="For how long (90s, 5m, 2h, 3d); otherwise until it is resumed.")
@json_option
def pause(key: str, reason: str, duration: timedelta | None, *, json_: bool) -> None:
    """Send nothing from a mailbox for a while; its mail waits."""
    view = _changes().pause_mailbox(key, reason, duration)
    _done(
        view, f"Mailbox {key} is paused {'for ' + str(duration) if duration else 'until it is resumed'}.", json_=json_
    )


@mailbox.command()
@click.argument("key")
@json_option
def resume(key: str, *, json_: bool) -> None:
    """End a pause, a person's or one after errors of the provider."""
    _done(_changes().resume_mailbox(key), f"Mailbox {key} sends again.", json_=json_)


@mailbox.command()
@click.argument("key")
@json_option
def reset(key: str, *, json_: bool) -> None:
    """Forget what was counted against a mailbox's budget. Exchange does not forget: use it for tests only."""
    _done(
        _changes().reset_mailbox(key),
        f"Mailbox {key} starts with its full budget.",
        json_=json_,
    )


@mailbox.command()
@click.argument("key")
@json_option
def delete(key: str, *, json_: bool) -> None:
    """Remove a mailbox; refused while mail of it waits."""
    _changes().delete_mailbox(key)
    _done({"key": key}, f"Mailbox {key} was removed.", json_=json_)


@mailbox.command()
@click.argument("key")
@json_option
def explain(key: str, *, json_: bool) -> None:
    """Say why mail of a mailbox goes out or does not, and what is left of its budget."""
    show_standing(application().overview.mailbox(key), json_=json_)


@mailbox.command(epilog="Example: rqmail mailbox check --all")
@click.argument("key", required=False)
@click.option("--all", "all_", is_flag=True, help="Check every mailbox.")
@json_option
def check(key: str | None, *, all_: bool, json_: bool) -> None:
    """Ask Microsoft whether a mailbox exists and what we may do with it; no mail is sent.

    Exits with 1 when one cannot send.
    """
    check_senders("mailbox", key, [view.key for view in application().mailboxes.all()] if all_ else None, json_=json_)


@mailbox.command(epilog="Example: rqmail mailbox bounces news")
@click.argument("key", required=False)
@json_option
def bounces(key: str | None, *, json_: bool) -> None:
    """Show how much mail of each mailbox came back in the last 7 days; above 5 % is a warning."""
    from rqmail.insight.bouncing import bouncing  # noqa: PLC0415
    from rqmail.ratelimit.limits import mailbox_key  # noqa: PLC0415

    app = application()
    views = app.mailboxes.all() if key is None else [app.mailboxes.get(key)]
    keys = {view.key: mailbox_key(view.address) for view in views}
    found = bouncing(list(keys.values()), app.clock())
    if json_:
        print_json({"mailboxes": {name: found[budget] for name, budget in keys.items()}})
        return
    shown = table("mailbox", "recipients", "bounced", "rate", "reports", right=("recipients", "bounced", "rate"))
    for name, budget in keys.items():
        one = found[budget]
        rate = "" if one.rate is None else f"{one.rate:.1%}" + (" (warning)" if one.level == "warning" else "")
        reports = one.problem or ("not looked for yet" if one.read_to is None else "read")
        shown.add_row(name, f"{one.recipients:,}", f"{one.bounced:,}", rate, plain(reports))
    print_table(shown, "No mailbox yet: `rqmail mailbox add KEY --address ADDRESS` adds one.")


def _changes() -> Changes:
    return application().changes.by(COMMAND_LINE)


def _given(**given: int | str | None) -> dict[str, Any]:
    return {_FIELDS[name]: None if value == "default" else value for name, value in given.items() if value is not None}


def _warn_above_exchange(view: MailboxView) -> None:
    for warning in above_exchange(view.rate_limit_per_minute, view.rate_limit_recipients_per_day):
        click.echo(f"Warning: {warning}", err=True)


def _sent_items(view: MailboxView) -> str:
    return f"{view.sent_items}, {view.prune_after_days} days" if view.prune_after_days else view.sent_items


def _limit(own: int | None, default: int) -> str:
    return f"{default:,} (default)" if own is None else f"{own:,}"


def _saved(view: MailboxView, text: str, *, is_another: bool, ask: bool, json_: bool) -> None:
    """Tell what was saved and, where it ``is_another`` mailbox by now, what Microsoft says about it."""
    sender = f"mailbox:{view.key}"
    found = application().checks.check_saved(sender, ask=ask) if is_another else last_check(sender)
    _done(as_json(view) | {"check": as_json(found)}, text, json_=json_)
    _warn_above_exchange(view)
    if is_another:
        warn_of_check(found)


def _done(view: object, text: str, *, json_: bool) -> None:
    if json_:
        print_json(view)
    else:
        click.echo(text)
