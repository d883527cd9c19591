"""Where a form leads: back to the page it was sent from, also when its own address is asked for, as a reload does."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from flask import Blueprint, current_app, redirect, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from rqmail.web.auth import open_as
from rqmail.web.sessions import local_path

_V = TypeVar("_V", bound=Callable[..., Any])


def action(blueprint: Blueprint, rule: str, *, page: str) -> Callable[[_V], _V]:
    """Let a view answer what a form sends to ``rule``; asked for, it leads to ``page``, the endpoint the form is on."""

    def register(view: _V) -> _V:
        @open_as(view)
        def lead_back(**parts: str) -> Response:
            return back(page, **parts)

        blueprint.post(rule)(view)
        blueprint.add_url_rule(rule, f"{view.__name__}_asked", lead_back, methods=["GET"])
        return view

    return register


def back(page: str, **parts: str) -> Response:
    """Lead to the page a form was sent from, or to ``page`` where it does not say."""
    came_from = request.values.get("next")
    wanted: dict[str, Any] = {name: value for name, value in parts.items() if name in _parts_of(page)}
    return redirect(local_path(came_from) if came_from else url_for(page, **wanted), HTTPStatus.SEE_OTHER)


def asked() -> MultiDict[str, str]:
    """Answer what was asked of a list: by its own query, or by that of the page from which a form was sent."""
    if request.method == "GET":
        return request.args
    return MultiDict(parse_qsl(urlsplit(local_path(request.values.get("next"))).query))


def _parts_of(page: str) -> set[str]:
    return {part for rule in current_app.url_map.iter_rules(page) for part in rule.arguments}
