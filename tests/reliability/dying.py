"""Processes that stop dead, or freeze, at a named moment: what ``kill`` at exactly that instruction does."""

from __future__ import annotations

import inspect
import io
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from rqmail.intake.kept_aside import PART_ROWS
from support.clock import ClockAhead

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["rqmail.processes.worker", "jobs.mail", "reliability.dying"])

#: What an importer imports: more than two parts.
IMPORTED_ROWS = 2 * PART_ROWS + 3
IMPORTED = b"to,subject,text\n" + b"".join(b"a%d@x.nl,Hoi %d,dag\n" % (n, n) for n in range(IMPORTED_ROWS))


@dataclass(frozen=True)
class Moment:
    """Just before or just after ``where`` (``module:Class.method`` or ``module:function``) is called, by ``who``."""

    who: Literal["dispatcher", "worker", "importer", "undoer"]
    when: Literal["before", "after"]
    where: str

    def arm(self, number: signal.Signals) -> None:
        """Make this process send itself the signal when it first comes to that moment."""
        module, _, path = self.where.partition(":")
        owner: Any = import_module(module)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        raw = inspect.getattr_static(owner, name)
        wrap = type(raw) if isinstance(raw, (classmethod, staticmethod)) else lambda function: function
        function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
        setattr(owner, name, wrap(_struck(function, self.when, number)))


def _struck(function: Callable[..., Any], when: str, number: signal.Signals) -> Callable[..., Any]:
    once = iter([number])

    def strike() -> None:
        for signal_number in once:
            os.kill(os.getpid(), signal_number)

    def struck(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            strike()
        answer = function(*args, **kwargs)
        if when == "after":
            strike()
        return answer

    return struck


def die_at(moment: Moment, environment: Mapping[str, str]) -> int | None:
    """Run a dispatcher, a worker or an import that stops dead at ``moment``; answer how the process ended."""
    process = _forkserver.Process(target=_live_until, args=(moment, signal.SIGKILL, dict(environment), None))
    process.start()
    process.join(timeout=60)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    return code


@contextmanager
def frozen_at(moment: Moment, environment: Mapping[str, str], ahead: Path) -> Iterator[None]:
    """Run a worker that freezes at ``moment``; it is frozen inside, wakes on leaving, and has ended afterwards.

    Its clock runs as far ahead of the machine's as the file ``ahead`` says in seconds.
    """
    process = _forkserver.Process(target=_live_until, args=(moment, signal.SIGSTOP, dict(environment), ahead))
    process.start()
    try:
        deadline = time.monotonic() + 60
        while _state(process.pid) != "T":
            assert process.is_alive() and time.monotonic() < deadline, "it never came to that moment"
            time.sleep(0.02)
        yield
        os.kill(process.pid, signal.SIGCONT)
        process.join(timeout=60)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()
        process.close()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _live_until(moment: Moment, number: signal.Signals, environment: dict[str, str], ahead: Path | None) -> None:
    os.environ.update(environment)
    moment.arm(number)
    from rqmail import bootstrap
    from rqmail.processes import worker

    bootstrap._wired_by_parent = None  # the fork server read the settings in the environment of the first test
    if ahead is not None:
        bootstrap._process = (os.getpid(), bootstrap.build(clock=ClockAhead(ahead)))
    app = bootstrap.application()
    if moment.who == "dispatcher":
        app.dispatcher.tick()
    elif moment.who == "importer":
        app.imports.by("importer").take(io.BytesIO(IMPORTED), "mailbox:news")
    elif moment.who == "undoer":
        [one] = app.imports.recent()
        app.changes.by("undoer").undo_import(one.id)
    else:
        worker.run(app, burst=True)
