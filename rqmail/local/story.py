"""A local run from the first process to the last: start, send the sample campaign, show it, stop cleanly."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType

from rqmail.bootstrap import Application, build
from rqmail.local import sample, view
from rqmail.local.campaign import CampaignWatch
from rqmail.local.folder import RunFolder
from rqmail.local.system import LocalSystem, RunFailedError
from rqmail.models.migrate import migrate
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID
from rqmail.settings import PREFIX, Settings, load_settings
from rqmail.terminal.tables import console


class LocalRun:
    """One ``rqmail run``: everything in ``folder``, nothing left behind."""

    def __init__(self, folder: Path, *, web_port: int = 8080, once: bool = False, load_sample: bool = False) -> None:
        self._folder = RunFolder(folder)
        self._once = once
        self._load_sample = load_sample
        self._stopping = threading.Event()
        self._console = console()
        self._system = LocalSystem(self._folder, self._console, self._stopping, web_port=web_port)

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
                self._system.stop()
                for number, handler in before.items():
                    signal.signal(number, handler)
        return 0

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()

    def _run(self) -> None:
        settings = load_settings()
        real = is_real_graph(settings)
        variables = self._system.start_servers(settings, real=real)
        app = build(load_settings(**{name.removeprefix(PREFIX).lower(): value for name, value in variables.items()}))
        migrate()
        app.timetable.register()
        campaign: dict[str, list[str]] = {}
        if not real or self._load_sample:
            self._sample_mailboxes(app, real=real)
        self._system.start_processes(app.settings, {**os.environ, **variables})
        if not self._console.is_terminal:
            self._console.print(view.addresses(self._system.places))
        if not real or self._load_sample:
            campaign = sample.load(app)
        CampaignWatch(self._system, self._console, self._stopping, once=self._once).watch(app, campaign)

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


def is_real_graph(settings: Settings) -> bool:
    """Whether an app of one's own is configured; a shell that once joined a run still carries the sandbox's."""
    secret = settings.graph_client_secret or settings.graph_certificate or settings.graph_identity
    own = settings.graph_client_id not in {None, SANDBOX_CLIENT_ID}
    return bool(settings.graph_tenant_id and own and secret)
