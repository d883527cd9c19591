"""A sandbox that takes mails in parts, and a mailer that sends to it."""

from __future__ import annotations

from dataclasses import replace

import msal
import pytest
import requests

from mailers.graph.uploads.sending import SENDER, Recorded, file
from rqmail.mailers.base import Permit
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailer import MicrosoftGraphMailer
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.server import Sandbox


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory):
    with Sandbox(data_dir=tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture
def control(sandbox):
    control = SandboxControl(sandbox.authority, sandbox.ca_file)
    control.reset()
    return control


@pytest.fixture(scope="session")
def token(sandbox):
    known = sandbox.directory
    with requests.Session() as http:
        http.trust_env, http.verify = False, str(sandbox.ca_file)
        app = msal.ConfidentialClientApplication(
            known.client_id,
            client_credential=known.client_secret,
            authority=f"{sandbox.authority}/{known.tenant_id}",
            instance_discovery=False,
            http_client=http,
        )
        return app.acquire_token_for_client(["https://graph.microsoft.com/.default"])["access_token"]


@pytest.fixture
def transport(sandbox):
    transport = Recorded(connect_timeout=5, answer_timeout=5, ca_bundle=sandbox.ca_file)
    yield transport
    transport.close()


@pytest.fixture
def sleeps():
    return []


@pytest.fixture
def mailer(sandbox, token, transport, clock, sleeps, control):
    class Tokens:
        def token(self):
            return token

        def renewed(self, refused, claims):
            return token

    return MicrosoftGraphMailer(
        GraphHttp(transport, Tokens()), sandbox.base_url, SENDER, clock=clock, sleep=sleeps.append
    )


@pytest.fixture
def large(mail):
    return replace(mail, files=(file(),), permit=Permit(lambda: None), attempt="m:1")
