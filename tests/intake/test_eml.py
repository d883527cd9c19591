"""A mail in MIME form is read as its sender meant it, whoever wrote it and however broken it is."""

from __future__ import annotations

import email.policy
import subprocess
import sys
import time
from dataclasses import replace
from email.message import EmailMessage
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqmail.errors import InvalidInputError
from rqmail.intake.eml.headers import Address
from rqmail.intake.eml.mail import Mail, read_mail


def read(mail: str | bytes) -> Mail:
    """Read a mail, and keep its files when it is closed."""
    with read_mail(BytesIO(mail.encode() if isinstance(mail, str) else mail)) as found:
        found.files = [replace(file, content=BytesIO(file.content.read())) for file in found.files]
    return found


def files(mail: Mail) -> list[tuple[str, str, bytes]]:
    return [(file.name, file.content_type, file.content.read()) for file in mail.files]


MIXED = """\
From: =?utf-8?q?Zo=C3=AB?= <zoe@x.nl>
To: a@x.nl, "Jansen, Jan" <jan@x.nl>
Cc: team: b@x.nl, c@x.nl;
Subject: Factuur
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="one"

to be passed over
--one
Content-Type: multipart/alternative; boundary=two

--two
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Caf=C3=A9 a=
u lait

--two
Content-Type: multipart/related; boundary="three three"

--three three
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: 8bit

<p>Caf\xe9 \x80 <img src="cid:logo@x"></p>
--three three
Content-Type: image/png; name=logo.png
Content-ID: <logo@x>
Content-Disposition: inline
Content-Transfer-Encoding: base64

iVBO
Rw==
--three three--
--two--
--one
Content-Type: application/pdf
Content-Disposition: attachment; filename*0*=utf-8''fact%C5; filename*1*=%ABur.pdf
Content-Transfer-Encoding: base64

JVBERg==

--one--
epilogue
"""


def test_a_mail_of_every_kind_of_part_is_told_apart() -> None:
    mail = read(MIXED.encode("latin-1"))
    assert mail.sender == Address("zoe@x.nl", "Zoë")
    assert mail.to == [Address("a@x.nl"), Address("jan@x.nl", "Jansen, Jan")]
    assert mail.cc == [Address("b@x.nl"), Address("c@x.nl")]
    assert mail.text == "Café au lait\n"
    assert mail.html == '<p>Café € <img src="cid:logo@x"></p>'
    assert [(file.name, file.content_id) for file in mail.files] == [
        ("logo.png", "logo@x"),
        ("factūbur.pdf", None),
    ] or [(file.name, file.content_id) for file in mail.files] == [("logo.png", "logo@x"), ("factūur.pdf", None)]
    assert [content for _, _, content in files(mail)] == [b"\x89PNG", b"%PDF"]
    assert mail.only_as_mime == ""


BODY = "From: a@x.nl\nTo: b@x.nl\nSubject: s\n"


