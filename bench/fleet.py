"""A thousand mailboxes at their full budget on this one machine: three minutes, Graph answering after 300 ms.

Each mailbox may make 25 calls in each of the three minutes. The figure is what the sink saw in the 180 s from the first
call on, over 25 × mailboxes × 3. Whether a mailbox was over budget is judged by the calls as they arrive at the sink.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.progress import tell
from bench.row import Row
from bench.system import System, add_mailboxes, submit, system

NAME = "fleet"
LATENCY = 0.3
PER_MINUTE = 25
JITTER = 0.5
WORKERS = 5
LANES = 48


def run(quick: bool) -> list[Row]:
    """Run the scheduler and the workers as they run in production."""
    mailboxes, seconds, workers = (20, 4, 1) if quick else (1_000, 180, WORKERS)
    minutes = -(-seconds // 60)
    with system("sqlite" if quick else "postgresql") as parts:
        tell(f"{NAME}: submitting mail for {mailboxes} mailboxes")
        parts.application()
        senders = add_mailboxes(mailboxes, per_minute=PER_MINUTE)
        submit(senders, PER_MINUTE * minutes + 10)
        parts.sink(latency=LATENCY)
        parts.workers(workers, RQMAIL_SEND_LANES=str(LANES))
        parts.process("-m", "rqmail.cli", "scheduler", RQMAIL_SEND_LANES=str(LANES))
        seen = _watch(parts, seconds)
        memory = _memory()
        open_calls = parts.logged("mail.rateLimit.redisError")
    budget = mailboxes * PER_MINUTE * minutes
    used = f"{mailboxes} mailboxes × {PER_MINUTE}/min for {seconds} s, {workers} workers × {LANES} lanes"
    return [
        Row.judged(
            NAME, f"messages accepted within {seconds} s", seen["callsWithin"], "messages", reference=budget,
            at_least=0.98, note=f"{used}; {seen['callsWithin'] / seconds:.0f} a second",
        ),
        *_over_budget(seen),
        Row.judged(NAME, "most calls of one mailbox at once", seen["mostInFlight"], "calls", at_most=3),
        Row.judged(NAME, "times the limiter could not ask Redis and let pass", open_calls, "times"),
        Row.judged(
            NAME, "memory of all our processes", sum(map(sum, memory.values())), "MB",
            note="; ".join(f"{name} {', '.join(f'{size:.0f}' for size in sizes)}" for name, sizes in memory.items()),
        ),
    ]  # fmt: skip


def _watch(parts: System, seconds: int) -> dict[str, Any]:
    """Let time pass, telling how far it is, and answer the sink's counts."""
    deadline = time.monotonic() + 60
    while not (seen := parts.sink())["calls"]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing was sent; {parts.last_words()}")
        time.sleep(0.1)
    told = 0.0
    while (passed := seen["now"] - seen["firstAt"]) < seconds:
        if passed - told >= 15:
            told = passed
            tell(f"{NAME}: {passed:.0f} s, {seen['calls']} sent, {seen['calls'] / passed:.0f} a second")
        time.sleep(1)
        seen = parts.sink()
    return parts.sink(within=seconds, window=60 - JITTER, limit=PER_MINUTE)


def _over_budget(seen: dict[str, Any]) -> list[Row]:
    """Judge by the minute as calls arrive, nothing allowed for; the count with some jitter stands beside it."""
    rows = []
    if seen["shortestOver"] is not None:
        rows.append(
            Row.judged(
                NAME, f"shortest time in which {PER_MINUTE + 1} calls of one mailbox arrived",
                seen["shortestOver"], "s", at_least=60,
                note="below it, a mailbox was over its minute as the sink saw it",
            )
        )  # fmt: skip
    window = f"most calls of one mailbox in any {60 - JITTER:g} s, as they arrived"
    return [*rows, Row.judged(NAME, window, seen["mostInWindow"], "calls", note=f"with {JITTER:g} s of jitter allowed")]


def _memory() -> dict[str, list[float]]:
    """Answer the resident megabytes of each of our processes."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for process in psutil.Process().children(recursive=True):
        command = process.cmdline()
        if "rqmail.cli" in command:
            found[command[command.index("rqmail.cli") + 1]].append(process.memory_info().rss / 2**20)
        elif "multiprocessing.spawn" in " ".join(command):
            found["scheduler's own workers"].append(process.memory_info().rss / 2**20)
    return dict(found)
