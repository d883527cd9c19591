"""Which language a page is in, and what our texts are in it: English in the sources, others in gettext catalogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from babel import Locale
from flask import Blueprint, current_app, request
from flask.sansio.blueprints import BlueprintSetupState
from flask_babel import Babel, format_decimal, get_locale, get_translations
from markupsafe import Markup
from werkzeug.wrappers import Response

from rqmail.web.auth import open_to_all
from rqmail.web.pages import catalogues
from rqmail.web.pages.returning import action, back

blueprint = Blueprint("language", __name__)

#: The language our texts are written in, spoken to whoever asks for none of the others.
SOURCE: Final = "en"

#: Where the catalogues are: ``nl/LC_MESSAGES/messages.po`` is Dutch, and a file beside it is another language.
TRANSLATIONS = Path(__file__).parents[1] / "translations"

#: A text for one and a text for any other number.
Counted = tuple[str, str]

_LANGUAGES = "rqmail-languages"
_COOKIE = "rqmail-language"
_YEAR = 365 * 86_400


def install(pages: Blueprint) -> None:
    """Let every template say things in the viewer's language; what is not compiled yet is compiled now."""
    pages.record_once(_begin)
    pages.app_context_processor(_at_hand)


@action(blueprint, "/language", page="pages.overview.overview")
@open_to_all
def choose() -> Response:
    """Remember the chosen language in this browser."""
    answer = back("pages.overview.overview")
    chosen = request.form.get("language", "")
    if chosen in languages():
        answer.set_cookie(
            _COOKIE,
            chosen,
            max_age=_YEAR,
            path=request.script_root or "/",
            httponly=True,
            samesite="Lax",
            secure=request.is_secure,
        )
    return answer


def languages() -> dict[str, str]:
    """Answer the languages there are: by tag, as browsers write it, each with its own name for itself."""
    found: dict[str, str] = current_app.extensions[_LANGUAGES]
    return found


def language() -> str:
    """Answer the tag of the language that was chosen, or else of the one the browser asks for."""
    return str(get_locale()).replace("_", "-")


def gettext_noop(text: str) -> str:
    """Mark a text for the catalogues, to be said and filled in later."""
    return text


def counted(one: str, many: str) -> Counted:
    """Mark two texts for the catalogues, to be said with a number later."""
    return one, many


def say(text: str, /, **values: Any) -> Markup:
    """Say an English text of ours in the viewer's language, filled in with ``values``, which are escaped."""
    return Markup(get_translations().ugettext(str(text))) % values  # noqa: S704 - our own texts


def say_count(texts: Counted, number: int, /, **values: Any) -> Markup:
    """Say the text for so many, in the viewer's language and by its plural rules; ``%(number)s`` is the number."""
    said = get_translations().ungettext(*texts, number)
    return Markup(said) % {"number": write_number(number), **values}  # noqa: S704 - our own texts


def write_number(number: float) -> str:
    """Write 12345 as 12,345, or as 12.345 in Dutch."""
    return str(format_decimal(number))


def _begin(state: BlueprintSetupState) -> None:
    found = catalogues.compiled(TRANSLATIONS)
    state.app.extensions[_LANGUAGES] = _names([SOURCE, *found])
    Babel(state.app, SOURCE, default_translation_directories=str(TRANSLATIONS), locale_selector=_chosen)


def _chosen() -> str:
    known = languages()
    chosen = request.cookies.get(_COOKIE, "")
    if chosen not in known:
        chosen = request.accept_languages.best_match(list(known)) or SOURCE
    return chosen.replace("-", "_")


def _names(codes: list[str]) -> dict[str, str]:
    named = {code.replace("_", "-"): str(Locale.parse(code).get_display_name() or code) for code in codes}
    return {tag: name[:1].upper() + name[1:] for tag, name in named.items()}


def _at_hand() -> dict[str, Any]:
    return {"say": say, "say_count": say_count, "language": language(), "languages": languages()}
