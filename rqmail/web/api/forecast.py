"""When the mail of mailboxes will have left, and what if."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from flask import Blueprint
from pydantic import Field

from rqmail.administration.access import Scope
from rqmail.insight.jsonable import as_json
from rqmail.insight.planning import MOST_MESSAGES, MOST_PER_DAY, MOST_PER_MINUTE, MOST_RECIPIENTS_EACH, Plan
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Line, Moment
from rqmail.web.context import application

blueprint = Blueprint("forecast", __name__, url_prefix="/forecast")


class WhatIf(ApiModel):
    """What if so many messages more were handed in, shared by these mailboxes, under these limits."""

    mailbox: Annotated[
        list[Line], Field(max_length=1000, description="The key of a mailbox, once for each; left out for all of them")
    ] = []  # noqa: RUF012 - pydantic copies it
    messages: Annotated[int, Field(ge=0, le=MOST_MESSAGES)] = 0
    recipients_each: Annotated[int, Field(ge=1, le=MOST_RECIPIENTS_EACH)] = 1
    per_minute: Annotated[int | None, Field(ge=1, le=MOST_PER_MINUTE)] = None
    recipients_per_day: Annotated[int | None, Field(ge=1, le=MOST_PER_DAY)] = None
    at: Annotated[Moment | None, Field(description="When the further messages begin")] = None


class MailboxForecastOf(ApiModel):
    """One mailbox: how many messages wait, how many of the further ones it gets, and when all of them have left."""

    waiting: int
    further: int
    done_on: datetime | None


class ForecastOf(ApiModel):
    """When the last message will have left, of all mailboxes asked about and of each, by key.

    doneOn is null while nobody can tell: a pause has no end, a message is larger than a whole day, or it would take a
    hundred years.
    """

    at: datetime
    messages: int
    done_on: datetime | None
    mailboxes: dict[str, MailboxForecastOf]


@blueprint.get("")
@operation(Scope.READ, "Status", ForecastOf, 404, 409)
def show_forecast(query: WhatIf) -> Any:
    """Say when the mail that waits will have left, by letting the budgets' own windows pass. Nothing is changed."""
    plan = Plan(
        tuple(query.mailbox),
        query.messages,
        query.recipients_each,
        query.per_minute,
        query.recipients_per_day,
        query.at,
    )
    return as_json(application().planning.forecast(plan))
