"""The texts of the pages: the same in every language, current with the sources, and compiled where they are needed."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.frontend import CommandLineInterface
from babel.messages.pofile import read_po

import rqmail.insight.explaining
from rqmail.administration.messages import Decision
from rqmail.models.mailbox import Provider
from rqmail.models.message import MessageStatus, Priority
from rqmail.web.pages import act_words, catalogues, field_words, mailboxes, messages, sentences, words
from rqmail.web.pages.language import TRANSLATIONS

ROOT = Path(__file__).parents[3]
TEMPLATE = TRANSLATIONS / "messages.pot"
SOURCES = sorted(TRANSLATIONS.glob("*/LC_MESSAGES/*.po"))
NAMED = re.compile(r"%\((\w+)\)[sd]")

each_language = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.parents[1].name)


def catalogue(path: Path, language: str | None = None) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=language)


def texts(found: Catalog):
    """Every text as (context, its text or texts)."""
    return {(message.context, message.id): message for message in found if message.id}


def each(text_or_texts) -> tuple[str, ...]:
    return text_or_texts if isinstance(text_or_texts, tuple) else (text_or_texts,)


def test_dutch_is_there():
    assert "nl" in [source.parents[1].name for source in SOURCES]


@each_language
def test_no_text_is_missing_in_a_language_and_none_is_left_over(source):
    translated = texts(catalogue(source, source.parents[1].name))
    assert set(translated) == set(texts(catalogue(TEMPLATE)))
    unsaid = [text for text, message in translated.items() if not all(each(message.string)) or message.fuzzy]
    assert unsaid == []


@each_language
def test_every_placeholder_of_a_text_is_in_its_translation_and_no_other(source):
    found = catalogue(source, source.parents[1].name)
    assert [(message.id, errors) for message, errors in found.check()] == []
    for message in found:
        wanted = {name for text in each(message.id) for name in NAMED.findall(text)}
        # One form may leave the number out: "1 message waits".
        assert {name for text in each(message.string) for name in NAMED.findall(text)} == wanted, message.id
        for text in (*each(message.id), *each(message.string)) if message.id else ():
            assert "%" not in NAMED.sub("", text), text


@each_language
def test_every_text_can_stand_in_an_attribute(source):
    found = texts(catalogue(source, source.parents[1].name)).values()
    said = [text for message in found for text in (*each(message.id), *each(message.string))]
    assert [text for text in said if re.search(r"""["<>&]""", text)] == []