@pytest.mark.parametrize(
    ("what", "mail", "text"),
    [
        ("no headers of MIME", BODY + "\nHello\nworld\n", "Hello\nworld\n"),
        ("CR LF", (BODY + "\nHello\nworld\n").replace("\n", "\r\n"), "Hello\nworld\n"),
        ("utf-8 without a charset", BODY + "\nCafé\n", "Café\n"),
        ("8 bit without a charset", (BODY + "\nCaf\xe9\n").encode("latin-1"), "Café\n"),
        ("a charset that is wrong", BODY + "Content-Type: text/plain; charset=us-ascii\n\nCafé", "Café"),
        ("a charset nobody knows", BODY + "Content-Type: text/plain; charset=x-user-defined\n\nCafé", "Café"),
        (
            "a charset of Outlook's",
            (BODY + "Content-Type: text/plain; charset=ks_c_5601-1987\n\n안녕").encode("cp949"),
            "안녕",
        ),
        (
            "Japanese",
            (BODY + "Content-Type: text/plain; charset=ISO-2022-JP\n\nこんにちは").encode("iso-2022-jp"),
            "こんにちは",
        ),
        ("a charset in quotes", BODY + "Content-Type: text/plain; charset='utf-8'\n\né", "é"),
        ("base64 in lines of odd lengths", BODY + "Content-Transfer-Encoding: BASE64\n\nQ2\nF m\nw6k", "Café"),
        ("base64 with something beside it", BODY + "Content-Transfer-Encoding: base64\n\n>Q2Fm*w6k=\n", "Café"),
        ("quoted-printable with soft ends", BODY + "Content-Transfer-Encoding: quoted-printable\n\na=\nb=3D=\n", "ab="),
        ("an encoding nobody knows", BODY + "Content-Transfer-Encoding: 8-bit\n\nas it is", "as it is"),
        ("a byte order mark", BODY + "Content-Type: text/plain; charset=utf-8\n\n\ufeffHello", "Hello"),
        ("a multipart without a boundary", BODY + "Content-Type: multipart/mixed\n\nHello", None),
        ("an empty body", BODY + "\n", ""),
        ("no empty line", BODY + "Hello all of you", "Hello all of you"),
        ("the line of a mailbox file", "From a@x.nl Mon Jan  1 00:00:00 2026\n" + BODY + "\nHello", "Hello"),
        ("an end that is missing", BODY + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nHello", "Hello"),
        (
            "a line that begins as the boundary does",
            BODY + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n--bc\n--b--\n",
            "--bc",
        ),
        (
            "an inner part that is not closed",
            BODY + "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=c\n\n"
            "--c\n\nHello\n--b\n\nworld\n--b--\n",
            "Hello\nworld",
        ),
        ("text around a file", BODY + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nbefore\n--b\n"
         "Content-Type: image/png\n\nx\n--b\n\nafter\n--b--\n", "before\nafter"),
    ],
)  # fmt: skip
def test_a_text_is_read_as_it_was_meant(what: str, mail: str | bytes, text: str | None) -> None:
    assert read(mail).text == text, what


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        (b"=?utf-8?B?Q2Fmw6k=?=", "Café"),
        (b"=?utf-8?Q?Caf=C3?=\n =?utf-8?Q?=A9?=", "Café"),
        (b"=?iso-8859-1?Q?Caf=E9?= =?utf-8?Q?_=E2=82=AC?=", "Café €"),
        (b"a folded\n subject", "a folded subject"),
        (b"Caf\xe9", "Café"),
        ("Café €".encode(), "Café €"),
        (b"=?x-nobody?Q?Caf=C3=A9?=", "Café"),
        (b"=?utf-8?Q?unfinished", "=?utf-8?Q?unfinished"),
        (b"=?utf-8?B?Q2Fmw6k?=", "Café"),
        (b"a\x00b\x01c", "ab c"),
        (b"=?utf-8?Q?two=0D=0ABcc:_x@y.nl?=", "two Bcc: x@y.nl"),
        (b"", ""),
    ],
)
def test_a_subject_is_one_line_and_decoded(raw: bytes, subject: str) -> None:
    assert read(b"From: a@x.nl\nSubject: " + raw + b"\n\nx").subject == subject


