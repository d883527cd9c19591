"""MSAL against a token endpoint of our own: what is asked, and what each refusal means."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from mailers.servers import Script, behaving, bundle_of, refused_url, serving
from rqmail.errors import MailAuthError, MailError, MailThrottledError, MailTransientError
from rqmail.mailers.graph.entra import Entra
from rqmail.mailers.graph.entra_app import EntraApp, GrantedToken, SettingNames
from rqmail.mailers.graph.token import GraphTokenSource
from rqmail.mailers.http.transport import Transport

SECRET = "very+secret/value"
TENANT = "11111111-2222-3333-4444-555555555555"
SCOPE = "https://graph.microsoft.com/.default"
TOKEN = {"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": "eyJ.granted"}


class EntraScript(Script):
    """Answers discovery by itself, and token requests as scripted."""

    def __init__(self, *answers, discovery=None):
        super().__init__(list(answers) or [(200, {}, TOKEN)])
        self.discovery = discovery
        self.discoveries = 0

    def next(self, request):
        if "openid-configuration" not in request.path:
            return super().next(request)
        self.discoveries += 1
        if self.discovery is not None:
            status, body = self.discovery
            return status, {}, body if isinstance(body, bytes) else json.dumps(body).encode()
        base = f"https://{request.headers['Host']}/{TENANT}"
        document = {
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
        }
        return 200, {}, json.dumps(document).encode()

    def forms(self):
        return [{k: v[0] for k, v in parse_qs(asked.body.decode()).items()} for asked in self.asked]


def refusal(code: int, error: str = "invalid_client") -> dict:
    return {
        "error": error,
        "error_description": f"AADSTS{code}: Words of Entra's. Trace ID: x",
        "error_codes": [code],
        "correlation_id": "c",
    }


@pytest.fixture
def entra_at(authority, tmp_path, clock):
    transport = Transport(connect_timeout=2, answer_timeout=2, ca_bundle=bundle_of(authority, tmp_path))

    def build(url, **app):
        app = EntraApp(url, app.pop("tenant", TENANT), "client-id", **(app or {"client_secret": SECRET}))
        return Entra(app, transport, SCOPE, clock=clock)

    yield build
    transport.close()


@pytest.fixture
def grant(authority, entra_at):
    def run(script, claims=None, **app):
        with serving(script, authority) as url:
            return entra_at(url, **app).grant(claims)

    return run


def refused(grant, script, expected) -> MailError:
    with pytest.raises(MailError) as caught:
        grant(script)
    assert type(caught.value) is expected, caught.value
    for text in (str(caught.value), repr(caught.value)):
        assert SECRET not in text
        assert "eyJ" not in text
    return caught.value


def test_a_token_is_asked_for_with_the_apps_secret(grant):
    script = EntraScript()
    token = grant(script)

    assert token == GrantedToken("eyJ.granted", 3599.0)
    form = script.forms()[0]
    assert {name: form[name] for name in ("client_id", "grant_type", "scope", "client_secret")} == {
        "client_id": "client-id",
        "grant_type": "client_credentials",
        "scope": SCOPE,
        "client_secret": SECRET,
    }
    assert script.asked[0].path == f"/{TENANT}/oauth2/v2.0/token"


def test_a_claims_challenge_is_sent_along(grant):
    script = EntraScript()
    grant(script, '{"access_token":{"nbf":{"essential":true}}}')

    assert json.loads(script.forms()[0]["claims"]) == {"access_token": {"nbf": {"essential": True}}}


def self_signed(clock) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rqmail")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(clock())
        .not_valid_after(clock() + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_token_is_asked_for_with_the_apps_certificate(grant, clock, tmp_path):
    key, certificate = self_signed(clock)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)
    path = tmp_path / "app.pem"
    path.write_bytes(pem)
    script = EntraScript()

    assert grant(script, certificate=path).value == "eyJ.granted"
    form = script.forms()[0]
    assert "client_secret" not in form
    head, payload, signature = form["client_assertion"].split(".")
    assert decoded(json.loads(decoded(head))["x5t#S256"]) == certificate.fingerprint(hashes.SHA256())
    assert json.loads(decoded(payload))["iss"] == "client-id"
    key.public_key().verify(
        decoded(signature),
        f"{head}.{payload}".encode(),
        padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH),
        hashes.SHA256(),
    )


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        b"\xff\xfe",
        None,
    ],
    ids=["empty", "no key", "no certificate", "not text", "gone"],
)
def test_a_certificate_file_that_is_not_usable_is_named(grant, tmp_path, pem):
    path = tmp_path / "app.pem"
    if pem is not None:
        path.write_bytes(pem)
    script = EntraScript()
    with pytest.raises(MailAuthError, match="RQMAIL_GRAPH_CERTIFICATE"):
        grant(script, certificate=path)

    assert script.discoveries == 0


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, 7000215, r"secret is wrong.*RQMAIL_GRAPH_CLIENT_SECRET"),
        (401, 7000222, "secret has expired"),
        (400, 700016, r"app does not exist.*RQMAIL_GRAPH_CLIENT_ID"),
        (401, 700027, "certificate is not one of the app's"),
        (400, 65001, "has not consented"),
        (400, 500011, "does not know the resource"),
        (400, 53003, "Conditional Access"),
        (400, 999999, "check the app's registration"),
    ],
)
def test_a_refusal_is_said_in_words_with_entras_code(grant, status, code, words):
    error = refused(grant, EntraScript((status, {"x-ms-request-id": "r-1"}, refusal(code))), MailAuthError)

    assert (error.code, error.status, error.request_id) == (f"AADSTS{code}", status, "r-1")
    assert f"AADSTS{code}" in str(error)
    with pytest.raises(MailAuthError, match=words):
        raise error


def test_an_unknown_tenant_is_said_in_words(grant):
    script = EntraScript(discovery=(400, refusal(90002, "invalid_tenant")))
    error = refused(grant, script, MailAuthError)

    assert error.code == "AADSTS90002"
    assert "RQMAIL_GRAPH_TENANT_ID" in str(error)
    assert script.asked == []


def test_a_tenant_id_cannot_reach_another_path(grant):
    script = EntraScript()
    paths = []
    script.next = lambda request, go=script.next: (paths.append(request.path), go(request))[1]
    grant(script, tenant="a/../b?c#d", client_secret=SECRET)

    assert paths[0].startswith("/a%2F..%2Fb%3Fc%23d/v2.0/")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_trouble_at_entra_is_transient(grant, status):
    refused(grant, EntraScript((status, {}, b"<html>trouble</html>")), MailTransientError)
    refused(grant, EntraScript(discovery=(503, b"")), MailTransientError)


def test_trouble_that_entra_calls_temporary_is_transient_whatever_the_status(grant):
    refused(grant, EntraScript((400, {}, refusal(90033, "temporarily_unavailable"))), MailTransientError)


@pytest.mark.parametrize(
    ("headers", "asked_for"), [({"Retry-After": "17"}, 17), ({}, None), ({"Retry-After": "0"}, None)]
)
@pytest.mark.parametrize("body", [refusal(90055, "too_many"), b"slow down"], ids=["JSON", "text"])
def test_a_throttle_says_how_long(grant, headers, asked_for, body):
    error = refused(grant, EntraScript((429, headers, body)), MailThrottledError)

    assert error.retry_after == asked_for


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>sign in to the hotel's network</html>",
        b"[]",
        b"null",
        b"17",
        {},
        {"access_token": "eyJ.x"},
        {"access_token": 17, "expires_in": 3599},
        {"access_token": "eyJ.x", "expires_in": "soon"},
        {"access_token": "eyJ.x", "expires_in": -1},
        {"access_token": "", "expires_in": 3599},
    ],
    ids=range(11),
)
def test_an_answer_that_is_no_token_is_refused_in_words(grant, body):
    error = refused(grant, EntraScript((200, {}, body)), MailAuthError)

    assert "RQMAIL_GRAPH_AUTHORITY" in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", {}, [], {"token_endpoint": 7, "authorization_endpoint": 7}], ids=range(5)
)
def test_a_discovery_that_is_none_is_refused_in_words(grant, body):
    refused(grant, EntraScript(discovery=(200, body)), MailAuthError)


def test_a_token_cut_in_half_is_not_logged(grant, caplog):
    refused(grant, EntraScript((200, {}, b'{"access_token": "eyJ.half')), MailAuthError)

    assert "eyJ" not in caplog.text


def test_an_entra_that_cannot_be_reached_is_transient_and_never_an_unknown_outcome(entra_at):
    url = refused_url().replace("http:", "https:")
    with pytest.raises(MailTransientError, match=r"connection refused.*Nothing was sent"):
        entra_at(url).grant()


def test_a_connection_lost_while_asking_is_transient_as_no_mail_was_in_it(entra_at, authority):
    with serving(EntraScript((200, {"Content-Length": "500"}, b"{")), authority) as url, pytest.raises(MailError):
        entra_at(url).grant()
    with behaving(lambda connection: connection.close()) as url, pytest.raises(MailTransientError):
        entra_at(url.replace("http:", "https:")).grant()


def test_an_error_is_not_remembered_by_msal(grant, authority, entra_at):
    script = EntraScript(
        (401, {}, refusal(7000215)), (400, {}, refusal(700016)), (429, {"Retry-After": "3600"}, b""), (200, {}, TOKEN)
    )
    with serving(script, authority) as url:
        entra = entra_at(url)
        for expected in (MailAuthError, MailAuthError, MailThrottledError):
            with pytest.raises(expected):
                entra.grant()

        assert entra.grant().value == "eyJ.granted"


def test_a_source_gets_its_token_through_msal_and_renews_it(authority, entra_at, clock):
    script = EntraScript((200, {}, TOKEN), (200, {}, {**TOKEN, "access_token": "eyJ.second"}))
    with serving(script, authority) as url:
        entra = entra_at(url)
        source = GraphTokenSource(EntraApp(url, TENANT, "client-id", SECRET), entra.grant, clock=clock)
        assert source.token() == source.token() == "eyJ.granted"
        assert source.renewed("eyJ.granted", None) == "eyJ.second"

    assert len(script.asked) == 2


def test_a_tenants_wrong_secret_is_said_to_be_the_tenants(grant):
    names = SettingNames(client_secret="graphClientSecret of tenant acme")
    with pytest.raises(MailAuthError, match="graphClientSecret of tenant acme") as caught:
        grant(EntraScript((401, {}, refusal(7000215))), client_secret=SECRET, names=names)
    assert "RQMAIL_" not in str(caught.value)
