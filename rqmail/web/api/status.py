"""Everything at one moment: what the first page shows, for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from flask import Blueprint

from rqmail.administration.access import Scope
from rqmail.insight.jsonable import as_json
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel
from rqmail.web.api.standing import SenderNow
from rqmail.web.context import application

blueprint = Blueprint("status", __name__, url_prefix="/admin/status")


class WorkerNow(ApiModel):
    """One worker as it last reported itself."""

    name: str
    state: str
    queues: list[str]
    last_heartbeat: datetime | None


class ProblemNow(ApiModel):
    """Something a person should know: an error keeps mail from going out, a warning does not."""

    level: Literal["error", "warning"]
    code: str
    text: str
    sender: str | None
    waiting: int


class CauseNow(ApiModel):
    """Problems that have one cause: told together, with the mail that waits for its end and what each says."""

    level: Literal["error", "warning"]
    code: str
    text: str
    waiting: int
    senders: list[str]
    texts: list[str]


class StatusNow(ApiModel):
    """Everything at one moment; mailboxes and tenants by key, messages by status over all senders."""

    now: datetime
    messages: dict[str, int]
    mailboxes: dict[str, SenderNow]
    tenants: dict[str, SenderNow]
    default: SenderNow
    queues: dict[str, int]
    workers: list[WorkerNow]
    last_tick_on: datetime | None
    oldest_waiting_on: datetime | None
    redis: Literal["ok", "unreachable", "misconfigured"]
    problems: list[ProblemNow]
    causes: list[CauseNow]


@blueprint.get("")
@operation(Scope.READ, "Status", StatusNow)
def show_status() -> Any:
    """Show counts, budgets, queues, workers, and what is wrong."""
    return as_json(application().overview.status())
