"""Kill and break everything for two minutes, then count what was lost or sent twice. Run ``python -m bench.chaos``."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from peewee import fn
from rich.console import Console
from rich.table import Table

from bench.chaos_parts import Graph, Postgres, Supervisor, Valkey, open_folder, remove_folder
from bench.chaos_verdict import JITTER_SECONDS, Verdict, judge, read_what_ran_open
from bench.system import add_mailboxes
from rqmail.bootstrap import build
from rqmail.clock import utc_now
from rqmail.models.base import AWAY_ERRORS, db, pooled_connection
from rqmail.models.message import Message, MessageStatus, NewMessage, NewRecipient, RecipientKind
from rqmail.models.migrate import migrate
from rqmail.settings import load_settings

MESSAGES = 1_000
MAILBOXES = 10
WORKERS = 4
SCHEDULERS = 2

#: High enough for the campaign to end in the time, low enough to be reached again and again.
PER_MINUTE = 60
PER_DAY = 1_000

#: How long the quiet end may take: leases, a look, the grace period, a last send, and some more.
_QUIET_SECONDS = 300

console = Console(stderr=True)


def main() -> int:
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1, 10_000)
    folder = open_folder()
    verdict, told = _run(folder, seed, arguments.seconds, may_read=not arguments.no_read)
    if arguments.json:
        print(json.dumps({"seed": seed, **told, **verdict.as_json()}))
    _print(verdict, told, seed, arguments)
    if verdict.passed:
        remove_folder(folder)
        return 0
    console.print(f"The processes' logs are in {folder}")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat a run: the same kills and failures, as far as timing allows")
    parser.add_argument("--seconds", type=int, default=120, help="how long to break things (120)")
    parser.add_argument("--no-read", action="store_true", help="the app may not read mailboxes: UNKNOWN stays UNKNOWN")
    parser.add_argument("--json", action="store_true", help="print the result as JSON as well")
    return parser.parse_args()


def _run(folder: Path, seed: int, seconds: int, *, may_read: bool) -> tuple[Verdict, dict[str, object]]:
    dice = random.Random(seed)
    with ExitStack() as stack:
        valkey = Valkey()
        stack.callback(valkey.stop)
        postgres = Postgres(folder / "postgres")
        stack.callback(postgres.stop)
        graph = Graph(folder / "sandbox", seed)
        stack.callback(graph.stop)
        environment = {
            **graph.environment,
            "RQMAIL_DATABASE_URL": postgres.url,
            "RQMAIL_REDIS_URL": valkey.url,
            "RQMAIL_SECRET_KEY": "a key for nothing but chaos",
            "RQMAIL_SEND_TIMEOUT_SECONDS": "4",
            "RQMAIL_UNKNOWN_GRACE_SECONDS": "30",
            "RQMAIL_MAX_ATTEMPTS": "50",
            "RQMAIL_LOG_FORMAT": "json",
        }
        os.environ.update(environment)
        build(load_settings())
        stack.callback(lambda: db.obj.close_all())
        submitted = _campaign()
        if not may_read:
            graph.forbid_reading()
        graph.misbehave()

        commands = {f"worker-{n}": ("worker",) for n in range(1, WORKERS + 1)}
        commands |= {f"scheduler-{n}": ("scheduler",) for n in range(1, SCHEDULERS + 1)}
        supervisor = Supervisor(commands, os.environ, folder)
        stack.callback(supervisor.stop)
        console.print(f"chaos: seed {seed}, {MESSAGES} messages, {MAILBOXES} mailboxes, logs in {folder}")
        broken = _break_things(seconds, dice, supervisor, valkey, postgres, graph)
        graph.behave()
        settled_after = _wait_until_settled(supervisor, may_read=may_read)
        stubborn = supervisor.stop()
        verdict = judge(
            submitted,
            graph.control.accepted(fields=("rqmailId", "mailbox", "time", "to")),
            per_minute=PER_MINUTE,
            per_day=PER_DAY,
            died=supervisor.died + [f"{name} did not end when asked to" for name in stubborn],
            ran_open=read_what_ran_open(folder),
            may_read=may_read,
        )
        stats = graph.control.stats()
        told: dict[str, object] = {
            "kills": supervisor.kills.total(),
            "outages": broken,
            "faults": dict(sorted(stats["faultsFired"].items())),
            "quietSeconds": settled_after,
        }
        return verdict, told


def _campaign() -> set[str]:
    migrate()
    add_mailboxes(MAILBOXES, per_minute=PER_MINUTE, per_day=PER_DAY)
    messages = [
        NewMessage(
            sender=f"mailbox:m{number % MAILBOXES}",
            subject=f"Message {number}",
            recipients=(NewRecipient(RecipientKind.TO, f"reader{number}@example.org"),),
            text="Hello there.",
        )
        for number in range(MESSAGES)
    ]
    return set(Message.submit(messages, utc_now()))


def _break_things(
    seconds: int, dice: random.Random, supervisor: Supervisor, valkey: Valkey, postgres: Postgres, graph: Graph
) -> list[str]:
    """Kill a process every second, and take away each part at its moment; answer what was taken away, and when."""
    shares: list[tuple[float, str, Callable[[], None]]] = [
        (0.17, "Valkey flushed", valkey.flush),
        (0.33, "Valkey restarted", lambda: valkey.restart(dice.uniform(0.5, 2.0))),
        (0.50, "PostgreSQL crashed and restarted", lambda: postgres.restart(dice.uniform(2.0, 4.0))),
        (0.67, "Valkey flushed", valkey.flush),
        (0.83, "Valkey restarted", lambda: valkey.restart(dice.uniform(0.5, 2.0))),
        *((share / 10, "tokens revoked", graph.control.revoke_tokens) for share in range(1, 10)),
    ]
    outages = [((share + dice.uniform(-0.04, 0.04)) * seconds, name, act) for share, name, act in shares]
    outages.sort(key=lambda outage: outage[0])
    done: list[str] = []
    began = time.monotonic()
    next_kill, next_word = began + 5.0, began
    while (passed := time.monotonic() - began) < seconds:
        supervisor.look_after()
        if outages and passed >= outages[0][0]:
            _, name, act = outages.pop(0)
            act()
            if name != "tokens revoked":
                done.append(f"{name} at {passed:.0f} s")
                console.print(f"{passed:4.0f} s  {name}")
        if time.monotonic() >= next_kill:
            supervisor.kill_one(dice)
            next_kill += 1.0
        if time.monotonic() >= next_word:
            next_word += 10.0
            console.print(f"{passed:4.0f} s  {supervisor.kills.total()} kills, {_states()}")
        time.sleep(0.05)
    return done


def _wait_until_settled(supervisor: Supervisor, *, may_read: bool) -> float:
    """Let everything run undisturbed until nothing moves any more; answer how long that took."""
    moving = {MessageStatus.SCHEDULED, MessageStatus.QUEUED, MessageStatus.SENDING}
    if may_read:
        moving.add(MessageStatus.UNKNOWN)
    began = time.monotonic()
    next_word = began
    while (passed := time.monotonic() - began) < _QUIET_SECONDS:
        supervisor.look_after()
        if time.monotonic() >= next_word:
            next_word += 10.0
            console.print(f"quiet {passed:4.0f} s  {_states()}")
        if not any(_counts().get(status, 0) for status in moving):
            break
        time.sleep(0.5)
    return round(time.monotonic() - began, 1)


def _counts() -> dict[str, int]:
    with pooled_connection():
        query = Message.select(Message.status, fn.COUNT(Message.id)).group_by(Message.status)
        return {str(status): int(count) for status, count in query.tuples()}


def _states() -> str:
    try:
        return ", ".join(f"{count} {status}" for status, count in sorted(_counts().items()))
    except AWAY_ERRORS:
        return "the database is away"


def _print(verdict: Verdict, told: dict[str, object], seed: int, arguments: argparse.Namespace) -> None:
    table = Table(title=f"Chaos, seed {seed}", title_justify="left")
    table.add_column("what must not happen")
    table.add_column("times", justify="right")
    table.add_column("how it is counted")
    table.add_row("lost", str(verdict.lost), "neither accepted and SENT, nor (without Mail.Read) UNKNOWN with evidence")
    table.add_row("duplicated", str(verdict.duplicated), "accepted more than once by the provider's own record")
    table.add_row(
        "over budget",
        str(verdict.over_budget),
        f"accepted above {PER_MINUTE} in any {60 - JITTER_SECONDS:.0f} s, or {PER_DAY:,} recipients in the day,"
        f" per mailbox (most in any 60 s: {verdict.most_per_minute}), besides {verdict.ran_open} sends for which Redis"
        " could not be asked",
    )
    table.add_row("stuck", str(verdict.stuck), "still on its way at the end")
    table.add_row("ended by itself", str(verdict.died), "a process that ended without being killed")
    out = Console(stderr=arguments.json)
    out.print(table)
    out.print(f"messages: {', '.join(f'{count:,} {state}' for state, count in verdict.states.items())}")
    for name, value in told.items():
        out.print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    for example in verdict.examples[:20]:
        out.print(f"  {example}", style="red")
    out.print("passed" if verdict.passed else "FAILED", style="green" if verdict.passed else "bold red")
    option = " --no-read" if arguments.no_read else ""
    out.print(f"again: make chaos SEED={seed}" + (f' ARGS="{option.strip()}"' if option else ""))


if __name__ == "__main__":
    sys.exit(main())
