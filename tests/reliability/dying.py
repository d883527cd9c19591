"""Processes that stop dead at a named moment: what ``kill -9`` at exactly that instruction does."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["rqmail.processes.worker", "jobs.mail", "reliability.dying"])


@dataclass(frozen=True)
class Moment:
    """Just before or just after ``where`` (``module:Class.method`` or ``module:function``) is called, by ``who``."""

    who: Literal["dispatcher", "worker"]
    when: Literal["before", "after"]
    where: str

    def arm(self) -> None:
        """Make this process kill itself at that moment."""
        module, _, path = self.where.partition(":")
        owner: Any = import_module(module)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        raw = vars(owner)[name]
        wrap = type(raw) if isinstance(raw, (classmethod, staticmethod)) else lambda function: function
        function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
        setattr(owner, name, wrap(_deadly(function, self.when)))


def _deadly(function: Callable[..., Any], when: str) -> Callable[..., Any]:
    def deadly(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        function(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    return deadly


def die_at(moment: Moment, environment: Mapping[str, str]) -> int | None:
    """Run a dispatcher or a worker that stops dead at ``moment``; answer how the process ended."""
    process = _forkserver.Process(target=_live_until, args=(moment, dict(environment)))
    process.start()
    process.join(timeout=60)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    return code


def _live_until(moment: Moment, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    moment.arm()
    from rqmail import bootstrap
    from rqmail.processes import worker

    app = bootstrap.application()
    if moment.who == "dispatcher":
        app.dispatcher.tick()
    else:
        worker.run(app, burst=True)
