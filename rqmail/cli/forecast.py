"""Looking ahead: ``forecast``."""

from __future__ import annotations

import click

from rqmail.bootstrap import application
from rqmail.cli.printing import json_option, print_json, print_table
from rqmail.clock import utc_now
from rqmail.insight.planning import MOST_MESSAGES, MOST_PER_DAY, MOST_PER_MINUTE, MOST_RECIPIENTS_EACH, Plan
from rqmail.intake.moments import moment_of
from rqmail.terminal.tables import console, moment, plain, table
from rqmail.text.counting import counted


@click.command(
    epilog="""\b
Examples:
  rqmail forecast
  rqmail forecast --mailbox news --mailbox events --messages 12400
  rqmail forecast --mailbox news --messages 20000 --per-minute 20 --at 2026-12-24T08:00:00+01:00 --json"""
)
@click.option("--mailbox", "mailboxes", multiple=True, metavar="KEY", help="Of this mailbox; otherwise of all of them.")
@click.option(
    "--messages",
    type=click.IntRange(0, MOST_MESSAGES),
    default=0,
    metavar="N",
    help="What if so many more were handed in.",
)
@click.option(
    "--recipients-each",
    type=click.IntRange(1, MOST_RECIPIENTS_EACH),
    default=1,
    metavar="M",
    help="How many recipients each of them has.",
)
@click.option(
    "--per-minute",
    type=click.IntRange(1, MOST_PER_MINUTE),
    metavar="N",
    help="What if each mailbox might send so many a minute.",
)
@click.option(
    "--recipients-per-day",
    type=click.IntRange(1, MOST_PER_DAY),
    metavar="N",
    help="What if each might address so many a day.",
)
@click.option("--at", metavar="ISO8601", help="When the further messages begin.")
@json_option
def forecast(
    mailboxes: tuple[str, ...],
    messages: int,
    recipients_each: int,
    per_minute: int | None,
    recipients_per_day: int | None,
    at: str | None,
    *,
    json_: bool,
) -> None:
    """Say when the mail that waits will have left, by letting the budgets' own windows pass. Nothing is changed.

    Of several mailboxes, further messages are shared so that all are done at about the same time.
    """
    begins = moment_of("--at", at)
    plan = Plan(mailboxes, messages, recipients_each, per_minute, recipients_per_day, begins)
    told = application().planning.forecast(plan)
    if json_:
        print_json(told)
        return
    now = utc_now()
    shown = table("mailbox", "waiting", "further", "done")
    for name, one in sorted(told.mailboxes.items()):
        done = "nobody can tell" if one.done_on is None else moment(one.done_on, now)
        shown.add_row(plain(name), f"{one.waiting:,}", f"{one.further:,}", done)
    print_table(shown, "There is no mailbox yet: `rqmail mailbox add KEY --address A` adds one.")
    for problem in application().overview.status().problems:
        if problem.level == "error":
            click.echo(f"This holds from when it is mended: {problem.text}", err=True)
    if told.mailboxes:
        when = (
            "nobody can tell: a mailbox is paused without an end or waits for a person,"
            " a message is larger than a whole day, or it would take a hundred years"
        )
        many = counted(told.messages, "message", "messages")
        console().print(plain(f"{many}: {moment(told.done_on, now) if told.done_on else when}"))
