"""The JSON API for programs, described by the OpenAPI document it serves at ``/openapi.json``."""

from __future__ import annotations

from flask import Flask


def register_api(app: Flask) -> None:
    """Add the API to the application."""
