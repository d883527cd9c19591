"""Sending domains, looked up in a DNS that answers from loopback."""

from __future__ import annotations

import socketserver
import threading
import time

import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest

from rqmail import domains
from rqmail.administration.sending import look_at_domains
from rqmail.domains import Domains

EXCHANGE = "v=spf1 include:spf.protection.outlook.com -all"
KEY = "v=DKIM1; k=rsa; p=MIGfMA0"
ZONE = {
    "good.example": ["some-proof=1", EXCHANGE],
    "selector1._domainkey.good.example": [KEY],
    "_dmarc.good.example": ["v=DMARC1; p=reject"],
    "news.good.example": ["v=spf1 include:_spf.good.example ~all"],
    "_spf.good.example": ["v=spf1 ip4:192.0.2.1 redirect=good.example"],
    "selector2._domainkey.news.good.example": [KEY],
    "bare.example": ["nothing of use"],
    "odd.example": ["v=spf1 include:odd.example -all"],
    "selector1._domainkey.odd.example": ["v=DKIM1; p="],
    "_dmarc.odd.example": ["v=DMARC2; p=none"],
    "twice.example": [EXCHANGE, "v=spf1 -all"],
    "s2._domainkey.twice.example": [KEY],
    "_dmarc.twice.example": ["v=DMARC1;p=none"],
}


class _Answering(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, socket = self.request
        asked = dns.message.from_wire(data)
        name = asked.question[0].name
        answer = dns.message.make_response(asked)
        key = name.to_text(omit_final_dot=True)
        if key.endswith("silent.example"):
            return
        if key.endswith("broken.example"):
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif key in ZONE:
            texts = [f'"{text[:20]}" "{text[20:]}"' for text in ZONE[key]]
            answer.answer.append(dns.rrset.from_text_list(name, 60, "IN", "TXT", texts))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        socket.sendto(answer.to_wire(), self.client_address)


@pytest.fixture(scope="module")
def port():
    with socketserver.ThreadingUDPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def found(port):
    """Say what is found of senders, as (domain, code)."""

    def run(*addresses, provider="microsoft-graph"):
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], port
        findings = look_at_domains(Domains(resolver), [(address, provider) for address in addresses])
        return [(one.domain, one.text.code) for one in findings]

    return run


def test_a_domain_with_all_three_records_is_ready_also_by_includes_and_the_policy_above_it(found):
    assert found("a@good.example", "b@Good.Example", "c@news.good.example") == [
        ("good.example", "domain-ready"),
        ("news.good.example", "domain-ready"),
    ]


def test_each_record_that_is_missing_or_of_no_use_is_told(found):
    missing = [("bare.example", f"{record}-missing") for record in ("spf", "dkim", "dmarc")]
    assert found("a@bare.example") == missing
    assert found("a@odd.example") == [
        ("odd.example", "spf-wrong"), ("odd.example", "dkim-missing"), ("odd.example", "dmarc-missing")
    ]  # fmt: skip
    assert found("a@twice.example") == [("twice.example", "spf-wrong"), ("twice.example", "dkim-missing")]


def test_mail_through_sendgrid_is_judged_by_the_keys_of_sendgrid_alone(found):
    assert found("Post <a@twice.example>", provider="sendgrid") == [("twice.example", "domain-ready")]


def test_a_sender_on_onmicrosoft_is_warned_of_and_nobody_is_asked(found):
    assert found("a@contoso.onmicrosoft.com") == [("contoso.onmicrosoft.com", "onmicrosoft")]


def test_a_dns_that_fails_for_one_domain_is_asked_about_the_others(found):
    assert found("a@broken.example", "a@good.example") == [("good.example", "domain-ready"), ("", "dns-away")]


def test_a_dns_that_is_silent_is_waited_for_once_and_said_to_be_away(found, monkeypatch):
    monkeypatch.setattr(domains, "_SECONDS", 0.2)
    began = time.monotonic()
    assert found("a@silent.example", "a@very.silent.example", "a@zoo.example") == [("", "dns-away")]
    assert time.monotonic() - began < 2


def test_without_any_dns_server_that_is_said_at_once():
    [finding] = look_at_domains(Domains(), [("a@good.example", "microsoft-graph")])
    assert (finding.level, finding.text.code) == ("warning", "dns-away")
    assert "good.example" in finding.text
