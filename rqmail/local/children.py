"""The processes of a local run: each in a session of its own, so that Ctrl-C reaches them only through us.

honcho's manager would stop all of them at once and kill what is left after five seconds: workers would lose Valkey
while they finish what is in flight. Here they are stopped group by group.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Child:
    """One process: its name, where it writes, and whether the run can go on without it."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    needed: bool


class Children:
    """Starts processes, notices when one ends by itself, and leaves none running."""

    def __init__(self) -> None:
        self._running: dict[str, Child] = {}

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, *, needed: bool = True
    ) -> None:
        """Start a process that writes to ``log``."""
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - every command is ours
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads run yet
            )
        self._running[name] = Child(name, process, log, needed)

    def ended(self) -> Child | None:
        """Answer a process that ended without being told to, each once."""
        for name, child in self._running.items():
            if child.process.poll() is not None:
                return self._running.pop(name)
        return None

    def stop(self, names: Sequence[str], *, patience: float) -> list[str]:
        """Tell these to end, wait for them, kill after ``patience`` seconds; answer the names that had to be killed."""
        leaving = [self._running.pop(name) for name in names if name in self._running]
        for child in leaving:
            _signal(child, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while any(child.process.poll() is None for child in leaving) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        killed = []
        for child in leaving:
            if child.process.poll() is None:
                killed.append(child.name)
            _signal_group(child, signal.SIGKILL)  # whatever the process itself has left behind
            child.process.wait()
        return killed


def _signal(child: Child, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        child.process.send_signal(number)


def _signal_group(child: Child, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process.pid, number)


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
