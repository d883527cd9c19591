"""The Flask application, put together: who is asking, what answers, and what every answer carries."""

from __future__ import annotations

from flask import Flask, redirect, url_for
from werkzeug.wrappers import Response

from rqmail.administration.attempts import Attempts
from rqmail.bootstrap import Application
from rqmail.web import answers, auth, errors, health, metrics, sessions, unstorable, unsubscribing
from rqmail.web.api import register_api
from rqmail.web.api.bodies import ApiRequest
from rqmail.web.config import configure
from rqmail.web.context import bind
from rqmail.web.mounting import Mount, path_of
from rqmail.web.pages import blueprint as pages


def create_app(
    application: Application, *, trusted_hosts: list[str] | None = None, behind_proxy: bool = False
) -> Flask:
    """Make the web application around ``application``.

    ``trusted_hosts`` are the names it answers to (``.example.org`` for a domain and all below it); ``None`` is any.
    ``behind_proxy`` says that the server removes X-Forwarded-For where no trusted proxy sent it.
    ``/admin/…``, ``/messages…`` and ``/forecast`` are the API, ``/ui/…`` the pages, ``/login`` and ``/logout`` the way
    in and out, ``/healthz``, ``/readyz`` and ``/metrics`` are for monitors.
    """
    app = Flask("rqmail.web")
    app.request_class = ApiRequest
    settings = application.settings
    configure(app, settings, trusted_hosts)
    bind(app, application, Attempts(settings.redis_url, ca_file=settings.redis_authority))
    answers.install(app)
    auth.install(app)
    unstorable.install(app)
    errors.install(app)
    app.register_blueprint(health.blueprint)
    app.register_blueprint(metrics.blueprint)
    app.register_blueprint(sessions.blueprint)
    app.register_blueprint(unsubscribing.blueprint)
    app.register_blueprint(pages, url_prefix="/ui")
    register_api(app)
    app.add_url_rule("/", "root", _to_the_pages)
    auth.check_every_view(app)
    ours = {rule.rule.split("/")[1] for rule in app.url_map.iter_rules()} - {""}
    app.wsgi_app = Mount(  # type: ignore[method-assign]  # as Flask's documentation has it
        app.wsgi_app,
        path_of(application.settings.web_url, ours),
        ours,
        host=trusted_hosts[0].lstrip(".") if trusted_hosts else None,
        behind_proxy=behind_proxy,
    )
    return app


@auth.open_to_all
def _to_the_pages() -> Response:
    return redirect(url_for("pages.overview.overview"))
