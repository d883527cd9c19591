"""The characters of a file, whatever wrote it."""

import codecs
import io

import pytest

from rqmail.errors import InvalidInputError
from rqmail.intake.encodings import find_encoding, lines_of
from rqmail.intake.files import drafts

TEXT = "to,subject,text\r\nzoe@x.nl,Één € voor Zoë,“Café” – dag\r\n"
LONG = TEXT + "a@x.nl,Hallo René,Gefeliciteerd met je coöperatie; tot maandag in het café.\r\n" * 40


def lines(content, forced=None):
    file = io.BytesIO(content)
    return list(lines_of(file, find_encoding(file, forced)))


@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    "content",
    [
        lambda text: text.encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: codecs.BOM_UTF8 * 2 + text.encode(),
        lambda text: text.encode("cp1252"),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
        lambda text: text.encode("utf-32"),
    ],
    ids=["UTF-8", "BOM", "two BOMs", "Windows-1252", "UTF-16", "LE", "BE", "BE with BOM", "UTF-32"],
)
def test_the_encoding_of_a_file_is_found_out(content, text):
    assert "".join(lines(content(text))) == text


def test_a_single_foreign_letter_far_from_the_beginning_makes_a_file_windows_1252():
    content = b"to,subject,text\r\n" + b"a@x.nl,s,t\r\n" * 100_000 + b"b@x.nl,Zo\xeb,t\r\n"
    assert lines(content)[-1] == "b@x.nl,Zoë,t\r\n"


WESTERN = [
    "Zoë", "Renée", "coöperatie", "Müller", "straße", "señor", "Françoise", "Besançon", "Nuñez", "Ångström", "€5",
]  # fmt: skip


@pytest.mark.parametrize("number", [8, 20, 400])
@pytest.mark.parametrize("word", WESTERN)
def test_no_close_kin_of_windows_1252_is_taken_for_it(word, number):
    text = "to;subject;text\r\n" + "".join(f"p{i}@voorbeeld.nl;Welkom {word};dag\r\n" for i in range(number))
    assert "".join(lines(text.encode("cp1252"))) == text


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("cp1251", "Добро пожаловать, Иванов"), ("cp1250", "Dzień dobry, dziękuję bardzo za wiadomość i gęślą jaźń")],
)
def test_another_alphabet_is_not_taken_for_windows_1252(encoding, words):
    text = "to;subject;text\r\n" + "".join(f"p{i}@example.com;{words};{words}\r\n" for i in range(30))
    assert "".join(lines(text.encode(encoding))) == text


def test_an_encoding_can_be_forced():
    assert lines("Ő".encode("cp1250"), "windows-1250") == ["Ő"]


@pytest.mark.parametrize("name", ["", "klingon", "base64", "rot13", "undefined", "a\0b", "punycode", "idna"])
def test_an_encoding_that_is_none_is_refused_by_name(name):
    with pytest.raises(InvalidInputError, match="encoding"):
        find_encoding(io.BytesIO(b""), name)


@pytest.mark.parametrize("name", ["ascii", "utf-8", "utf-16", "utf-32", "idna", "punycode", "utf-7", "unicode_escape"])
def test_bytes_that_are_not_of_the_forced_encoding_are_refused(name):
    with pytest.raises(InvalidInputError):
        lines(b"\\x\xd8\xff\xe9+\xff\xff", name)


def test_bytes_that_are_neither_utf_8_nor_anything_else_are_named_with_their_line():
    with pytest.raises(InvalidInputError, match="0xff in line 2"):
        lines("één\n".encode() + b"\xff\n")


@pytest.mark.parametrize("end", ["\x1a", "\r\n\x1a", "\r\n\x1a\x1a\r\n"])
def test_a_ctrl_z_at_the_end_is_no_text(end):
    [draft] = drafts(io.BytesIO(b"to,subject,text\r\na@x.nl,s,t" + end.encode()), "default")
    assert draft.text == "t"