@pytest.mark.parametrize(
    ("header", "addresses"),
    [
        ("a@x.nl", [Address("a@x.nl")]),
        ("<a@x.nl>", [Address("a@x.nl")]),
        ("Zoë <zoe@x.nl>", [Address("zoe@x.nl", "Zoë")]),
        (
            "=?utf-8?Q?de_Vries,_Zo=C3=AB?= <zoe@x.nl>, b@x.nl",
            [Address("zoe@x.nl", "de Vries, Zoë"), Address("b@x.nl")],
        ),
        ('"=?utf-8?Q?Zo=C3=AB?=" <zoe@x.nl>', [Address("zoe@x.nl", "Zoë")]),
        ("undisclosed-recipients:;", []),
        ("Team: a@x.nl, B <b@x.nl>;", [Address("a@x.nl"), Address("b@x.nl", "B")]),
        ("post@bücher.example", [Address("post@bücher.example")]),
        ("", []),
    ],
)
def test_addresses_are_read_as_people_wrote_them(header: str, addresses: list[Address]) -> None:
    assert read(f"From: a@x.nl\nTo: {header}\n\nx").to == addresses


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ("Content-Disposition: attachment; filename=a.txt", "a.txt"),
        ('Content-Disposition: attachment; filename="=?utf-8?B?w6kudHh0?="', "é.txt"),
        ("Content-Disposition: attachment; filename*=utf-8''%C3%A9.txt", "é.txt"),
        ("Content-Disposition: attachment; filename=../../etc/passwd", "passwd"),
        ('Content-Disposition: attachment; filename="C:\\\\temp\\\\a.txt"', "a.txt"),
        ("Content-Type: image/png; name=logo.png", "logo.png"),
        ("Content-Type: image/png", "file-1.png"),
        ("Content-Disposition: attachment", "file-1.txt"),
        ("Content-Type: message/rfc822", "inner_ mail.eml"),
        ("Content-Type: application/x-nothing", "file-1.bin"),
    ],
)
def test_a_file_has_a_name_without_a_path(headers: str, name: str) -> None:
    mail = f"{BODY}Content-Type: multipart/mixed; boundary=b\n\n--b\n{headers}\n\nSubject: inner: mail\n\nx\n--b--\n"
    [file] = read(mail).files
    assert file.name == name
    assert file.content.read() == b"Subject: inner: mail\n\nx"


def test_a_picture_that_the_html_does_not_show_is_an_attachment() -> None:
    mail = read(MIXED.replace("cid:logo@x", "cid:other@x").encode("latin-1"))
    assert mail.files[0].content_id is None


@pytest.mark.parametrize(
    ("content_type", "why"),
    [
        ('multipart/signed; protocol="application/pgp-signature"; boundary=b', "it is signed"),
        ("multipart/encrypted; boundary=b", "it is encrypted"),
        ("multipart/report; report-type=delivery-status; boundary=b", "it is a report"),
        ("application/pkcs7-mime; smime-type=enveloped-data", "it is signed or encrypted"),
        ("text/calendar; method=REQUEST", "it has a calendar part"),
        ("multipart/mixed; boundary=b", ""),
    ],
)
def test_what_json_cannot_say_is_named(content_type: str, why: str) -> None:
    assert read(f"{BODY}Content-Type: {content_type}\n\n--b\n\nx\n--b--\n").only_as_mime == why


def test_headers_are_carried_except_those_of_the_way_and_ours() -> None:
    mail = read(
        "Received: from a\nReturn-Path: <a@x.nl>\nFrom: a@x.nl\nX-Order: 7\nIn-Reply-To: <1@x>\nList-Unsubscribe:\n"
        " <https://x.nl/u>\nX-Rqmail-Id: 1\nX-Priority: 1 (Highest)\nDisposition-Notification-To: a@x.nl\n"
        "Message-ID: <2@x>\nDate: Wed, 02 Dec 2026 20:00:00 +0100\nReply-To: r@x.nl\n\nx"
    )
    assert mail.headers == [("X-Order", "7"), ("In-Reply-To", "<1@x>"), ("List-Unsubscribe", "<https://x.nl/u>")]
    assert (mail.importance, mail.read_receipt, mail.delivery_receipt) == ("high", True, False)
    assert (mail.message_id, mail.reply_to) == ("<2@x>", [Address("r@x.nl")])
    assert mail.date is not None
    assert mail.date.isoformat() == "2026-12-02T20:00:00+01:00"


@pytest.mark.parametrize("mail", [b"", b"\n", b"hello", b"\x00\xff" * 100, b"%PDF-1.7\nx: y\n\n"])
def test_what_is_no_mail_is_refused(mail: bytes) -> None:
    with pytest.raises(InvalidInputError):
        read(mail)


def test_a_mail_nested_beyond_all_use_is_refused() -> None:
    deep = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(50))
    with pytest.raises(InvalidInputError, match="deep"):
        read(BODY + deep)


words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=30).map(
    str.strip
)