def test_the_template_of_the_catalogues_is_what_the_sources_say_now(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    CommandLineInterface().run(["pybabel", "-q", "extract", "-o", str(tmp_path / "now.pot")])
    now = {text: message.locations for text, message in texts(catalogue(tmp_path / "now.pot")).items()}
    kept = {text: message.locations for text, message in texts(catalogue(TEMPLATE)).items()}
    assert kept == now, "run `make translations`, then translate what is new"


# --- a third language, and compiling ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """The sources of the catalogues alone, as in a fresh checkout."""
    return Path(shutil.copytree(TRANSLATIONS, tmp_path / "translations", ignore=shutil.ignore_patterns("*.mo")))


def test_a_checkout_compiles_its_catalogues_when_they_are_first_needed(folder):
    assert catalogues.compiled(folder) == ["nl"]
    assert (folder / "nl/LC_MESSAGES/messages.mo").is_file()
    assert [path for path in folder.rglob("*") if path.name.startswith(".")] == []


def test_a_catalogue_that_was_edited_is_compiled_again_and_one_that_was_not_is_not(folder):
    catalogues.compiled(folder)
    source, target = folder / "nl/LC_MESSAGES/messages.po", folder / "nl/LC_MESSAGES/messages.mo"
    before = target.stat().st_mtime_ns
    catalogues.compiled(folder)
    assert target.stat().st_mtime_ns == before
    source.write_text(source.read_text().replace("Postbussen", "Brievenbussen"))
    os.utime(source, ns=(before + 1_000_000_000, before + 1_000_000_000))
    catalogues.compiled(folder)
    assert b"Brievenbussen" in target.read_bytes()


def test_what_cannot_be_compiled_is_said_and_the_others_are_there(folder, monkeypatch):
    heard = []
    monkeypatch.setattr(catalogues.log, "warning", lambda event, **fields: heard.append((event, fields["file"])))
    broken = folder / "de/LC_MESSAGES/messages.po"
    broken.parent.mkdir(parents=True)
    shutil.copy(folder / "nl/LC_MESSAGES/messages.po", broken)
    write = catalogues.write_mo

    def refuse(file, found):
        if "/de/" in file.name:
            raise PermissionError("read-only file system")
        write(file, found)

    monkeypatch.setattr(catalogues, "write_mo", refuse)
    assert catalogues.compiled(folder) == ["nl"]
    assert heard == [("web.catalogue.notCompiled", str(broken))]


def test_a_third_language_is_one_file(folder, monkeypatch, application):
    german = folder / "de/LC_MESSAGES/messages.po"
    german.parent.mkdir(parents=True)
    german.write_text(
        (folder / "nl/LC_MESSAGES/messages.po")
        .read_text()
        .replace("Language: nl", "Language: de")
        .replace('msgstr "Aanmelden"', 'msgstr "Anmelden"')
    )
    monkeypatch.setattr("rqmail.web.pages.language.TRANSLATIONS", folder)
    from rqmail.web import create_app

    page = create_app(application).test_client().get("/login", headers={"Accept-Language": "de-CH,de;q=0.9"}).text
    assert '<html lang="de">' in page
    assert ">Anmelden</h1>" in page
    assert re.findall(r'<button name="language" value="(\w+)"[^>]*aria-label="(\w+)"', page) == [
        ("en", "English"),
        ("de", "Deutsch"),
        ("nl", "Nederlands"),
    ]


# --- every value of ours has words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (words.STATUSES, [status.value for status in MessageStatus]),
        (words.PRIORITIES, [priority.name.lower() for priority in Priority]),
        (words.STATES, mailboxes.STATES),
        (words.PROVIDERS, [provider.value for provider in Provider]),
        (words.PAUSES, mailboxes.DURATIONS),
        (act_words.BULK_ACTIONS, messages.ACTIONS),
        (act_words.BULK_CONSEQUENCES, messages.ACTIONS),
        (act_words.BULK_QUESTIONS, messages.ACTIONS),
        (act_words.BULK_DONE, messages.ACTIONS),
        (act_words.ACTS, ["cancel", "requeue", "send-now", *map(str, Decision)]),
        (act_words.ACT_QUESTIONS, ["cancel", *map(str, Decision)]),
        (act_words.ACT_CONSEQUENCES, ["cancel", *map(str, Decision)]),
        (act_words.ACTS_DONE, ["cancel", "requeue", "send-now", *map(str, Decision)]),
        (words.SOURCES, ["default", "override"]),
        (words.SOURCES_LONG, ["default", "override"]),
        (words.SCOPES, ["send", "read", "admin"]),
        (words.SCOPES_LONG, ["send", "read", "admin"]),
        (words.REDIS, ["ok", "unreachable", "misconfigured"]),
        (words.LEVELS, ["error", "warning"]),
        (words.SERIES, ["sent", "deferred", "failed"]),
        (field_words.FIELDS, ["rateLimitPerMinute", "rateLimitRecipientsPerDay"]),
        (words.WORKERS, ["busy", "idle", "suspended", "started"]),
    ],
)
def test_every_value_there_is_has_words(table, values):
    assert set(values) <= set(table)


def test_every_sentence_of_the_overview_has_words():
    codes = re.findall(r'Sentence\(\s*"([a-z-]+)"', Path(rqmail.insight.explaining.__file__).read_text())
    assert len(codes) > 10
    assert [code for code in codes if code not in sentences.WHY and code not in sentences.COUNTED] == []


def test_a_wrong_limit_is_told_in_the_words_of_the_contract():
    dutch = texts(catalogue(TRANSLATIONS / "nl/LC_MESSAGES/messages.po", "nl"))
    for field in ("rateLimitPerMinute", "rateLimitRecipientsPerDay"):
        said = dutch[(None, f"{field} must be a positive whole number")].string
        assert said == f"{field} moet een positief geheel getal zijn"


def test_the_guide_tells_every_state_of_a_sender_as_the_pages_call_it():
    guide = (ROOT / "docs/admin.md").read_text()
    told = re.search(r"\| state \| means \|\n\|---\|---\|\n((?:\|.*\n)+)", guide)[1]
    assert sorted(re.findall(r"^\| ([^|]+) \|", told, re.MULTILINE)) == sorted(
        text._args[0] for text in words.STATES.values()
    )
