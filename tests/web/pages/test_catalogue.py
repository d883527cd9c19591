"""The pages' words: complete in both languages, and all of them used."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import rqmail.insight.explaining
import rqmail.web
from rqmail.administration.messages import Decision
from rqmail.models.mailbox import Provider
from rqmail.models.message import MessageStatus, Priority
from rqmail.web.pages import messages
from rqmail.web.pages.catalogue import TEXTS
from rqmail.web.pages.mailboxes import DURATIONS, STATES

HERE = Path(rqmail.web.__file__).parent
SOURCES = [*(HERE / "templates").rglob("*.html"), *(HERE / "pages").glob("*.py")]
SAID = re.compile(r"""\b(?:t|tn|say|say_count)\(\s*f?["']([\w.-]+)["'](\s*~)?""")

#: Keys of which a part is only known while a page is made, and what that part may be.
FAMILIES = {
    "status.": [status.value for status in MessageStatus],
    "priority.": [priority.name.lower() for priority in Priority],
    "state.": STATES,
    "provider.": [provider.value for provider in Provider],
    "pause.for.": list(DURATIONS),
    "bulk.action.": messages.ACTIONS,
    "bulk.text.": messages.ACTIONS,
    "bulk.sure.": [f"{action}.{number}" for action in messages.ACTIONS for number in ("one", "many")],
    "act.": ["cancel", "requeue", "send-now", *map(str, Decision)],
    "source.": ["default", "override"],
    "scope.": ["send", "read", "admin"],
    "redis.": ["ok", "unreachable", "misconfigured"],
    "problem.": ["error", "warning"],
    "series.": ["sent", "deferred", "failed"],
    "field.": ["rateLimitPerMinute", "rateLimitRecipientsPerDay"],
    "worker.": ["busy", "idle", "suspended", "started"],
}


def placeholders(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_text_says_the_same_in_both_languages():
    for key, (english, dutch) in TEXTS.items():
        assert english.strip(), key
        assert dutch.strip(), key
        assert placeholders(english) == placeholders(dutch), key


def test_every_text_can_stand_in_an_attribute():
    assert not [key for key, texts in TEXTS.items() if re.search(r"""["<>&]""", "".join(texts))]


def test_every_text_that_a_page_says_is_there():
    missing = {
        key
        for source in SOURCES
        for key, goes_on in SAID.findall(source.read_text())
        if not goes_on and key not in TEXTS and f"{key}.many" not in TEXTS
    }
    assert not missing


@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_of_a_family_has_words(family):
    assert all(family + member in TEXTS for member in FAMILIES[family])


def test_every_sentence_of_the_overview_has_words():
    codes = re.findall(r'Sentence\(\s*"([a-z-]+)"', Path(rqmail.insight.explaining.__file__).read_text())
    assert len(codes) > 10
    assert not [code for code in codes if f"why.{code}" not in TEXTS and f"why.{code}.many" not in TEXTS]


def test_what_is_said_of_one_is_said_of_many():
    ones = {key.removesuffix(".one") for key in TEXTS if key.endswith(".one")}
    assert ones == {key.removesuffix(".many") for key in TEXTS if key.endswith(".many")}


def test_no_text_is_left_over():
    everything = "".join(source.read_text() for source in SOURCES if source.name != "catalogue.py")
    made_up = ("why.", "waits.", "outcome.", "wrong.", "error.", "duration.", "message.done.", "messages.done.")
    left = [
        key
        for key in TEXTS
        if key.removesuffix(".one").removesuffix(".many") not in everything
        and not key.startswith((*FAMILIES, *made_up))
    ]
    assert not left


def test_a_wrong_limit_is_told_in_the_words_of_the_contract():
    for field in ("rateLimitPerMinute", "rateLimitRecipientsPerDay"):
        assert TEXTS[f"wrong.{field}"][1] == f"{field} moet een positief geheel getal zijn"
