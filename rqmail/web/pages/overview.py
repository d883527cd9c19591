"""The first page: what was sent, what waits, and whether everything that carries mail is alive."""

from __future__ import annotations

from datetime import timedelta

from flask import Blueprint, render_template

from rqmail.administration.access import Scope
from rqmail.queues import MAIL, MAIL_HIGH
from rqmail.web.auth import require
from rqmail.web.context import application
from rqmail.web.pages.chart import draw

blueprint = Blueprint("overview", __name__)

#: Ticks older than this many polls are called late.
_POLLS = 3


@blueprint.get("/")
@require(Scope.READ)
def overview() -> str:
    """Show everything at one moment."""
    app = application()
    status = app.overview.status()
    late = timedelta(seconds=max(10, _POLLS * app.settings.poll_seconds))
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
        scheduler_alive=status.last_tick_on is not None and status.now - status.last_tick_on <= late,
        busiest=sorted(
            (s for s in status.mailboxes.values() if s.waiting or s.state != "ok"),
            key=lambda s: (-s.waiting, s.key),
        )[:8],
    )
