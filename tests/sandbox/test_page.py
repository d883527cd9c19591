"""The page for people."""

from __future__ import annotations

from html.parser import HTMLParser

from sandbox.graph_client import message

HOSTILE = '"><script>alert(1)</script>{{7*7}}'


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page(graph, path: str):
    return graph.http.get(f"{graph.sandbox.authority}{path}", timeout=5)


def test_the_page_says_what_to_expect_when_nothing_came(graph):
    assert "No mail yet" in page(graph, "/").text


def test_the_newest_mail_stands_first_and_older_ones_a_click_away(graph):
    for number in range(102):
        graph.send(message(subject=f"Nr. {number}."), mailbox=f"box{number}@voorbeeld.nl")
    first, older = page(graph, "/").text, page(graph, "/?before=3").text
    assert first.index("Nr. 101.") < first.index("Nr. 100.")
    assert "Nr. 1." not in first
    assert 'href="/?before=3"' in first
    assert "Nr. 1." in older
    assert "Nr. 7." in page(graph, "/?mailbox=box7@voorbeeld.nl").text


def test_hostile_text_stays_text(graph):
    mail = message(
        subject=HOSTILE,
        body={"contentType": "html", "content": f"<script>alert(2)</script>{HOSTILE}"},
        toRecipients=[{"emailAddress": {"address": "a@example.org", "name": HOSTILE}}],
        internetMessageHeaders=[{"name": "x-hostile", "value": HOSTILE}],
        attachments=[{"name": HOSTILE, "contentBytes": "YQ=="}],
    )
    assert graph.send(mail).status_code == 202
    for path in ("/", "/mail/1"):
        shown = page(graph, path)
        assert not [tag for tag, _ in Tags(shown.text).found if tag == "script"]
        assert "{{7*7}}" in shown.text
        assert "default-src 'none'" in shown.headers["Content-Security-Policy"]


def test_html_mail_is_shown_in_a_frame_that_may_do_nothing(graph):
    content = "<p onclick=\"x('y')\">Hallo &amp; welkom</p>"
    graph.send(message(body={"contentType": "html", "content": content}))
    [frame] = [attributes for tag, attributes in Tags(page(graph, "/mail/1").text).found if tag == "iframe"]
    assert (frame["sandbox"], frame["srcdoc"]) == ("", content)


def test_a_mail_that_is_not_there_is_a_404(graph):
    assert page(graph, "/mail/9").status_code == 404
