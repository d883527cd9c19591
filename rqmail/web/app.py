"""The Flask application, put together: who is asking, what answers, and what every answer carries."""

from __future__ import annotations

from flask import Flask, redirect
from werkzeug.wrappers import Response

from rqmail.bootstrap import Application
from rqmail.web import answers, auth, errors, health, metrics, sessions
from rqmail.web.api import register_api
from rqmail.web.attempts import Attempts
from rqmail.web.config import configure
from rqmail.web.context import bind
from rqmail.web.pages import blueprint as pages


def create_app(application: Application, *, trusted_hosts: list[str] | None = None) -> Flask:
    """Make the web application around ``application``.

    ``trusted_hosts`` are the names it answers to (``.example.org`` for a domain and all below it); ``None`` is any.
    ``/admin/…`` and ``/messages…`` are the API, ``/ui/…`` the pages, ``/login`` and ``/logout`` the way in and out,
    ``/healthz``, ``/readyz`` and ``/metrics`` are for monitors.
    """
    app = Flask("rqmail.web")
    configure(app, application.settings, trusted_hosts)
    bind(app, application, Attempts(application.settings.redis_url))
    answers.install(app)
    auth.install(app)
    errors.install(app)
    app.register_blueprint(health.blueprint)
    app.register_blueprint(metrics.blueprint)
    app.register_blueprint(sessions.blueprint)
    app.register_blueprint(pages, url_prefix="/ui")
    register_api(app)
    app.add_url_rule("/", "root", _to_the_pages)
    return app


def _to_the_pages() -> Response:
    return redirect("/ui/")
