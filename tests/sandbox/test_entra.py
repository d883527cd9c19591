"""Tokens, asked for with Microsoft's own library."""

from __future__ import annotations

import datetime

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from msal.exceptions import MsalServiceError

from sandbox.graph_client import SCOPES, msal_application


@pytest.fixture
def http(sandbox):
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(sandbox.ca_file)
        yield session


def test_msal_gets_a_token_that_opens_graph(graph):
    assert graph.send().status_code == 202


@pytest.mark.parametrize(
    ("credential", "changes", "number", "error"),
    [
        ("wrong", {}, "AADSTS7000215", "invalid_client"),
        (None, {"client_id": "00000000-1111-2222-3333-444444444444"}, "AADSTS700016", "unauthorized_client"),
    ],
)
def test_a_wrong_credential_is_refused_in_entras_words(sandbox, http, credential, changes, number, error):
    answer = msal_application(sandbox, http, credential, **changes).acquire_token_for_client(SCOPES)
    assert answer["error"] == error
    assert answer["error_description"].startswith(f"{number}: ")
    assert answer["error_codes"] == [int(number.removeprefix("AADSTS"))]


def test_a_scope_that_is_none_is_refused(sandbox, http):
    answer = msal_application(sandbox, http).acquire_token_for_client(["https://graph.microsoft.com/Mail.Send"])
    assert answer["error"] == "invalid_scope"


def test_an_unknown_tenant_makes_msal_raise(sandbox, http):
    with pytest.raises(ValueError, match="double check your tenant name"):
        msal_application(sandbox, http, tenant_id="elders.example")
    answer = http.get(f"{sandbox.authority}/elders.example/v2.0/.well-known/openid-configuration", timeout=5)
    assert "AADSTS90002" in answer.json()["error_description"]


def test_instance_discovery_names_the_tenants_own_description(sandbox, http):
    asked = f"{sandbox.authority}/{sandbox.directory.tenant_id}/oauth2/v2.0/authorize"
    found = http.get(
        f"{sandbox.authority}/common/discovery/instance", params={"authorization_endpoint": asked}, timeout=5
    ).json()
    described = http.get(found["tenant_discovery_endpoint"], timeout=5).json()
    assert described["token_endpoint"].endswith(f"/{sandbox.directory.tenant_id}/oauth2/v2.0/token")


def test_a_token_dies_when_its_lifetime_is_over(control, graph, sandbox_clock):
    sandbox_clock.advance(seconds=3601)
    answer = graph.send()
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "InvalidAuthenticationToken")
    assert "expired" in answer.json()["error"]["message"]


def test_revoked_tokens_open_nothing_and_a_fresh_one_does(control, graph):
    control.revoke_tokens()
    refused = graph.send()
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")
    fresh = {"Authorization": f"Bearer {graph.fresh_token()}"}
    assert graph.call("GET", "", headers=fresh).status_code == 200


def test_no_token_at_all_is_said_so(graph):
    answer = graph.call("GET", "", headers={"Authorization": ""})
    assert answer.json()["error"]["message"] == "Access token is empty."


def test_a_registered_certificate_opens_the_door_and_another_does_not(control, sandbox, http):
    known, unknown = _certificate(), _certificate()
    control.configure(directory={"certificates": [known["public_certificate"]]})
    forged = {**unknown, "public_certificate": known["public_certificate"]}
    granted, refused, found_out = (
        msal_application(sandbox, http, credential).acquire_token_for_client(SCOPES)
        for credential in (known, unknown, forged)
    )
    assert "access_token" in granted
    assert refused["error_codes"] == found_out["error_codes"] == [700027]


@pytest.mark.parametrize(("status", "retry_after"), [(503, None), (429, "7"), (500, None)])
def test_the_token_endpoint_stumbles_on_demand(control, sandbox, http, status, retry_after):
    headers = {"Retry-After": retry_after} if retry_after else {}
    control.faults("status", target="token", status=status, headers=headers)
    url = f"{sandbox.authority}/{sandbox.directory.tenant_id}/oauth2/v2.0/token"
    answer = http.post(url, data={}, timeout=5)
    assert answer.status_code == status
    assert answer.headers.get("Retry-After") == retry_after
    assert answer.json()["error_description"].startswith("AADSTS90033")


def test_the_token_endpoint_hangs_on_demand(control, sandbox, http):
    control.faults("hang", target="token", seconds=20)
    url = f"{sandbox.authority}/{sandbox.directory.tenant_id}/oauth2/v2.0/token"
    with pytest.raises(requests.ReadTimeout):
        http.post(url, data={}, timeout=0.2)


def test_discovery_fails_on_demand(control, sandbox, http):
    control.faults("status", target="discovery", status=503)
    with pytest.raises(MsalServiceError, match="503"):
        msal_application(sandbox, http)


def _certificate() -> dict[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rqmail")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {
        "private_key": key.private_bytes(*form).decode(),
        "public_certificate": certificate.public_bytes(serialization.Encoding.PEM).decode(),
    }
