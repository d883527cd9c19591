"""Every page says so while mail goes elsewhere than to its recipients."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from rqmail.web.context import application

blueprint = Blueprint("staged", __name__)


@blueprint.app_context_processor
def _staged() -> dict[str, Any]:
    settings = application().settings
    return {"staged": {"transport": settings.transport, "redirect_to": settings.redirect_to}}
