"""How long mail a person waits for takes while a campaign keeps every worker busy, Graph answering after 300 ms.

Real processes: the scheduler and two workers. The urgent mails leave from the campaign's own mailboxes, one after the
other at random moments. The reference is the poll interval plus one call.
"""

from __future__ import annotations

import random
import statistics
import time

from bench.progress import tell
from bench.row import Row
from bench.system import System, add_mailboxes, count, submit, system
from rqmail.intake.draft import Draft
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message, Priority

NAME = "priority"
LATENCY = 0.3
MAILBOXES = 100
POLL_SECONDS = 1


def run(quick: bool) -> list[Row]:
    """Measure from the submission until Graph has accepted."""
    campaign, urgent = (1_000, 3) if quick else (10_000, 50)
    with system("sqlite" if quick else "postgresql") as parts:
        seconds, least_waiting = _measure(parts, campaign, urgent)
    reference = POLL_SECONDS + LATENCY
    note = f"{urgent} urgent mails beside a campaign of {campaign}; never fewer than {least_waiting} of it waiting"
    return [
        Row.judged(
            NAME, "seconds until an urgent mail is accepted: median", statistics.median(seconds), "s",
            reference=reference, at_most=1.5, note=note,
        ),
        Row.judged(
            NAME, "seconds until an urgent mail is accepted: worst", max(seconds), "s",
            reference=reference, at_most=4, note=note,
        ),
    ]  # fmt: skip


def _measure(parts: System, campaign: int, urgent: int) -> tuple[list[float], int]:
    app = parts.application()
    senders = add_mailboxes(MAILBOXES, per_minute=100_000, per_day=1_000_000)
    submit(senders, campaign // MAILBOXES)
    parts.sink(latency=LATENCY, keep_arrivals=True)
    parts.workers(2)
    parts.process("-m", "rqmail.cli", "scheduler")
    parts.wait_for_workers(4)
    time.sleep(1)
    tell(f"{NAME}: {urgent} urgent mails beside a campaign of {campaign}")
    random_moments = random.Random(1)
    submitted: dict[str, float] = {}
    least_waiting = campaign
    for number in range(urgent):
        subject = f"urgent {number}"
        submitted[subject] = time.monotonic()
        app.intake.submit(
            Draft(random_moments.choice(senders), subject, to="a@example.com", text="Nu graag.", priority="high")
        )
        time.sleep(random_moments.uniform(0.3, 0.9))
        waiting = count("SCHEDULED") + count("QUEUED")
        least_waiting = min(least_waiting, waiting)
        if waiting < campaign // 3:
            submit(senders, campaign // MAILBOXES // 3)
    deadline = time.monotonic() + 60
    while True:
        arrived = {subject: at for at, subject in parts.sink()["arrivals"] if subject in submitted}
        if len(arrived) == urgent:
            return [arrived[subject] + LATENCY - submitted[subject] for subject in submitted], least_waiting
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(arrived)} of {urgent} urgent mails arrived; the others: {_others(arrived)}")
        time.sleep(0.5)


def _others(arrived: dict[str, float]) -> list[tuple[object, ...]]:
    """Tell what became of the urgent mails that did not arrive."""
    with pooled_connection():
        urgent = Message.select().where(Message.priority == Priority.HIGH, Message.subject.not_in(list(arrived)))
        return [(m.subject, m.status, m.waiting_for, m.deferrals, m.scheduled_on, m.last_error) for m in urgent]
