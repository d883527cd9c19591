"""The processes of a local run end when told, in order, and never outlive it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rqmail.local.children import Children

SLEEPER = [sys.executable, "-c", "print('up', flush=True); import signal; signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]


@pytest.fixture
def children():
    children = Children()
    yield children
    children.stop(("one", "two"), patience=0)


def until(ready):
    """Look until it is so, for at most ten seconds."""
    pause = threading.Event()
    for _ in range(1000):
        if ready():
            return True
        pause.wait(0.01)
    return False


def start(children, name, command, tmp_path):
    log = tmp_path / f"{name}.log"
    children.start(name, command, dict(os.environ), log)
    assert until(lambda: log.read_bytes() == b"up\n")


def test_what_is_told_to_end_ends(children, tmp_path):
    start(children, "one", SLEEPER, tmp_path)
    start(children, "two", SLEEPER, tmp_path)
    assert children.ended() is None
    assert children.stop(("one",), patience=10) == []
    assert children.stop(("one", "two"), patience=10) == []


def test_what_does_not_listen_is_killed_and_named(children, tmp_path):
    start(children, "one", STUBBORN, tmp_path)
    assert children.stop(("one",), patience=0.1) == ["one"]


def test_a_process_that_ends_by_itself_is_noticed_once(children, tmp_path):
    children.start("one", [sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ), tmp_path / "log")
    found = []
    assert until(lambda: found.append(children.ended()) or found[-1] is not None)
    assert (found[-1].name, found[-1].process.returncode) == ("one", 3)
    assert children.ended() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_a_killed_run_takes_its_processes_along(tmp_path):
    script = f"""
import os, pathlib, signal
from rqmail.local.children import Children
children = Children()
children.start("one", {SLEEPER!r}, dict(os.environ), pathlib.Path({str(tmp_path / "log")!r}))
print(next(iter(children._running.values())).process.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: is_gone(child))


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie that nobody has waited for yet is gone as well.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
