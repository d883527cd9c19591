"""Text files as other programs write them."""

from __future__ import annotations

import pytest

from rqmail.text.decoding import decoded

TEXT = "Beste Zoë,\r\ntot ziens in Café Ørsted – dag!"


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"],
)
def test_a_text_is_read_in_whatever_it_was_written(encoding):
    assert decoded(TEXT.encode(encoding)) == TEXT


def test_two_byte_order_marks_are_as_good_as_one():
    assert decoded("\ufeff\ufeffdag".encode()) == "dag"


def test_bytes_that_fit_nothing_do_not_stop_anything():
    assert decoded(b"\xff\xfe\x00") is not None
    assert decoded(b"\x81\x8d") is not None
    assert decoded(b"") == ""