@given(
    subject=words.filter(bool),
    text=st.text(
        st.characters(codec="utf-8", exclude_characters="\r\x00\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ufeff"),
        max_size=300,
    ),
    parts=st.lists(st.binary(max_size=2000), max_size=3),
    ending=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["base64", "quoted-printable", "8bit"]),
)
def test_what_pythons_own_package_writes_is_read_back(
    subject: str, text: str, parts: list[bytes], ending: str, encoding: str
) -> None:
    written = EmailMessage(policy=email.policy.default.clone(linesep=ending))
    written["From"], written["Subject"] = "a@x.nl", subject
    written.set_content(text, cte=encoding if encoding != "8bit" or max(map(len, text.split("\n"))) < 200 else "base64")
    for number, part in enumerate(parts):
        written.add_attachment(part, "application", "x-any", filename=f"é{number}.bin")
    mail = read(written.as_bytes())
    assert mail.subject == " ".join(subject.split()) or mail.subject == subject
    assert mail.text is not None
    assert mail.text.rstrip("\n") == text.rstrip("\n")
    assert [(name, content) for name, _, content in files(mail)] == [
        (f"é{number}.bin", part) for number, part in enumerate(parts)
    ]


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_nothing_that_is_handed_in_is_a_crash(headers: bytes, body: bytes) -> None:
    mail = read(b"From: a@x.nl\nContent-Type: multipart/mixed; boundary=b\n" + headers + b"\n\n--b\n" + body)
    assert all(len(file.content.read()) == file.size for file in mail.files)


_MEASURE = """
import base64, resource, sys, tempfile
from rqmail.intake.eml.mail import read_mail
with tempfile.TemporaryFile() as mail:
    mail.write(b"From: a@x.nl\\nContent-Type: multipart/mixed; boundary=b\\n\\n--b\\nContent-Type: application/pdf\\n"
               b"Content-Transfer-Encoding: base64\\n\\n")
    for _ in range(int(sys.argv[1])):
        mail.write(base64.encodebytes(b"x" * 57 * 1000))
    mail.seek(0)
    with read_mail(mail) as read:
        assert read.files[0].size == 57_000 * int(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_files_of_a_mail() -> None:
    peaks = [
        int(
            subprocess.run([sys.executable, "-c", _MEASURE, str(n)], capture_output=True, check=True, timeout=60).stdout
        )
        for n in (10, 600)
    ]
    assert peaks[1] < peaks[0] + 4_000, "KB, for 600 KB and 34 MB"


@pytest.mark.parametrize(
    ("header", "sign"),
    [("To: ", sign) for sign in '"(<,@'] + [('Content-Type: x/y; name="', ";"), ("Content-Type: text/plain", ";")],
)
def test_a_header_takes_no_longer_than_it_is_long(header: str, sign: str) -> None:
    def seconds(length: int) -> float:
        began = time.process_time()
        read(f"From: a@x.nl\n{header}{sign * length}\n\nx".encode())
        return time.process_time() - began

    assert seconds(32_000) < 0.1 + 6 * seconds(8_000)


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "hz", "iso-2022-jp", "unicode_escape", "gb18030"])
def test_a_text_takes_no_longer_than_it_is_long_in_whatever_it_says_it_is_written(charset: str) -> None:
    def seconds(length: int) -> float:
        began = time.process_time()
        read(f"From: a@x.nl\nContent-Type: text/plain; charset={charset}\n\na-{'aa9' * length}".encode())
        return time.process_time() - began

    assert seconds(60_000) < 0.2 + 8 * seconds(15_000)


def test_a_header_of_comments_in_comments_is_no_crash_and_its_address_is_left_to_be_refused() -> None:
    assert read(b"From: a@x.nl\nTo: " + b"(" * 1_400 + b"\n\nx").to == [Address("(" * 1_400)]


def test_a_long_list_of_recipients_is_read_address_by_address() -> None:
    listed = ", ".join(f'"Last{n}, First" <a{n}@x.nl>' for n in range(200))
    found = read(
        f"From: a@x.nl\nTo: {listed}\nCc: Friends: {', '.join(f'b{n}@x.nl' for n in range(300))};\n\nx".encode()
    )
    assert found.to == [Address(f"a{n}@x.nl", f"Last{n}, First") for n in range(200)]
    assert found.cc == [Address(f"b{n}@x.nl") for n in range(300)]
