"""Every request names rqmail: all of them leave through one transport."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mailers.servers import Script, serving
from rqmail.errors import MailError
from rqmail.mailers.base import Address
from rqmail.mailers.graph.entra import _MsalHttp
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailer import MicrosoftGraphMailer
from rqmail.mailers.http.transport import Transport
from rqmail.mailers.sendgrid import SendGridMailer
from rqmail.version import VERSION


class Tokens:
    def token(self):
        return "t"

    def renewed(self, _refused, _claims):
        return "t"


def plain(transport, url, _mail):
    transport.request("GET", url, {})


def a_library_s_own(transport, url, _mail):
    transport.request("GET", url, {"user-agent": "python-requests/2"})


def graph(transport, url, mail):
    MicrosoftGraphMailer(GraphHttp(transport, Tokens()), url, "news@x.nl").send(mail)


def entra(transport, url, _mail):
    # MSAL itself takes no authority without https; this is the client it is given.
    _MsalHttp(transport).post(url, headers={"User-Agent": "msal"})


def sendgrid(transport, url, mail):
    SendGridMailer(transport, url, "SG.key", Address("news@x.nl")).send(mail)


@pytest.mark.parametrize("ask", [plain, a_library_s_own, graph, entra, sendgrid])
def test_a_request_says_that_it_is_rqmail_s_and_which_version(ask, mail):
    script = Script([(400, {}, b"{}")] * 3)
    with serving(script) as url, suppress(MailError, ValueError):
        ask(Transport(), url, mail)
    assert script.asked
    for asked in script.asked:
        assert [value for name, value in asked.headers.items() if name.lower() == "user-agent"] == [f"rqmail/{VERSION}"]
