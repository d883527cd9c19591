"""Who the app is, said by the place it runs in instead of by a secret, against the sandbox's Entra."""

from __future__ import annotations

import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from rqmail.errors import MailAuthError, SettingsError
from rqmail.mailers.factory import MailerFactory, UnconfiguredMailer
from rqmail.mailers.graph.checking import roles_of
from rqmail.mailers.graph.entra import Entra
from rqmail.mailers.http.transport import Transport
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_TENANT_ID, FederatedCredential, SandboxDirectory
from rqmail.sandbox.server import Sandbox
from rqmail.settings import load_settings

SCOPE = "https://graph.microsoft.com/.default"
ISSUER, SUBJECT = "https://oidc.example.org/", "system:serviceaccount:mail:rqmail"
USER_ASSIGNED = "0b1c2d3e-4f50-4617-8293-a4b5c6d7e8f9"
SETTINGS = {
    "graph_tenant_id": SANDBOX_TENANT_ID,
    "graph_client_id": SANDBOX_CLIENT_ID,
    "graph_client_secret": "",
    "graph_certificate": "",
}


@pytest.fixture(scope="module")
def key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def sandbox(key, tmp_path_factory):
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    directory = SandboxDirectory(
        federated=(FederatedCredential(ISSUER, SUBJECT, public),), managed_identities=("", USER_ASSIGNED)
    )
    with Sandbox(data_dir=tmp_path_factory.mktemp("sandbox"), directory=directory) as running:
        yield running


@pytest.fixture
def grant(sandbox, clock):
    """Ask for a token with what the settings make of an identity."""
    transport = Transport(connect_timeout=2, answer_timeout=5, ca_bundle=sandbox.ca_file)

    def run(identity):
        settings = load_settings(_env_file=None, graph_authority=sandbox.authority, graph_identity=identity, **SETTINGS)
        app = MailerFactory(settings, limiter=None, transport=transport).app_of()
        return Entra(app, transport, SCOPE, clock=clock).grant()

    yield run
    transport.close()


def token_of(key, **claims):
    told = {"iss": ISSUER, "sub": SUBJECT, "aud": "api://AzureADTokenExchange", "exp": time.time() + 600} | claims
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return jwt.encode(told, pem, algorithm="RS256")


def test_a_token_in_a_file_stands_in_for_a_secret_and_is_read_anew_each_time(grant, key, tmp_path, monkeypatch):
    file = tmp_path / "token"
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    file.write_text(token_of(key) + "\n")
    assert "mail.send" in roles_of(grant("workload").value)
    file.write_text(token_of(key, sub="somebody else"))
    with pytest.raises(MailAuthError, match="AADSTS700213"):
        grant("workload")
    file.write_text(token_of(key, jti="renewed"))
    assert grant(f"workload:{file}").lives_seconds == 3600


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"iss": "https://another.example/"}, "has the issuer .*AADSTS700211"),
        ({"sub": "system:serviceaccount:mail:other"}, "has the subject .*AADSTS700213"),
        ({"aud": "api://another"}, "another audience .*AADSTS700212"),
        ({"exp": 1_000_000_000}, "has expired; check RQMAIL_GRAPH_IDENTITY .*AADSTS700024"),
    ],
)
def test_a_token_that_no_federated_credential_allows_is_refused_by_what_is_wrong_with_it(
    grant, key, tmp_path, claims, words
):
    (tmp_path / "token").write_text(token_of(key, **claims))
    with pytest.raises(MailAuthError, match=words):
        grant(f"workload:{tmp_path / 'token'}")


def test_a_file_without_a_token_is_named(grant, tmp_path):
    with pytest.raises(MailAuthError, match=r"RQMAIL_GRAPH_IDENTITY: .*gone cannot be read"):
        grant(f"workload:{tmp_path / 'gone'}")
    (tmp_path / "empty").touch()
    with pytest.raises(MailAuthError, match="empty is empty"):
        grant(f"workload:{tmp_path / 'empty'}")


def test_a_managed_identity_of_the_machine_is_given_a_token(grant, sandbox, monkeypatch):
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", sandbox.authority)
    for identity in ("managed", f"managed:{USER_ASSIGNED}"):
        granted = grant(identity)
        assert ("mail.send" in roles_of(granted.value), granted.lives_seconds) == (True, 3600)
    with pytest.raises(MailAuthError, match="managed identity of RQMAIL_GRAPH_IDENTITY is refused"):
        grant("managed:c11e47a9-90ab-4f6d-8a3e-000000000000")


@pytest.mark.parametrize("identity", ["federated", "workload", "managed:somebody", "workload:"])
def test_an_identity_that_is_none_is_refused_by_what_is_allowed(identity, monkeypatch):
    monkeypatch.delenv("AZURE_FEDERATED_TOKEN_FILE", raising=False)
    with pytest.raises(SettingsError, match="RQMAIL_GRAPH_IDENTITY.*workload, workload:FILE, managed"):  # noqa: RUF043
        load_settings(_env_file=None, graph_identity=identity)


def test_an_identity_beside_a_secret_is_refused(transport):
    settings = load_settings(_env_file=None, graph_identity="managed", **(SETTINGS | {"graph_client_secret": "s"}))
    app = MailerFactory(settings, limiter=None, transport=transport).app_of()
    assert app == UnconfiguredMailer("RQMAIL_GRAPH_IDENTITY stands beside a secret or certificate; unset one of them")
