"""The pages for people."""

from __future__ import annotations

from flask import Blueprint, render_template

from rqmail.access import Scope
from rqmail.web.auth import require

blueprint = Blueprint("pages", __name__)


@blueprint.get("/")
@require(Scope.READ)
def overview() -> str:
    """Show the first page."""
    return render_template("overview.html")
