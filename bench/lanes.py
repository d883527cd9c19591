"""How busy one worker process keeps its lanes: Graph answers after 300 ms, and a hundred mailboxes have room, or few;
or one sender without limits sends it all.

The reference is arithmetic: so many calls at once, each taking so long.
"""

from __future__ import annotations

import statistics

from bench.progress import tell
from bench.row import Row
from bench.system import System, add_mailboxes, submit, system
from rqmail.bootstrap import Application

NAME = "lanes"
LATENCY = 0.3
LANES = 32
IN_FLIGHT = 3


def run(quick: bool) -> list[Row]:
    """Send all mailboxes' budgets of a minute, in rounds, through one ``rqmail worker``; then much mail of few."""
    mailboxes, rounds = (40, 1) if quick else (100, 3)
    with system("sqlite" if quick else "postgresql") as parts:
        app = parts.application(send_lanes=LANES)
        senders = add_mailboxes(mailboxes * (rounds + 1))  # others in every round, each with its whole budget
        app.tenants.add("acme", "sendgrid", sendgrid_api_key="SG.a-key-for-nothing", sendgrid_from="a@contoso.example")
        parts.workers(1, RQMAIL_SEND_LANES=str(LANES))
        _round(parts, app, senders[-mailboxes:], 1)  # connections and tokens
        rates = []
        for number in range(rounds):
            tell(f"{NAME}: round {number + 1} of {rounds}, {mailboxes} mailboxes, {LATENCY * 1000:.0f} ms a call")
            mine = senders[number * mailboxes : (number + 1) * mailboxes]
            rates.append(_round(parts, app, mine, 8 if quick else 25))
        tell(f"{NAME}: {rounds} rounds of one sender through SendGrid")
        of_one = [_round(parts, app, ["tenant:acme"], 64 if quick else 512) for _ in range(rounds)]
        few, each = (12, 8) if quick else (24, 75)
        of_few = []
        parts.clean()
        senders = add_mailboxes(few, per_minute=100_000, per_day=10_000_000)
        for number in range(rounds):
            tell(f"{NAME}: round {number + 1} of {rounds}, {few} mailboxes with {each} due each")
            of_few.append(_round(parts, app, senders, each))
    at_once = min(LANES, few * IN_FLIGHT)
    return [
        Row.judged(
            NAME, f"messages a second, {LANES} lanes of one worker, {LATENCY * 1000:.0f} ms a call",
            statistics.median(rates), "per second", reference=LANES / LATENCY, at_least=0.9,
            note=f"lanes ÷ latency; {mailboxes} mailboxes, {rounds} rounds",
        ),
        Row.judged(
            NAME, f"the same, {few} mailboxes with {each} due each", statistics.median(of_few), "per second",
            reference=at_once / LATENCY, at_least=0.95,
            note=f"min(lanes, mailboxes × {IN_FLIGHT} in flight) ÷ latency; limits raised, {rounds} rounds",
        ),
        Row.judged(
            NAME, "the same, one sender without limits (SendGrid)", statistics.median(of_one), "per second",
            reference=app.settings.sendgrid_in_flight / LATENCY, at_least=0.95,
            note=f"its setting ÷ latency; one job of {64 if quick else 512}, {rounds} rounds",
        ),
    ]  # fmt: skip


def _round(parts: System, app: Application, senders: list[str], each: int) -> float:
    parts.sink(forget=True, latency=LATENCY)
    number = submit(senders, each)
    app.dispatcher.tick()
    seen = parts.wait_for(number, 120)
    if seen["calls"] != number:
        raise RuntimeError(f"{number} messages, {seen['calls']} calls")
    return float(number / (seen["lastAt"] + LATENCY - seen["firstAt"]))
