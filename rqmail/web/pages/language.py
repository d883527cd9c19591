"""Which language a page is in, and what our sentences are in it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, redirect, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from rqmail.web.pages.catalogue import TEXTS
from rqmail.web.sessions import local_path

blueprint = Blueprint("language", __name__)

#: The languages there are, each by its own name; the first is spoken to whoever asks for none of them.
LANGUAGES: Final = {"en": "English", "nl": "Nederlands"}

_COOKIE = "rqmail-language"
_YEAR = 365 * 86_400


def install(pages: Blueprint) -> None:
    """Let every template say things in the viewer's language."""
    pages.app_context_processor(_words)


@blueprint.post("/language")
def choose() -> Response:
    """Remember the chosen language in this browser."""
    answer = redirect(local_path(request.form.get("next")), HTTPStatus.SEE_OTHER)
    chosen = request.form.get("language", "")
    if chosen in LANGUAGES:
        answer.set_cookie(_COOKIE, chosen, max_age=_YEAR, httponly=True, samesite="Lax", secure=request.is_secure)
    return answer


def language() -> str:
    """Answer the language that was chosen, or else the one the browser asks for."""
    chosen = request.cookies.get(_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return request.accept_languages.best_match(list(LANGUAGES)) or next(iter(LANGUAGES))


def say(key: str, /, **values: Any) -> Markup:
    """Say the sentence of this key in the viewer's language, filled in with ``values``, which are escaped."""
    return Markup(TEXTS[key][list(LANGUAGES).index(language())]).format(**values)  # noqa: S704 - our own texts


def say_count(key: str, number: int, /, **values: Any) -> Markup:
    """Say ``key.one`` for one and ``key.many`` for any other number, which fills in ``{number}``."""
    return say(f"{key}.one" if number == 1 else f"{key}.many", number=write_number(number), **values)


def write_number(number: int) -> str:
    """Write 12345 as 12,345, or as 12.345 in Dutch."""
    text = f"{number:,}"
    return text.replace(",", ".") if language() == "nl" else text


def _words() -> dict[str, Any]:
    return {"t": say, "tn": say_count, "language": language(), "languages": LANGUAGES}
