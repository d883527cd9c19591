"""What monitors ask: whether the process lives, and whether mail can go out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal

from flask import Blueprint
from spectree import Response

from rqmail.insight.jsonable import as_json
from rqmail.web.api.document import spec
from rqmail.web.api.schema import ApiModel, Wrong
from rqmail.web.auth import open_to_all
from rqmail.web.context import application

blueprint = Blueprint("health", __name__)


class Live(ApiModel):
    """The process answers."""

    status: Literal["ok"]


class CheckOf(ApiModel):
    """One thing that mail needs on its way out; text says what is wrong with it."""

    name: Literal["database", "redis", "ticks", "workers"]
    ok: bool
    text: str


class Ready(ApiModel):
    """Whether mail that is handed in now will go out, and if not, what stands in the way."""

    ready: bool
    checks: list[CheckOf]


@blueprint.get("/healthz")
@open_to_all
@spec.validate(resp=Response(HTTP_200=Live, HTTP_400=Wrong), tags=("Monitoring",), security=[])
def live() -> Any:
    """Say that the process answers; needs no token."""
    return {"status": "ok"}


@blueprint.get("/readyz")
@open_to_all
@spec.validate(resp=Response(HTTP_200=Ready, HTTP_503=Ready), tags=("Monitoring",), security=[])
def ready() -> Any:
    """Say whether mail can go out, and if not, what is wrong; needs no token and names no mailbox."""
    checks = application().readiness.checks()
    all_is_well = all(check.ok for check in checks)
    status = HTTPStatus.OK if all_is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return {"ready": all_is_well, "checks": as_json(checks)}, int(status)
