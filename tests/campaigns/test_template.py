"""Templates: what a row makes of them in the language of the campaign, and what is refused."""

from __future__ import annotations

import pytest

from rqmail.campaigns.template import Template, UnrenderableError, field_name
from rqmail.errors import InvalidInputError

ROW = {"name": "Zoë <b>", "price": "1234.5", "day": "2026-12-24", "to": "zoe@example.org", "to_name": ""}


def test_html_is_escaped_and_text_and_subject_are_not():
    template = Template("Hi {{ name }}", "Dear {{ name }}", "<p>Dear {{ name }}</p>")
    rendered = template.render(ROW)
    assert (rendered.subject, rendered.text, rendered.html) == (
        "Hi Zoë <b>",
        "Dear Zoë <b>",
        "<p>Dear Zoë &lt;b&gt;</p>",
    )


@pytest.mark.parametrize(
    ("language", "source", "shown"),
    [
        ("nl", '{{ price|currency("EUR") }}', "€ 1.234,50"),
        ("en", '{{ price|currency("EUR") }}', "€1,234.50"),
        ("de", "{{ price|number }}", "1.234,5"),
        ("nl", '{{ day|date("long") }}', "24 december 2026"),
        ("en-GB", "{{ day|date }}", "24 Dec 2026"),
    ],
)
def test_dates_numbers_and_money_are_written_in_the_language(language, source, shown):
    rendered = Template("s", source, None, language=language).render(ROW)
    assert rendered.text.replace("\xa0", " ") == shown


@pytest.mark.parametrize(
    ("sources", "field"),
    [
        (("", "t", None), "subject"),
        (("s", None, None), "html"),
        (("s", "{{ name", None), "text"),
        (("s {% if %}", "t", None), "subject"),
        (("s", None, "{% for x in %}"), "html"),
    ],
)
def test_what_is_no_template_is_refused_by_part(sources, field):
    with pytest.raises(InvalidInputError, match=field):
        Template(*sources)


def test_a_field_that_the_list_does_not_have_is_refused_by_name_with_the_nearest():
    template = Template("s", "Dear {{ nmae }}", None)
    with pytest.raises(InvalidInputError, match=r"text.*nmae.*did you mean 'name'"):
        template.check_fields(["name", "price"])
    Template("s", "{{ to }} {{ to_name }} {{ name }}", None).check_fields(["name"])


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ price|number|attr('__class__') }}",
        "{{ nothing }}",
        "{{ name|number }}",
        "{% for x in range(10**9) %}x{% endfor %}",
        "{{ 1 // 0 }}",
    ],
)
def test_what_a_template_may_not_or_cannot_do_fails_for_that_row_alone(source):
    with pytest.raises(UnrenderableError):
        Template("s", source, None).render(ROW)


def test_a_subject_is_one_line_and_never_empty():
    assert Template("Hi\n  {{ name }} ", "t", None).render(ROW).subject == "Hi Zoë <b>"
    with pytest.raises(UnrenderableError, match="subject is empty"):
        Template("{{ to_name }}", "t", None).render(ROW)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("First name", "first_name"),
        ("E-mail", "e_mail"),
        (" 2nd prize ", "_2nd_prize"),
        ("Prénom", "prénom"),
        ("-", ""),
    ],
)
def test_a_column_is_named_as_a_template_can_write_it(column, name):
    assert field_name(column) == name
