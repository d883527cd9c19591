"""The first page: what was sent, what waits, and whether everything that carries mail is alive."""

from __future__ import annotations

from flask import Blueprint, render_template

from rqmail.administration.access import Scope
from rqmail.queue_state import MAIL, MAIL_HIGH
from rqmail.web.auth import require
from rqmail.web.context import application
from rqmail.web.pages import problems
from rqmail.web.pages.chart import draw

blueprint = Blueprint("overview", __name__)


@blueprint.get("/")
@require(Scope.READ)
def overview() -> str:
    """Show everything at one moment."""
    app = application()
    status = app.overview.status()
    checks = app.readiness.checks()
    senders = [*status.mailboxes.values(), *status.tenants.values(), status.default]
    return render_template(
        "pages/overview.html",
        status=status,
        chart=draw(app.metrics.last_hour() if status.redis == "ok" else []),
        deferred=sum(sender.deferred for sender in senders),
        waiting=sum(sender.waiting for sender in senders),
        later=sum(sender.scheduled_later for sender in senders),
        workers=sorted(
            (worker for worker in status.workers if {MAIL, MAIL_HIGH} & set(worker.queues)),
            key=lambda worker: worker.name,
        ),
        causes=status.causes,
        not_ready=problems.unsaid(checks, status.problems),
        scheduler_alive=any(check.ok for check in checks if check.name == "ticks"),
        busiest=sorted(
            (s for s in status.mailboxes.values() if s.waiting or s.state != "ok"),
            key=lambda s: (-s.waiting, s.key),
        )[:8],
    )
