"""CSV that is written for spreadsheets: what they would run is text in it, whichever way they cut it up."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqmail.errors import InvalidInputError
from rqmail.insight.spreadsheet import csv_lines, delimiter_named
from rqmail.text.formulas import harmless, restored

FORMULA = re.compile(r'[ \xa0"]*[=+\-@＝＋－＠]')


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx", "\rx", "\nx", "＝1"])
def test_a_cell_that_could_be_a_formula_begins_with_an_apostrophe(text):
    assert harmless(text) == "'" + text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a;=cmd|' /C calc'!A0", "a;'=cmd|' /C calc'!A0"),
        ("a,=1", "a,'=1"),
        ("a\t=1", "a\t'=1"),
        ("a|+1", "a|'+1"),
        ("a\r\n@x", "a\r\n'@x"),
        ('a;"=1"', 'a;"\'=1"'),
        ("a; =1", "a; '=1"),
        ("\t=1", "'\t'=1"),
        ("a = b; c - d", "a = b; c - d"),
        ("'=1", "''=1"),
    ],
)
def test_a_formula_after_any_delimiter_is_text(text, written):
    assert harmless(text) == written


@given(st.lists(st.text("=+-@x ,;|\t\r\n\"'＝", max_size=12), min_size=1, max_size=3), st.sampled_from(",;|\t"))
def test_no_cell_is_a_formula_with_whichever_delimiter_the_file_is_opened(cells, written_with):
    [_, *lines] = csv_lines(["a"] * len(cells), [cells], written_with)
    for opened_with in ",;|\t":
        for row in csv.reader(io.StringIO("".join(lines), newline=""), delimiter=opened_with):
            assert not [cell for cell in row if FORMULA.match(cell)], row


@given(st.text("=+-@x ,;|\t\r\n\"'＝", max_size=20))
def test_what_a_formula_was_written_as_is_read_back(text):
    assert restored(harmless(text)) == text


def test_what_is_written_is_read_back(tmp_path):
    text = "".join(csv_lines(["name", "note"], [["Zoë", 'a "b", c'], [None, 3]], ";"))
    (tmp_path / "it.csv").write_bytes(text.encode())
    assert (tmp_path / "it.csv").read_bytes().startswith(b"\xef\xbb\xbfname;note\r\n")
    with (tmp_path / "it.csv").open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file, delimiter=";")) == [["name", "note"], ["Zoë", 'a "b", c'], ["", "3"]]


def test_a_delimiter_is_one_of_four():
    assert [delimiter_named(name) for name in (",", ";", "|", "tab", "\t")] == [",", ";", "|", "\t", "\t"]
    with pytest.raises(InvalidInputError, match="delimiter"):
        delimiter_named("")
