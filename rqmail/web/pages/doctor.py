"""The doctor: everything mail needs, checked; what the providers said about each sender, and asking them again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from flask import Blueprint, flash, redirect, render_template, url_for
from markupsafe import Markup
from werkzeug.wrappers import Response

from rqmail.administration.access import Scope
from rqmail.administration.checkup import Finding, alike
from rqmail.insight.standing import Sentence
from rqmail.web.auth import require
from rqmail.web.context import application
from rqmail.web.pages import words
from rqmail.web.pages.language import say_count
from rqmail.web.pages.returning import action
from rqmail.web.pages.sentences import has_words, write_sentence

blueprint = Blueprint("doctor", __name__, url_prefix="/doctor")

#: How long the providers are asked at one press of the button: as long as people wait for a page.
_ASKING_SECONDS = 8.0

_WORST_FIRST: Final = ("error", "warning", "ok")
_TYPED = re.compile("`([^`]+)`")


@blueprint.get("")
@require(Scope.READ)
def doctor() -> str:
    """Show what was found: of the installation now, of the senders when their providers were last asked."""
    checkup = application().checkup
    installation, senders = checkup.installation(), checkup.senders()
    found = [*installation, *senders.findings]
    return render_template(
        "pages/doctor.html",
        installation=installation,
        senders=senders,
        groups=_worst_first(senders.findings),
        all_well=not senders.unasked and all(one.level != "error" for one in found),
    )


@action(blueprint, "/ask", page="pages.doctor.doctor")
@require(Scope.ADMIN)
def ask() -> Response:
    """Ask the providers about the senders again, for some seconds."""
    asked = application().checkup.ask(within=_ASKING_SECONDS)
    flash(say_count(words.SENDERS_ASKED, asked.senders))
    if asked.left:
        flash(say_count(words.SENDERS_LEFT, asked.left), "warning")
    return redirect(url_for("pages.doctor.doctor"), HTTPStatus.SEE_OTHER)


@blueprint.app_template_filter("finding")
def write_finding(sentence: Sentence) -> Markup:
    """Say what was found or what to do, with what is typed set as such; the words of others are marked as English."""
    if not has_words(sentence):
        return Markup('<span lang="en">{}</span>').format(str(sentence))
    return Markup(_TYPED.sub(r"<code>\1</code>", str(write_sentence(sentence))))  # noqa: S704 - escaped by then


def _worst_first(findings: Iterable[Finding]) -> list[list[Finding]]:
    return sorted(alike(findings), key=lambda group: (_WORST_FIRST.index(group[0].level), -len(group)))
