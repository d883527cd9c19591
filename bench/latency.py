"""How long mail of normal priority takes on an idle system, from its submission until it has arrived at Graph.

Real processes: the scheduler and two workers; one mail at a time, at random moments. What Graph itself takes is no part
of it: the moment counts at which the call arrives.
"""

from __future__ import annotations

import random
import statistics
import time

from bench.progress import tell
from bench.row import Row
from bench.system import System, add_mailboxes, system
from rqmail.intake.draft import Draft

NAME = "latency"


def run(quick: bool) -> list[Row]:
    """Submit mails one after the other and look when each arrived."""
    mails = 5 if quick else 200
    with system("sqlite" if quick else "postgresql") as parts:
        took = sorted(_measure(parts, mails))
    note = f"{mails} mails, one at a time; scheduler and two workers"
    return [
        Row.judged(
            NAME, "ms from submit until the call arrives at Graph: median", statistics.median(took), "ms",
            at_most=60, note=note,
        ),
        Row.judged(
            NAME, "ms from submit until the call arrives at Graph: 99 of 100 within", took[int(0.99 * (mails - 1))],
            "ms", at_most=200, note=note,
        ),
    ]  # fmt: skip


def _measure(parts: System, mails: int) -> list[float]:
    app = parts.application()
    senders = add_mailboxes(10, per_minute=100_000, per_day=1_000_000)
    parts.sink(keep_arrivals=True)
    parts.workers(2)
    parts.process("-m", "rqmail.cli", "scheduler")
    parts.wait_for_workers(4)
    moments = random.Random(1)
    submitted: dict[str, float] = {}
    for number in range(-5, mails):  # the first ones open connections and fetch tokens
        if number == 0:
            tell(f"{NAME}: {mails} mails, one at a time")
        subject = f"mail {number}"
        if number >= 0:
            submitted[subject] = time.monotonic()
        app.intake.submit(Draft(senders[number % 10], subject, to="a@example.com", text="Hallo."))
        time.sleep(moments.uniform(0.15, 0.35))
    seen = parts.wait_for(mails + 5, 60)
    arrived = {subject: at for at, subject in seen["arrivals"]}
    return [1000 * (arrived[subject] - at) for subject, at in submitted.items()]
