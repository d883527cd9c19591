"""What starting costs, and what running costs while nothing is to do: a command, a forked job, the stock processes.

An idle installation is the stock pair: ``rq worker`` (which forks a child for each tick) and ``rqscheduler``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
from redis import Redis
from rq_scheduler import Scheduler

from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, add_mailboxes, end, system
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import JOB_CLASS

NAME = "startup"
_RQMAIL = (sys.executable, "-m", "rqmail.cli")
_REFERENCE = (sys.executable, "-c", "import redis, peewee, click")
#: The libraries that every command with settings stands on.
_LIBRARIES = (sys.executable, "-c", "import redis, peewee, click, pydantic_settings")
#: What people do from a shell or a script all day.
_COMMANDS = (
    ("mailbox", "list", "--json"),
    ("message", "list", "--json"),
    ("send", "--mailbox", "m0", "--to", "jan@example.org", "--subject", "Hi", "--text", "Hello"),
)


def run(quick: bool) -> list[Row]:
    """Measure the command, then the idle stock pair."""
    with system("sqlite") as parts:
        tell(f"{NAME}: a command against the imports it stands on")
        compared = in_turns(
            1 if quick else 15, lambda: _seconds((*_RQMAIL, "status", "--json")), lambda: _seconds(_REFERENCE)
        )
        beside = in_turns(
            1 if quick else 15, lambda: _seconds((*_RQMAIL, "status", "--json")), lambda: _seconds(_LIBRARIES)
        )
        helped = in_turns(1 if quick else 15, lambda: _seconds((*_RQMAIL, "--help")), lambda: _seconds(_REFERENCE))
        return [
            Row.judged(
                NAME, "`rqmail status`, from start to end", compared.ours, "s", reference=compared.reference,
                ratio=compared.ratio, at_most=1.3, note="reference: python -c 'import redis, peewee, click'",
            ),
            Row.judged(
                NAME, "the same", beside.ours, "s", reference=beside.reference, ratio=beside.ratio,
                note="reference: the same and pydantic_settings",
            ),
            Row.judged(
                NAME, "`rqmail --help`", helped.ours, "s", reference=helped.reference, ratio=helped.ratio, at_most=1.3,
                note="the same reference",
            ),
            *(_one(parts, command, quick) for command in _COMMANDS),
            *_idle(parts, quick),
        ]  # fmt: skip


def _one(parts: System, command: tuple[str, ...], quick: bool) -> Row:
    add_mailboxes(1)
    compared = in_turns(1 if quick else 15, lambda: _seconds((*_RQMAIL, *command)), lambda: _seconds(_REFERENCE))
    parts.clean()
    return Row.judged(
        NAME, f"`rqmail {' '.join(word for word in command[:2] if word[0] != '-')}`", compared.ours, "s",
        reference=compared.reference, ratio=compared.ratio, note="the same reference",
    )  # fmt: skip


def _seconds(command: tuple[str, ...]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def _idle(parts: System, quick: bool) -> list[Row]:
    """Watch the stock pair with nothing to do beside the same pair with a job of plain RQ that does nothing.

    Both at the same time: how much a fork costs depends on what else the machine does.
    """
    seconds = 1.0 if quick else 60.0
    parts.application().timetable.register()
    url = parts.environment["RQMAIL_REDIS_URL"]
    bare_url = url.rpartition("/")[0] + "/1"
    with Redis.from_url(bare_url) as redis:
        now = datetime.now(UTC).replace(tzinfo=None)
        Scheduler("bare", connection=redis).schedule(now, time.time, interval=1)
    tell(f"{NAME}: two stock pairs, idle for {seconds:.0f} s")
    ours = _pair(parts, url, WORKER_QUEUES, "-j", JOB_CLASS)
    bare = _pair(parts, bare_url, ("bare",))
    time.sleep(5.0)  # the imports of the first tick
    before = _spent(ours), _spent(bare)
    time.sleep(seconds)
    share, floor = ((_spent(pair) - spent) / seconds * 100 for pair, spent in zip((ours, bare), before, strict=True))
    memory = sum(psutil.Process(process.pid).memory_info().rss for process in ours) / 1e6
    end([*ours, *bare])
    return [
        Row.judged(
            NAME, "stock `rq worker` and `rqscheduler`, idle, part of one core", share, "%", reference=floor,
            figure=share, at_most=3,
            note="a tick a second, each in a forked child; reference: the same without rqmail, a job a second that does"
            f" nothing; {memory:.0f} MB in both processes",
        ),
    ]  # fmt: skip


def _pair(parts: System, url: str, queues: tuple[str, ...], *job_class: str) -> list[subprocess.Popen[bytes]]:
    """Start a stock pair and wait until its worker is there."""
    folder = Path(sys.executable).parent
    pair = [
        parts.process(str(folder / "rq"), "worker", *job_class, "-u", url, *queues),
        parts.process(str(folder / "rqscheduler"), *job_class, "-i", "1", "-u", url),
    ]
    with Redis.from_url(url) as redis:
        deadline = time.monotonic() + 60
        while not redis.scard("rq:workers") and time.monotonic() < deadline:
            time.sleep(0.05)
    return pair


def _spent(pair: list[subprocess.Popen[bytes]]) -> float:
    """Answer the CPU seconds of a pair; a forked job's time counts when its worker has waited for it."""
    times = [psutil.Process(process.pid).cpu_times() for process in pair]
    return float(sum(one.user + one.system + one.children_user + one.children_system for one in times))
