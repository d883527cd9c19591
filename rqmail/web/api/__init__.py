"""The JSON API for programs, described by the OpenAPI document it serves at ``/openapi.json``."""

from __future__ import annotations

from flask import Blueprint, Flask

from rqmail.web.api import (
    bodies,
    campaigns,
    changes,
    forecast,
    importing,
    mailboxes,
    messages,
    reference,
    status,
    submitting,
    suppression,
    tenants,
    tokens,
)


def register_api(app: Flask) -> None:
    """Add the API and its documentation to the application."""
    api = Blueprint("api", __name__)
    api.before_request(bodies.check)
    parts = (mailboxes, tenants, submitting, importing, messages, suppression, campaigns, tokens, changes, status)
    for part in (*parts, forecast):
        api.register_blueprint(part.blueprint)
    app.register_blueprint(api)
    app.register_blueprint(reference.blueprint)
