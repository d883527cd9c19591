"""A campaign's subject, text and HTML as Jinja2 templates: which fields they need, and what a row makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from functools import partial
from typing import Any

from rqmail.errors import InvalidInputError
from rqmail.intake.draft import MAX_BODY_BYTES, MAX_SUBJECT_LENGTH

try:
    import babel
    import babel.dates
    import babel.numbers
    import jinja2
    import jinja2.meta
    import jinja2.sandbox
except ModuleNotFoundError as missing:
    raise InvalidInputError("campaign", missing.name or "", "rqmail[campaigns] to be installed") from None

#: What every template may use beside the fields of the list.
GIVEN = ("to", "to_name", "unsubscribe_url")

_BREAKS = re.compile(r"\s+")


class UnrenderableError(Exception):
    """The template cannot be rendered with this row; the text says why."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one person gets."""

    subject: str
    text: str | None
    html: str | None


class Template:
    """A campaign's three texts, compiled once; raises ``InvalidInputError`` for one that is no template.

    HTML is escaped, text and subject are not. ``language`` is that of dates, numbers and currencies
    (``{{ price|currency("EUR") }}``, ``{{ day|date("long") }}``, ``{{ total|number }}``).
    """

    def __init__(self, subject: str, text: str | None, html: str | None, *, language: str = "en") -> None:
        plain, escaped = _environment(language, escape=False), _environment(language, escape=True)
        self._sources = {"subject": subject, "text": text, "html": html}
        if not subject.strip():
            raise InvalidInputError("subject", subject, "some text")
        if not (text or html):
            raise InvalidInputError("html", "", "a text or an html body")
        self._subject = _compiled(plain, "subject", subject)
        self._text = None if not text else _compiled(plain, "text", text)
        self._html = None if not html else _compiled(escaped, "html", html)
        self.needs = {
            name: jinja2.meta.find_undeclared_variables(plain.parse(source))
            for name, source in self._sources.items()
            if source
        }

    def check_fields(self, fields: Sequence[str]) -> None:
        """Raise ``InvalidInputError`` unless the list has every field that is used."""
        known = {*fields, *GIVEN}
        for part, names in self.needs.items():
            for name in sorted(names - known):
                near = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidInputError(part, f"{{{{ {name} }}}}", f"fields of the list: {', '.join(fields)}{hint}")

    @property
    def used(self) -> set[str]:
        """Every field that one of the texts uses."""
        return set().union(*self.needs.values())

    def render_subject(self, values: Mapping[str, str]) -> str:
        """Render the subject alone, on one line; raises ``UnrenderableError``."""
        try:
            subject = _BREAKS.sub(" ", self._subject.render(values)).strip()
        except Exception as problem:  # noqa: BLE001 - a template can fail in any way, for one row alone
            raise UnrenderableError(f"The template cannot be rendered: {str(problem)[:300]}") from None
        if not subject or len(subject) > MAX_SUBJECT_LENGTH:
            raise UnrenderableError(f"The subject is {'empty' if not subject else 'too long'} for this row.")
        return subject

    def render(self, values: Mapping[str, str]) -> Rendered:
        """Render what one person gets; raises ``UnrenderableError``."""
        subject = self.render_subject(values)
        try:
            text = None if self._text is None else self._text.render(values)
            html = None if self._html is None else self._html.render(values)
        except Exception as problem:  # noqa: BLE001 - a template can fail in any way, for one row alone
            raise UnrenderableError(f"The template cannot be rendered: {str(problem)[:300]}") from None
        if len((text or "").encode()) + len((html or "").encode()) > MAX_BODY_BYTES:
            raise UnrenderableError(f"Text and HTML together are larger than {MAX_BODY_BYTES:,} bytes for this row.")
        return Rendered(subject, text or None, html or None)


def field_name(column: str) -> str:
    """Answer how a template names a column: ``First name`` is ``first_name``."""
    name = re.sub(r"\W+", "_", column.strip().lower()).strip("_")
    return f"_{name}" if name[:1].isdigit() else name


def _environment(language: str, *, escape: bool) -> jinja2.Environment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        autoescape=escape, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    locale = _locale(language)
    environment.filters |= {
        "date": partial(_date, locale=locale),
        "number": partial(_number, locale=locale),
        "currency": partial(_currency, locale=locale),
    }
    return environment


def _locale(language: str) -> babel.Locale:
    try:
        return babel.Locale.parse(language.replace("-", "_"))
    except (ValueError, babel.UnknownLocaleError):
        raise InvalidInputError("language", language, "a language such as en, nl or de-AT") from None


def _compiled(environment: jinja2.Environment, part: str, source: str) -> jinja2.Template:
    if len(source.encode()) > MAX_BODY_BYTES:
        raise InvalidInputError(part, f"{len(source):,} characters", f"at most {MAX_BODY_BYTES:,} bytes")
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as wrong:
        raise InvalidInputError(part, f"line {wrong.lineno}", f"a Jinja2 template ({wrong.message})") from None


def _date(value: Any, format_: str = "medium", *, locale: babel.Locale) -> str:
    moment = value if isinstance(value, date) else datetime.fromisoformat(str(value).strip())
    return str(babel.dates.format_date(moment, format_, locale=locale))


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(str(value).strip())
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None


def _number(value: Any, *, locale: babel.Locale) -> str:
    return str(babel.numbers.format_decimal(_decimal(value), locale=locale))


def _currency(value: Any, currency: str = "EUR", *, locale: babel.Locale) -> str:
    return str(babel.numbers.format_currency(_decimal(value), currency, locale=locale))
