"""What is done the short way for nearly every mail comes out as it does the long way."""

from __future__ import annotations

import pytest
from aiosmtpd.smtp import SMTP
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rqmail.smtp.connection import Connection
from smtp.conftest import Listening
from smtp.talking import FROM, mail, stored
from support.statements import recorded


class _Reader(Connection):
    """A connection of nobody's: it only reads addresses."""

    def __init__(self) -> None:
        self.local_part_limit = 0


_SIGNS = st.text("ab1.-+_=@<> \t()\"\\,;:é[]?'#\0\r\n", max_size=6)
_ADDRESSES = st.builds(
    lambda before, local, domain, end, rest: f"{before}<{local}@{domain}>{end}{rest}",
    st.sampled_from(["", " ", "\t", "("]),
    _SIGNS,
    _SIGNS,
    st.sampled_from(["", " ", "  ", "\t "]),
    st.one_of(_SIGNS, st.sampled_from(["SIZE=300", "BODY=8BITMIME SMTPUTF8", "AUTH=<> SIZE=3", "(none) SIZE=3"])),
)


@given(st.one_of(_ADDRESSES, _SIGNS))
@example("<a.b+c@x-1.example> SIZE=3 BODY=8BITMIME ")
@settings(max_examples=300, deadline=None)
def test_an_address_and_what_stands_behind_it_is_read_as_the_library_reads_it(said: str) -> None:
    reader = _Reader()
    try:
        expected = SMTP._getaddr(reader, said)
    except IndexError:
        expected = (None, None)
    assert reader._getaddr(said) == expected


def test_a_client_that_goes_on_is_not_looked_up_for_its_sender_but_for_its_mail(
    door: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rqmail.smtp.door._LET_IN_SECONDS", 60.0)
    monkeypatch.setattr("rqmail.smtp.senders._SECONDS", 60.0)
    token = door.app.access.create("printer", ["send"], by="test")[1]
    with door.client(sign_in=False) as client:
        client.login("x", token)
        client.send_message(mail())
        with recorded() as ran:
            assert client.mail(FROM)[0] == 250
        assert not ran
        client.rcpt("a@x.nl")
        door.app.access.revoke("printer")
        assert client.data(mail().as_bytes())[0] == 530
        assert client.mail(FROM)[0] == 530
    assert len(stored()) == 1
