"""What a forecast costs: a million further messages on a hundred mailboxes with limits of their own."""

from __future__ import annotations

import statistics
import time

from bench.progress import tell
from bench.row import Row
from bench.system import add_mailboxes, system
from rqmail.insight.planning import Plan
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import SystemMailbox

NAME = "forecast"


def run(quick: bool) -> list[Row]:
    """Ask the same several times; nothing waits, all of it is what if."""
    messages, mailboxes, rounds = (10_000, 10, 1) if quick else (1_000_000, 100, 5)
    with system("sqlite") as parts:
        app = parts.application()
        add_mailboxes(mailboxes)
        with pooled_connection():
            for number in range(mailboxes):
                SystemMailbox.update(
                    rate_limit_per_minute=5 + number % 25, rate_limit_recipients_per_day=9_000 - number
                ).where(SystemMailbox.key == f"m{number}").execute()
        tell(f"{NAME}: {messages} messages on {mailboxes} mailboxes")
        taken = []
        for _ in range(rounds):
            began = time.perf_counter()
            told = app.planning.forecast(Plan(messages=messages))
            taken.append(time.perf_counter() - began)
            if sum(one.further for one in told.mailboxes.values()) != messages:
                raise RuntimeError("not all of them were shared out")
    return [
        Row.judged(
            NAME, f"{messages:,} messages on {mailboxes} mailboxes", statistics.median(taken), "s", at_most=1.0,
            note=f"median of {rounds}; each mailbox has limits of its own",
        )
    ]  # fmt: skip
