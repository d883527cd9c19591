"""What starting costs, and what running costs while nothing is to do: a command, a forked job, the stock processes.

An idle installation is the stock pair: ``rq worker`` (which forks a child for each tick) and ``rqscheduler``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, end, system
from rqmail.queues import WORKER_QUEUES

NAME = "startup"
_RQMAIL = (sys.executable, "-m", "rqmail.cli")
_REFERENCE = (sys.executable, "-c", "import redis, peewee, click")
#: Every library that is imported whatever a command does: settings, log, tables, queues.
_LIBRARIES = (sys.executable, "-c", "import redis, peewee, click, pydantic_settings, structlog, rich.console, rq")


def run(quick: bool) -> list[Row]:
    """Measure the command, then the idle stock pair."""
    with system("sqlite") as parts:
        tell(f"{NAME}: a command against the imports it stands on")
        compared = in_turns(
            3 if quick else 15, lambda: _seconds((*_RQMAIL, "status", "--json")), lambda: _seconds(_REFERENCE)
        )
        beside = in_turns(
            3 if quick else 15, lambda: _seconds((*_RQMAIL, "status", "--json")), lambda: _seconds(_LIBRARIES)
        )
        helped = in_turns(3 if quick else 15, lambda: _seconds((*_RQMAIL, "--help")), lambda: _seconds(_REFERENCE))
        return [
            Row.judged(
                NAME, "`rqmail status`, from start to end", compared.ours, "s", reference=compared.reference,
                ratio=compared.ratio, at_most=1.3, note="reference: python -c 'import redis, peewee, click'",
            ),
            Row.judged(
                NAME, "the same", beside.ours, "s", reference=beside.reference, ratio=beside.ratio,
                note="reference: the same and pydantic_settings, structlog, rich.console, rq",
            ),
            Row.judged(
                NAME, "`rqmail --help`", helped.ours, "s", reference=helped.reference, ratio=helped.ratio, at_most=1.3,
                note="the same reference",
            ),
            _idle(parts, quick),
        ]  # fmt: skip


def _seconds(command: tuple[str, ...]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def _idle(parts: System, quick: bool) -> Row:
    """Watch the stock pair with nothing to do; a forked job's time counts when its worker has waited for it."""
    seconds = 5.0 if quick else 60.0
    tell(f"{NAME}: the stock pair, idle for {seconds:.0f} s")
    parts.application().timetable.register()
    url = parts.environment["RQMAIL_REDIS_URL"]
    folder = Path(sys.executable).parent
    job_class = ("-j", "rqmail.queues.MailJob")
    worker = ("worker", *job_class, "-u", url, *WORKER_QUEUES)
    pair = [
        parts.process(str(folder / "rq"), *worker),
        parts.process(str(folder / "rqscheduler"), *job_class, "-i", "1", "-u", url),
    ]
    parts.wait_for_workers(1)
    time.sleep(5.0)  # the imports of the first tick
    before = sum(_spent(process.pid) for process in pair)
    time.sleep(seconds)
    share = (sum(_spent(process.pid) for process in pair) - before) / seconds
    memory = sum(psutil.Process(process.pid).memory_info().rss for process in pair) / 1e6
    end(pair)
    return Row.judged(
        NAME, "stock `rq worker` and `rqscheduler`, idle, part of one core", share * 100, "%", at_most=3,
        note=f"a tick a second, each in a forked child; {memory:.0f} MB in both processes",
    )  # fmt: skip


def _spent(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
