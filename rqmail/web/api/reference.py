"""The API's documentation: the OpenAPI document, and the same as a page that needs nothing from elsewhere."""

from __future__ import annotations

from flask import Blueprint, render_template

from rqmail.web.api.document import openapi_json, spec

blueprint = Blueprint("reference", __name__)

blueprint.add_url_rule("/openapi.json", "openapi", openapi_json)


@blueprint.get("/docs")
def docs() -> str:
    """Show what each operation takes and answers."""
    return render_template("docs.html", document=spec.spec)
