"""What is asked of us to call leads to the public Internet, or nowhere."""

from __future__ import annotations

import socket

import pytest
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from mailers.servers import Script, serving
from rqmail.mailers.http.failures import why_no_answer
from rqmail.mailers.http.public import PrivateAddressError, connect_publicly
from rqmail.mailers.http.transport import Transport
from rqmail.text.networks import is_public

PRIVATE = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1%eth0", "fc00::1", "fd00:ec2::254",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::10.0.0.1", "2002:0a00:0001::1",
    "no address",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


def test_addresses_within_a_network_or_machine_are_not_public():
    assert [one for one in PRIVATE if is_public(one)] == []
    assert [one for one in PUBLIC if not is_public(one)] == []


def test_only_the_address_that_was_checked_is_connected_to(monkeypatch):
    """A name that answers a public address first and a private one later is asked once."""
    answers = [["8.8.8.8"], ["127.0.0.1"]]
    connected = []

    def resolve(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in answers.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket.socket, "connect", lambda _self, place: connected.append(place))
    connect_publicly("rebinding.example", 443, 1.0, None).close()
    assert connected == [("8.8.8.8", 443)]
    with pytest.raises(PrivateAddressError):
        connect_publicly("rebinding.example", 443, 1.0, None)
    answers.append(["10.0.0.1", "8.8.4.4"])
    connect_publicly("both.example", 443, 1.0, None).close()
    assert connected[1:] == [("8.8.4.4", 443)]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_a_private_address_is_refused_before_a_byte_is_sent_and_no_proxy_helps(monkeypatch, name):
    script = Script([(200, {}, b"")])
    with serving(script) as url:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("https_proxy", url)
        port = url.rpartition(":")[2]
        for scheme in ("http", "https"):
            with pytest.raises((HTTPError, RequestException, OSError)) as refused:
                Transport(public_only=True).request("POST", f"{scheme}://{name}:{port}/", {}, b"x")
            assert why_no_answer(refused.value) == "the name leads to no public address"
    assert (script.asked, script.connections) == ([], set())
