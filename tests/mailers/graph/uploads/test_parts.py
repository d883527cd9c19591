"""A mail larger than one request goes up in parts, whose sizes are known before a file is read."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

from hypothesis import given, settings
from hypothesis import strategies as st

from mailers.graph.uploads.sending import CONTENT, WHOLE, attached, drafts, file
from rqmail.mailers.base import Address, Mail
from rqmail.mailers.graph.message import encode_message, request_size
from rqmail.mailers.graph.size import LARGEST_REQUEST, RANGE_BYTES


def test_a_large_mail_leaves_as_a_draft_with_its_files_in_their_order(
    control, mailer, transport, large, sandbox, token
):
    picture = file("logo.png", b"PNG" * 100, "image/png", is_inline=True, content_id="logo@x")
    last = file("zo\u00eb.txt", b"dag", "text/plain")
    mailer.send(replace(large, files=(picture, file(), last)))

    [taken] = control.accepted()
    assert (taken["via"], taken["rqmailId"], taken["subject"]) == ("draft", large.id, large.subject)
    assert (taken["to"], taken["bcc"], taken["body"]) == (
        [one.address for one in large.to],
        [one.address for one in large.bcc],
        large.html,
    )
    assert [one["name"] for one in taken["attachments"]] == ["logo.png", "groot.bin", "zo\u00eb.txt"]
    assert (taken["attachments"][0]["isInline"], taken["attachments"][0]["contentId"]) == (True, "logo@x")
    assert attached(control)[1] == WHOLE[0]
    assert transport.steps == [
        "POST messages",
        "POST attachments",
        "POST createUploadSession",
        "PUT",
        "PUT",
        "PUT",
        "POST attachments",
        "POST send",
    ]
    assert drafts(sandbox, token) == []


def test_ranges_are_below_four_megabytes_and_multiples_of_320_kib_and_our_token_is_not_told_there(
    mailer, transport, large
):
    mailer.send(large)
    ranges = [(headers, size) for method, _, headers, size in transport.asked if method == "PUT"]
    assert [size for _, size in ranges] == [RANGE_BYTES, RANGE_BYTES, 1234]
    assert RANGE_BYTES % (320 * 1024) == 0
    assert RANGE_BYTES < 4_000_000
    assert not any("authorization" in map(str.lower, headers) for headers, _ in ranges)
    assert all("Prefer" in headers for method, _, headers, _ in transport.asked if method != "PUT")


def test_a_mail_that_fits_one_request_is_sent_in_one(control, mailer, transport, mail):
    room = LARGEST_REQUEST - request_size(replace(mail, files=(file(content=b""),)))
    fits = replace(mail, files=(file(content=b"x" * (room // 4 * 3)),))
    mailer.send(fits)
    mailer.send(replace(fits, files=(file(content=b"x" * (room // 4 * 3 + 3)),)))
    assert transport.steps[0] == "POST sendMail"
    assert transport.steps[1] == "POST messages"
    assert [taken["via"] for taken in control.accepted()] == ["json", "draft"]


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)


@settings(max_examples=40)
@given(st.lists(st.tuples(names, st.binary(max_size=50), st.booleans()), max_size=4), st.text(max_size=50))
def test_the_size_of_a_request_is_known_before_a_file_is_read(files, text):
    inline = {"is_inline": True, "content_id": "logo@x"}
    mail = Mail(
        "m-1",
        "s",
        (Address("a@x.nl"),),
        text=text,
        files=tuple(file(name, content, **(inline if shown else {})) for name, content, shown in files),
    )
    assert request_size(mail) == len(encode_message(mail))


def test_a_file_is_read_range_by_range(mailer, large):
    most = []

    class Watched(BytesIO):
        def read(self, size=-1):
            most.append(size)
            return super().read(size)

    mailer.send(replace(large, files=(replace(file(), open=lambda: Watched(CONTENT)),)))
    assert set(most) == {RANGE_BYTES}
