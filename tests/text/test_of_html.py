"""The text that is made of a mail's HTML: what it says, and in bounded time and memory whatever it is."""

from __future__ import annotations

import tracemalloc

import pytest

from rqmail.text.of_html import MOST_CHARACTERS, text_of_html


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            "<h1>Open dag</h1><p>Beste Sanne,</p><p>Tot <b>za</b>terdag.</p>",
            "Open dag\n\nBeste Sanne,\n\nTot zaterdag.\n",
        ),
        ('<p><a href="https://x.nl/?a=1&amp;b=2">Ik kom</a></p>', "[Ik kom](https://x.nl/?a=1&b=2)\n"),
        ("<ul><li>een<li>twee<ol><li>drie</ol></ul>", "  * een\n  * twee\n     1. drie\n"),
        ("<table><tr><td>Aantal<td>2<tr><td>Prijs<td>€ 3</table>", "Aantal 2\nPrijs € 3\n"),
        ("regel 1<br>regel 2<hr>", "regel 1\nregel 2\n"),
        ("<pre>a  b\n c</pre>", "a  b\n c\n"),
        ("<title>T</title><style>p{}</style><script>x()</script><!-- c --><?pi?>zichtbaar", "zichtbaar\n"),
        ('<div style="font:1px x; Display : none">preheader</div>Dag', "Dag\n"),
        ('<p style="display:none-such;color:red">Dag</p>', "Dag\n"),
        ("é &euro; 请 &nbsp;x&nbsp;", "é € 请 x\n"),
        ('<?xml version="1.0" encoding="latin-1"?><meta charset="latin-1"><p>é 请', "é 请\n"),
        ("<p>1 &lt; 2 & 3 <> <b", "1 < 2 & 3 <>\n"),
        ("", " "),
        ("<!-- nothing -->", " "),
        ('<img src="cid:logo">', " "),
        ("\ud800<p>half", "?\n\nhalf\n"),
    ],
)
def test_the_text_is_what_the_html_says(html, text):
    assert text_of_html(html) == text


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 20_000 + "x",
        "<ul>" * 250 + "<li>x" * 10_000,
        "<p style='padding-left:9999999999em;margin-top:9999999999em'>x</p>" * 100,
        "<table><tr><td>" + "x" * 20_000 + "</td></tr>" + "<tr><td>x</td></tr>" * 2_000,
        "<table><tr><td rowspan=999999999 colspan=999999999>x",
        "<pre>" + " " * 150_000 + "x",
        "<pre>a" + "\n \t" * 50_000 + "b",
        "<!--" * 50_000,
        "&" * 100_000,
        "<a " + "a=b " * 40_000 + ">x",
        "<a href=" + "x" * 100_000 + ">" * 100_000,
    ],
    ids=["deep", "lists", "styles", "wide cell", "spans", "blanks", "lines", "comments", "signs", "attributes", "link"],
)
def test_no_html_becomes_more_text_than_a_few_times_itself(html):
    text_of_html("<p>loaded")
    tracemalloc.start()
    text = text_of_html(html)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(text) < 20 * len(html)
    assert peak < 60_000_000


def test_only_the_beginning_of_endless_html_is_read():
    assert len(text_of_html("x" * 3_000_000)) == MOST_CHARACTERS + 1
