"""The functions RQ calls by name; each hands over to the application and answers what it did, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from rq import get_current_job

from rqmail.bootstrap import application


def dispatch_due_messages() -> dict[str, Any]:
    """Claim what is due within the budgets and hand it to the workers; a tick missed many times runs once."""
    app = application()
    _drop_missed()
    return asdict(app.dispatcher.tick())


def send_messages(ids: list[str]) -> dict[str, Any]:
    """Send these messages; ids that are no longer queued are passed over."""
    return asdict(application().send(ids))


def recover_messages() -> dict[str, Any]:
    """Find what was lost on the way."""
    app = application()
    _drop_missed()
    return asdict(app.recovery.run())


def purge_messages() -> int:
    """Delete what is older than ``RQMAIL_RETENTION_DAYS`` and ``RQMAIL_AUDIT_RETENTION_DAYS``; 0 keeps everything.

    Answers how many messages were deleted.
    """
    app = application()
    _drop_missed()
    settings = app.settings
    if settings.audit_retention_days:
        app.audit.purge(timedelta(days=settings.audit_retention_days))
    return app.retention.purge(timedelta(days=settings.retention_days)) if settings.retention_days else 0


def _drop_missed() -> None:
    job = get_current_job()
    if job is not None:
        application().queues.drop_missed(job.id)
