"""The web process: the JSON API, the pages, and the server for both. Begin reading at ``app.py``."""

from rqmail.web.app import create_app
from rqmail.web.server import serve

__all__ = ["create_app", "serve"]
