"""What a send costs one worker process when Graph answers at once, database writes included.

Against a bare loop in one thread (EVALSHA, then ``requests`` POST), and against one RQ job per message doing just that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from rq import Queue
from rq.serializers import JSONSerializer

from bench.one_job import BareSender
from bench.progress import tell
from bench.row import Row
from bench.system import System, add_mailboxes, new_message, submit, system
from rqmail.bootstrap import Application
from rqmail.mailers.base import Address, Mail
from rqmail.mailers.graph.message import encode_message

NAME = "send"
MAILBOXES = 100


def run(quick: bool) -> list[Row]:
    """Let ours, the bare loop and the two kinds of stock worker take turns."""
    messages, bare, single, rounds = (400, 200, 20, 1) if quick else (3_000, 1_500, 150, 5)
    with system("sqlite" if quick else "postgresql") as parts:
        app = parts.application()
        senders = add_mailboxes(MAILBOXES, per_minute=1_000_000, per_day=10_000_000)
        parts.workers(1)
        fork = _stock_worker(parts, "one-job-fork")
        simple = _stock_worker(parts, "one-job-simple", "--worker-class", "rq.SimpleWorker")
        sender, body = BareSender(), _body()
        subjects: dict[str, Callable[[], float]] = {
            "ours": lambda: _ours(parts, app, senders, messages),
            "bare": lambda: _bare(sender, body, bare),
            "fork": lambda: _one_job_each(parts, fork, body, single),
            "simple": lambda: _one_job_each(parts, simple, body, single),
        }
        _ours(parts, app, senders, 10 * MAILBOXES)  # connections, token, statistics of the tables
        rates: dict[str, list[float]] = {name: [] for name in subjects}
        for number in range(rounds):
            for name, subject in subjects.items():
                rates[name].append(subject())
            told = ", ".join(f"{name} {of_it[-1]:.0f}/s" for name, of_it in rates.items())
            tell(f"{NAME}: round {number + 1} of {rounds}: {told}")
    return [
        _row("a bare loop of EVALSHA and POST", rates, "bare", 0.6, f"{messages} messages, {rounds} rounds"),
        _row("one RQ job per message, stock `rq worker`", rates, "fork", 10, "reference writes no database"),
        _row("one RQ job per message, SimpleWorker", rates, "simple", None, "reference writes no database"),
    ]


def _row(against: str, rates: dict[str, list[float]], name: str, at_least: float | None, note: str) -> Row:
    ratio = statistics.median(mine / theirs for mine, theirs in zip(rates["ours"], rates[name], strict=True))
    return Row.judged(
        NAME, f"messages a second of one worker, 0 ms a call, against {against}", statistics.median(rates["ours"]),
        "per second", reference=statistics.median(rates[name]), ratio=ratio, at_least=at_least, note=note,
    )  # fmt: skip


def _ours(parts: System, app: Application, senders: list[str], messages: int) -> float:
    parts.sink(forget=True, latency=0)
    number = submit(senders, max(1, messages // len(senders)))
    app.dispatcher.tick()
    return _rate(parts, number)


def _bare(sender: BareSender, body: str, calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        sender.send("bare@contoso.example", body)
    return calls / (time.perf_counter() - began)


def _one_job_each(parts: System, queue: Queue, body: str, number: int) -> float:
    parts.sink(forget=True, latency=0)
    for _ in range(number):
        queue.enqueue("bench.one_job.send_one", "single@contoso.example", body)
    return _rate(parts, number)


def _rate(parts: System, number: int) -> float:
    """Answer the calls a second between the first and the last one, as the sink saw them."""
    seen = parts.wait_for(number, 120)
    return float((number - 1) / (seen["lastAt"] - seen["firstAt"]))


def _stock_worker(parts: System, name: str, *options: str) -> Queue:
    """Start a stock RQ worker on a queue of its own, and answer the queue."""
    listening = parts.redis.scard("rq:workers")
    parts.process(
        "-m", "bench.one_job", "worker", "-S", "json", "-u", parts.environment["RQMAIL_REDIS_URL"],
        "--logging_level", "WARNING", *options, name,
    )  # fmt: skip
    parts.wait_for_workers(listening + 1)
    return Queue(name, connection=parts.redis, serializer=JSONSerializer)


def _body() -> str:
    """Write the request that ours writes for the same mail."""
    new = new_message("mailbox:m0", 0)
    mail = Mail(new.id, new.subject, tuple(Address(to.address, to.name) for to in new.recipients), html=new.html)
    return encode_message(mail).decode()
