"""Real sockets that refuse, reset, hang and lie: what is certainly not sent, and what nobody knows."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from dataclasses import replace

import pytest
from urllib3.util import connection

from mailers.servers import Script, behaving, bundle_of, read_request, refused_url, reset, serving
from rqmail.errors import MailClaimLostError, MailOutcomeUnknownError, MailTransientError
from rqmail.mailers.base import Permit
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailer import MicrosoftGraphMailer
from rqmail.mailers.http import pool
from rqmail.mailers.http.transport import Transport


class FixedToken:
    def token(self) -> str:
        return "secret-token"

    def renewed(self, refused, claims):
        return "secret-token-2"


def send_through(transport, base_url, mail):
    MicrosoftGraphMailer(GraphHttp(transport, FixedToken()), f"{base_url}/v1.0", "noreply@contoso.example").send(mail)


def impatient(**options) -> Transport:
    return Transport(**{"connect_timeout": 2, "answer_timeout": 0.3, **options})


def assert_tells_nothing(error: Exception) -> None:
    for word in ("secret-token", "contoso.example", "zoe", "/users/"):
        assert word not in str(error)
        assert word not in repr(error)


def certain(base_url, mail, words, transport=None):
    with pytest.raises(MailTransientError, match=words) as caught:
        send_through(transport or impatient(), base_url, mail)
    assert_tells_nothing(caught.value)


def unknown(base_url, mail, words, transport=None):
    with pytest.raises(MailOutcomeUnknownError, match=words) as caught:
        send_through(transport or impatient(), base_url, mail)
    assert_tells_nothing(caught.value)
    assert caught.value.client_request_id


def test_the_permit_is_taken_on_the_connected_socket_before_a_byte_of_each_request_is_written(
    mail, authority, tmp_path
):
    script = Script([(401, {}, b""), (202, {}, b"")])
    asked_before = []
    permit = Permit(lambda: asked_before.append((len(script.asked), len(script.connections))))
    with serving(script, authority) as url:
        transport = Transport(ca_bundle=bundle_of(authority, tmp_path))
        transport.request("GET", url, {})  # makes the connection; a request that sends no mail asks nobody
        script.asked.clear()
        script.answers = [(401, {}, b""), (202, {}, b"")]
        send_through(transport, url, replace(mail, permit=permit))
    assert asked_before == [(0, 1), (1, 1)]


def test_without_a_connection_the_permit_is_not_taken(mail):
    permit = Permit(lambda: None)
    certain(refused_url(), replace(mail, permit=permit), "connection refused")
    assert not permit.taken


def test_a_permit_that_is_refused_leaves_not_a_byte_on_the_line(mail):
    received = []

    def listen(peer):
        received.append(peer.recv(1))

    def refuse():
        raise MailClaimLostError("another has it")

    with behaving(listen) as url, pytest.raises(MailClaimLostError):
        send_through(impatient(), url, replace(mail, permit=Permit(refuse)))
    assert received in ([], [b""])


def test_a_header_that_cannot_be_written_is_found_before_the_permit_is_taken(mail):
    permit = Permit(lambda: None)
    with behaving(lambda peer: peer.recv(1)) as url, pytest.raises(ValueError, match="header"):
        Transport().request("POST", url, {"Authorization": "Bearer SG.x\n"}, b"{}", before_writing=permit.take)
    assert not permit.taken


def test_a_refused_connection_is_certainly_not_sent(mail):
    certain(refused_url(), mail, "connection refused")


def test_a_name_nobody_knows_is_certainly_not_sent(mail, monkeypatch):
    def nobody(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)

    certain("http://graph.invalid", mail, "cannot be resolved")


def test_an_untrusted_certificate_is_certainly_not_sent_and_names_the_setting(mail, authority):
    with serving(Script([(202, {}, b"")]), authority) as url:
        certain(url, mail, "certificate is not trusted.*RQMAIL_CA_BUNDLE")


def test_a_ca_bundle_that_is_gone_is_certainly_not_sent(mail, tmp_path):
    certain("https://127.0.0.1:1", mail, "RQMAIL_CA_BUNDLE", impatient(ca_bundle=tmp_path / "gone.pem"))


def test_a_tls_handshake_that_never_ends_is_certainly_not_sent(mail):
    over = threading.Event()
    with behaving(lambda peer: over.wait(5)) as url:
        certain(url.replace("http:", "https:"), mail, "within the timeout", impatient(connect_timeout=0.3))
        over.set()


def test_a_reset_during_the_tls_handshake_is_certainly_not_sent(mail):
    with behaving(lambda peer: (peer.recv(10), reset(peer))) as url:
        certain(url.replace("http:", "https:"), mail, "Could not connect")


def test_a_connection_that_came_too_late_is_not_used(mail, monkeypatch):
    seconds = [0.0]

    def slowly(*arguments, **options):
        seconds[0] += 3
        return connect(*arguments, **options)

    connect = connection.create_connection
    monkeypatch.setattr(connection, "create_connection", slowly)
    monkeypatch.setattr(pool, "monotonic", lambda: seconds[0])
    script = Script([(202, {}, b"")])
    with serving(script) as url:
        certain(url, mail, "within the timeout", impatient(connect_timeout=2))

    assert script.asked == []


def test_loopback_is_reached_without_the_proxy(mail, transport, monkeypatch):
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, refused_url())
    with serving(Script([(202, {}, b"")])) as url:
        send_through(transport, url, mail)


def test_a_proxy_of_a_kind_we_cannot_use_is_certainly_not_sent(mail, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    certain("https://graph.invalid", mail, "Could not connect.*HTTPS_PROXY")


def test_a_proxy_that_refuses_is_certainly_not_sent(mail, monkeypatch):
    def refuse(peer):
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with behaving(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        certain("https://graph.invalid", mail, "HTTPS_PROXY")


def test_a_proxy_that_is_not_there_is_certainly_not_sent(mail, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", refused_url())
    certain("https://graph.invalid", mail, "Could not connect")


def test_a_reset_after_the_request_leaves_the_outcome_unknown(mail):
    with behaving(lambda peer: (read_request(peer), reset(peer))) as url:
        unknown(url, mail, "broke before an answer")


def test_a_close_without_a_byte_of_answer_leaves_the_outcome_unknown(mail):
    with behaving(lambda peer: peer.close()) as url:
        unknown(url, mail, "broke before an answer")


def test_no_answer_in_time_leaves_the_outcome_unknown(mail):
    over = threading.Event()
    with behaving(lambda peer: (read_request(peer), over.wait(5))) as url:
        unknown(url, mail, "did not answer in time")
        over.set()


def test_an_answer_that_drips_is_cut_off_at_the_one_deadline(mail):
    drips = threading.Event()

    def drip(peer):
        read_request(peer)
        for byte in b"HTTP/1.1 202 Accepted\r\n" + b"X-Slow: " + b"x" * 1000:
            peer.sendall(bytes([byte]))
            if drips.wait(0.02):
                return

    with behaving(drip) as url:
        unknown(url, mail, "did not answer in time")
        drips.set()


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01 what is this\r\n\r\n", b"HTTP/1.1 two hundred\r\n\r\n", b"\r\n" * 9]
)
def test_garbage_instead_of_an_answer_leaves_the_outcome_unknown(mail, garbage):
    with behaving(lambda peer: (read_request(peer), peer.sendall(garbage))) as url:
        unknown(url, mail, "may have been accepted")


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 500\r\n\r\nshort",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    ],
    ids=["too short", "broken chunk", "not gzip"],
)
def test_a_202_is_success_however_broken_its_body(mail, rest):
    answer = b"HTTP/1.1 202 Accepted\r\n" + rest
    with behaving(lambda peer: (read_request(peer), peer.sendall(answer))) as url:
        send_through(impatient(), url, mail)


def test_a_failure_somebody_was_handling_before_does_not_make_this_one_certain(mail):
    with behaving(lambda peer: (read_request(peer), reset(peer))) as url:
        try:
            send_through(impatient(), refused_url(), mail)
        except MailTransientError:
            unknown(url, mail, "may have been accepted")


def test_one_connection_serves_many_requests(mail, transport):
    script = Script([(202, {}, b"")])
    with serving(script) as url:
        for _ in range(5):
            send_through(transport, url, mail)

    assert len(script.connections) == 1


def test_a_kept_connection_the_server_has_closed_is_replaced_before_it_is_used(mail, transport):
    closed = threading.Event()
    served = []

    def serve_one(peer):
        served.append(read_request(peer))
        peer.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        peer.shutdown(socket.SHUT_RDWR)
        peer.close()
        closed.set()

    with behaving(serve_one) as url:
        send_through(transport, url, mail)
        assert closed.wait(5)
        send_through(transport, url, mail)

    assert len(served) == 2


def test_a_connection_idle_for_long_is_not_trusted_again(mail, transport, monkeypatch):
    script = Script([(202, {}, b"")])
    seconds = [1000.0]
    with serving(script) as url:
        monkeypatch.setattr(pool, "monotonic", lambda: seconds[0])
        send_through(transport, url, mail)
        seconds[0] += pool.MAX_IDLE_SECONDS - 1
        send_through(transport, url, mail)
        assert len(script.connections) == 1
        seconds[0] += pool.MAX_IDLE_SECONDS + 1
        send_through(transport, url, mail)

    assert len(script.connections) == 2


def test_a_huge_body_is_read_to_the_limit_only(transport):
    with serving(Script([(500, {}, b"x" * 1_000_000)])) as url:
        answer = transport.request("GET", url, {}, limit=1000)

    assert len(answer.body) == 1000


def test_the_way_to_a_host_is_found_once_and_anew_when_it_was_given_up_for_newer_ones(transport, monkeypatch):
    found = []
    find = pool.PoolAdapter.get_connection_with_tls_context
    monkeypatch.setattr(
        pool.PoolAdapter,
        "get_connection_with_tls_context",
        lambda self, request, *args, **kwargs: found.append(request.url) or find(self, request, *args, **kwargs),
    )
    with serving(Script([(200, {}, b"{}")] * 4)) as url:
        for path in ("", "/a?b=c", "/d"):
            transport.request("GET", f"{url}{path}", {})
        assert found == [f"{url}/"]

        for number in range(pool._MOST_HOSTS):
            transport._adapter.get().way_to(f"http://127.0.0.1:{number + 1}", True, {})
        assert transport.request("GET", url, {}).status == 200
        assert found.count(f"{url}/") == 2


def test_a_body_without_end_is_hung_up_on():
    written = []

    def gush(peer):
        read_request(peer)
        peer.sendall(b"HTTP/1.1 500 Oops\r\n\r\n")
        while True:
            written.append(peer.send(b"x" * 65536))

    with behaving(gush) as url:
        answer = Transport(connect_timeout=2, answer_timeout=2).request("GET", url, {}, limit=1000)

    assert len(answer.body) == 1000
    assert sum(written) < 30_000_000


def test_each_read_of_an_answer_has_only_the_time_that_is_left(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(pool, "monotonic", lambda: seconds[0])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = pool._DeadlineReader(ours, 5)
        theirs.sendall(b"ab")
        seconds[0] += 3
        assert reader.read(1) == b"a"
        assert ours.gettimeout() == 2
        seconds[0] += 2
        with pytest.raises(TimeoutError):
            reader.read(1)
        reader.close()


def test_a_redirect_is_an_answer_and_not_followed(transport):
    script = Script([(302, {"Location": "/elsewhere"}, b"x" * 1000)])
    with serving(script) as url:
        answer = transport.request("POST", f"{url}/here", {}, b"{}")

    assert answer.status == 302
    assert [asked.path for asked in script.asked] == ["/here"]


def test_cookies_are_never_sent_back(transport):
    script = Script([(200, {"Set-Cookie": "a=b; Path=/"}, b"")])
    with serving(script) as url:
        transport.request("GET", url, {})
        transport.request("GET", url, {})

    assert "Cookie" not in script.asked[1].headers


def test_the_ca_bundle_setting_wins_over_the_environment(mail, authority, tmp_path, monkeypatch):
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(variable, ssl.get_default_verify_paths().openssl_cafile or "/nowhere")
    with serving(Script([(202, {}, b"")]), authority) as url:
        send_through(Transport(connect_timeout=5, ca_bundle=bundle_of(authority, tmp_path)), url, mail)


def test_the_environment_cannot_add_trust(mail, authority, tmp_path, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle_of(authority, tmp_path)))
    with serving(Script([(202, {}, b"")]), authority) as url:
        certain(url, mail, "not trusted")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(mail, transport):
    script = Script([(202, {}, b"")])
    with serving(script) as url:
        send_through(transport, url, mail)
        child = os.fork()
        if child == 0:
            try:
                send_through(transport, url, mail)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        send_through(transport, url, mail)

    assert len(script.asked) == 3
    assert len(script.connections) == 2
