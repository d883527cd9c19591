"""The numbers for Prometheus."""

from __future__ import annotations

from flask import Blueprint

blueprint = Blueprint("metrics", __name__)
