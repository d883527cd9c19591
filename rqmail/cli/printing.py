"""What commands print for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rqmail.clock import utc_now
from rqmail.insight.jsonable import as_json
from rqmail.insight.standing import SenderStatus
from rqmail.terminal.tables import FittingTable, console, denied, moment, plain

if TYPE_CHECKING:  # what changes things brings the mailers with it, which most commands never need
    from rqmail.administration.changes import LeftBehind
    from rqmail.insight.checked import CheckView

_F = TypeVar("_F", bound=Callable[..., Any])


def json_option(function: _F) -> _F:
    """Add ``--json`` to a command."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON for programs.")(function)


def no_check_option(function: _F) -> _F:
    """Add ``--no-check`` to a command that saves a sender."""
    return click.option("--no-check", is_flag=True, help="Do not ask the provider whether it would send.")(function)


def print_json(value: object, *, one_line: bool = False) -> None:
    """Print a value of the read side as JSON."""
    click.echo(json.dumps(as_json(value), ensure_ascii=False, indent=None if one_line else 2))


def print_table(shown: FittingTable, empty: str) -> None:
    """Print a table for people; of an empty one say on stderr what to do next."""
    if shown.row_count:
        console().print(shown)
    else:
        click.echo(empty, err=True)


def show_check(check: CheckView) -> None:
    """Print what the provider said about a sender."""
    out = console()
    answers = (("exists", check.exists), ("may send", check.may_send), ("may read", check.may_read))
    words = {True: "yes", False: "no", None: "not known"}
    told = (*answers, ("may write drafts", check.may_write))
    out.print(plain(", ".join(f"{name}: {words[answer]}" for name, answer in told)))
    if check.problem:
        out.print(plain(f"{check.level}: {check.problem}"))


def checked_word(checks: Mapping[str, CheckView], sender: str) -> str:
    """Say in one word what the last check of a sender found; nothing where there was none."""
    return checks[sender].level if sender in checks else ""


def warn_of_check(check: CheckView | None) -> None:
    """Tell a person, on stderr, what the provider has against what was just saved."""
    if check is not None and check.problem and check.outcome != "not-known":
        click.echo(f"Saved, but the check says: {check.problem}", err=True)


def warn_of_left_behind(left: LeftBehind) -> None:
    """Tell a person, on stderr, how many messages of unknown outcome depend on what was just changed."""
    if left.messages:
        lost = f"; {left.not_to_be_looked_up:,} cannot be looked up" if left.not_to_be_looked_up else ""
        click.echo(
            f"Messages of unknown outcome that went through what it was before: {left.messages:,}. They are looked for"
            f" there{lost}. What cannot be looked up waits for `rqmail message resolve`.",
            err=True,
        )


def show_standing(status: SenderStatus, *, json_: bool) -> None:
    """Print why a sender's mail goes out or does not, and what is left of its budget."""
    if json_:
        print_json(status)
        return
    out = console()
    out.print(status.explanation)
    if status.paused_until is not None and not status.waiting:
        out.print(plain(f"    state: {status.turn.text}"))
    budget = status.budget
    if budget is None:
        return
    if not budget.known:
        out.print("   budget: cannot be told while Redis is away")
        return
    for name, window in (("minute", budget.per_minute), ("24 h", budget.recipients_per_day)):
        out.print(f"  {name:>7}: {window.used:,} of {window.limit:,} used, {window.remaining:,} left ({window.source})")
    out.print(f"  at once: {budget.in_flight} of {budget.in_flight_limit} in flight")
    if budget.uploaded_bytes:
        uploaded, limit = budget.uploaded_bytes / 1_000_000, budget.upload_bytes_limit / 1_000_000
        out.print(f"  uploads: {uploaded:,.0f} of {limit:,.0f} MB in five minutes")
    for scope in budget.scopes:
        used = "?" if scope.used is None else f"{scope.used:,}"
        out.print(f"  {scope.name}: {used} of {scope.limit:,} external recipients in 24 h, shared with others")
    if status.denied_last_hour:
        out.print(f"   denied: {denied(status.denied_last_hour)} in the last hour")
    if status.done_on is not None:
        out.print(f"     done: about {moment(status.done_on, utc_now())}")
