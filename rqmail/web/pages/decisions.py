"""What needs a decision: messages of which nobody can tell whether they were sent."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, render_template, request

from rqmail.administration import messages
from rqmail.administration.access import Scope
from rqmail.administration.messages import Filter
from rqmail.models.message import MessageStatus
from rqmail.web.auth import require
from rqmail.web.context import principal

blueprint = Blueprint("decisions", __name__, url_prefix="/decisions")

_PAGE = 20
_UNDECIDED = Filter(status=MessageStatus.UNKNOWN)


@blueprint.get("")
@require(Scope.READ)
def list_undecided() -> str:
    """Show each with its evidence beside the buttons."""
    found = messages.find(_UNDECIDED, limit=_PAGE + 1, after=request.args.get("after") or None)
    shown = found[:_PAGE]
    return render_template(
        "pages/decisions.html",
        messages=[messages.show(line.id) for line in shown],
        after=shown[-1].id if len(found) > _PAGE else None,
    )


@blueprint.app_context_processor
def _undecided() -> dict[str, Any]:
    """Let the menu say how many there are."""
    asking = principal()
    if asking is None or not asking.may(Scope.READ):
        return {"undecided": 0}
    return {"undecided": messages.count(_UNDECIDED)}
