"""Looking ahead: when the mail of each mailbox will have left, and what if more came or limits were others."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from rqmail.administration.access import Scope
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.insight.planning import Forecast, Plan
from rqmail.web.auth import require
from rqmail.web.context import application
from rqmail.web.pages import typed
from rqmail.web.pages.language import say

blueprint = Blueprint("forecast", __name__, url_prefix="/forecast")

_NUMBERS = ("messages", "recipientsEach", "perMinute", "recipientsPerDay")


@blueprint.get("")
@require(Scope.READ)
def forecast() -> str:
    """Show when what waits, and what was typed, will have left; asking changes nothing."""
    wrong: typed.Wrong = {}
    asked = {name: request.args.get(name, "").strip() for name in (*_NUMBERS, "at", "zone")}
    chosen = request.args.getlist("mailbox")
    told = _told(asked, chosen, wrong)
    app = application()
    return render_template(
        "pages/forecast.html",
        told=told,
        asked=asked,
        chosen=chosen,
        wrong=wrong,
        mailboxes=[mailbox.key for mailbox in app.mailboxes.all()],
        problems=[one.text for one in app.overview.status().problems if one.level == "error"],
    )


def _told(asked: dict[str, str], chosen: list[str], wrong: typed.Wrong) -> Forecast | None:
    numbers = {name: typed.whole_of(name, asked[name], wrong) for name in _NUMBERS}
    at = typed.moment(asked["at"], asked["zone"]) if asked["at"] else None
    if asked["at"] and at is None:
        typed.note(wrong, InvalidInputError("at", asked["at"], ""))
    if wrong:
        return None
    each = numbers["recipientsEach"]
    plan = Plan(
        tuple(dict.fromkeys(chosen)),
        numbers["messages"] or 0,
        1 if each is None else each,
        numbers["perMinute"],
        numbers["recipientsPerDay"],
        at,
    )
    try:
        return application().planning.forecast(plan)
    except InvalidInputError as error:
        typed.note(wrong, error)
    except NotFoundError as error:
        wrong["mailbox"] = say("There is no mailbox %(key)s.", key=error.key)
    except ConflictError:
        wrong["redis"] = say("What is used now cannot be told while Redis is away.")
    return None
