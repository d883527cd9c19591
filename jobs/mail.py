"""The functions RQ calls by name; each hands over to the application and answers what it did, as JSON.

A worker that forks for each job imports this module before the first: what a job needs is then there in every child.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rq import get_current_job

from rqmail.bootstrap import Application, application, preload

preload()


def dispatch_due_messages() -> dict[str, Any]:
    """Claim what is due within the budgets and hand it to the workers; a tick missed many times runs once."""
    with _at_work(tick=True) as app:
        return asdict(app.dispatcher.tick())


def send_messages(ids: list[str]) -> dict[str, Any]:
    """Send these messages; ids that are no longer queued are passed over."""
    with _at_work() as app:
        return asdict(app.send(ids))


def recover_messages() -> dict[str, Any]:
    """Find what was lost on the way, imports too; let limits whose time is over go back to what they were."""
    with _at_work(tick=True) as app:
        app.changes.end_limits()
        app.imports.recover()
        return asdict(app.recovery.run())


def purge_messages() -> dict[str, int]:
    """Delete what is older than ``RQMAIL_RETENTION_DAYS`` and ``RQMAIL_AUDIT_RETENTION_DAYS``; 0 keeps everything."""
    with _at_work(tick=True) as app:
        return asdict(app.retention.run())


def prune_sent_items() -> dict[str, int]:
    """Remove copies of mail that is long settled from the mailboxes that want it; answers how many from each."""
    with _at_work(tick=True) as app:
        return app.pruner.run()


def read_bounces() -> dict[str, int]:
    """Read the non-delivery reports that came to mailboxes that send; answers how many in each that had any."""
    with _at_work(tick=True) as app:
        return app.bounces.run()


def tell_webhooks() -> dict[str, int]:
    """Deliver what webhooks are to be told; answers how many events were delivered, not taken, given up."""
    with _at_work(tick=True) as app:
        return asdict(app.webhook_deliverer.run())


def read_traces() -> dict[str, int]:
    """Read what became of mail from the message trace of each Entra tenant; answers how much was new in each."""
    with _at_work(tick=True) as app:
        return app.traces.run()


@contextmanager
def _at_work(*, tick: bool = False) -> Iterator[Application]:
    """Run a job: say that its worker works, and at its end see that the ticks are there, whatever emptied Redis."""
    app = application()
    job = get_current_job()
    if job is not None:
        app.queues.note_at_work(job.worker_name or "", job.origin, tick_id=job.id if tick else None)
    try:
        yield app
    finally:
        app.timetable.keep()
