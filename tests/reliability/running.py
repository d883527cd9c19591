"""A whole system around one test: sandbox, Valkey, a database, and an application whose clock the test moves."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from rqmail.bootstrap import Application
from rqmail.clock import utc_now
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus, NewMessage
from rqmail.processes import worker
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.server import Sandbox
from support.messages import new_message

#: States in which something is still going to happen by itself.
MOVING = {MessageStatus.SCHEDULED, MessageStatus.QUEUED, MessageStatus.SENDING, MessageStatus.UNKNOWN}


class RunningClock:
    """The machine's clock, which the test may push forward: processes of their own live in the present."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.ahead

    def advance(self, **units: float) -> None:
        self.ahead += timedelta(**units)


@dataclass
class Running:
    """What a test asks of the system; ``environment`` is what a process of its own needs to belong to it."""

    app: Application
    clock: RunningClock
    sandbox: Sandbox
    control: SandboxControl
    environment: Mapping[str, str]

    def submit(self, *batch: NewMessage) -> list[str]:
        return Message.submit(batch or [new_message()], self.clock())

    def mailbox(self, key: str, **fields: object) -> str:
        now = self.clock()
        SystemMailbox.create(key=key, address=f"{key}@contoso.example", created_on=now, changed_on=now, **fields)
        self.app.senders.forget()
        return f"mailbox:{key}"

    def work(self) -> None:
        """Be a worker until the queues are empty."""
        with signals_kept():
            worker.run(self.app, burst=True)

    def pass_time(self, **units: float) -> None:
        """Let time pass, then let recovery, dispatch and a worker have their turn."""
        self.clock.advance(**units)
        self.app.redis.delete("rqmail:dispatching")  # a dead dispatcher's lock runs out in Redis's own time
        self.app.senders.forget()
        self.app.recovery.run()
        self.app.dispatcher.tick()
        self.work()

    def settle(self) -> None:
        """Let time pass until nothing more happens by itself."""
        for _ in range(12):
            self.pass_time(minutes=3)
            if not Message.select().where(Message.status.in_([state.value for state in MOVING])).exists():
                return

    def accepted(self) -> list[str]:
        """The ids the provider accepted, as often as it did."""
        return [mail["rqmailId"] for mail in self.control.accepted(fields=("rqmailId",))]


def environment_for(sandbox: Sandbox, database_url: str, redis_url: str) -> dict[str, str]:
    return {
        "RQMAIL_DATABASE_URL": database_url,
        "RQMAIL_REDIS_URL": redis_url,
        "RQMAIL_SECRET_KEY": "a key for nothing but tests",
        "RQMAIL_GRAPH_BASE_URL": sandbox.base_url,
        "RQMAIL_GRAPH_AUTHORITY": sandbox.authority,
        "RQMAIL_CA_BUNDLE": str(sandbox.ca_file),
        "RQMAIL_GRAPH_TENANT_ID": sandbox.directory.tenant_id,
        "RQMAIL_GRAPH_CLIENT_ID": sandbox.directory.client_id,
        "RQMAIL_GRAPH_CLIENT_SECRET": sandbox.directory.client_secret,
        "RQMAIL_WEB_URL": "http://127.0.0.1:8080",
        "RQMAIL_SEND_TIMEOUT_SECONDS": "3",
        "RQMAIL_UNKNOWN_GRACE_SECONDS": "120",
        "RQMAIL_LOG_FORMAT": "json",
    }


@contextmanager
def signals_kept() -> Iterator[None]:
    """Give the test its own signal handlers back: a worker takes them over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
