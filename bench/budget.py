"""How much of the budget is used while a backlog waits: ten moved minutes, three mailboxes, four workers."""

from __future__ import annotations

from collections import defaultdict

from bench.moved import MovedCampaign
from bench.progress import tell
from bench.row import Row
from bench.system import add_mailboxes, submit, system
from bench.windows import most_within
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message

NAME = "budget"
PER_MINUTE = 25
MAILBOXES = 3


def run(quick: bool) -> list[Row]:
    """Send for the whole time, then read from the rows when each message went out."""
    minutes = 2 if quick else 10
    with system("sqlite") as parts:
        tell(f"{NAME}: {minutes} moved minutes, {MAILBOXES} mailboxes, 4 workers")
        campaign = MovedCampaign(parts, workers=4)
        submit(add_mailboxes(MAILBOXES, per_minute=PER_MINUTE), PER_MINUTE * (minutes + 2))
        campaign.clock.move()
        for _ in range(60 * minutes):
            campaign.second()
        moments: defaultdict[str, list[float]] = defaultdict(list)
        with pooled_connection():
            for message in Message.select(Message.sender, Message.attempted_on).where(Message.status == "SENT"):
                if message.attempted_on:
                    moments[message.sender].append(message.attempted_on.timestamp())
    sent = sum(map(len, moments.values()))
    most = max(most_within(60.0, sorted(of_one)) for of_one in moments.values())
    return [
        Row.judged(
            NAME, f"messages sent in {minutes} min", sent, "messages", reference=PER_MINUTE * MAILBOXES * minutes,
            at_least=0.99, note=f"{MAILBOXES} mailboxes at {PER_MINUTE}/min, one tick a second",
        ),
        Row.judged(NAME, "most calls of one mailbox in any 60 s", most, "calls", at_most=PER_MINUTE),
    ]  # fmt: skip
