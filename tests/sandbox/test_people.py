"""People signing in, through Microsoft's own library."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
import pytest
import requests

from sandbox.graph_client import msal_application

REDIRECT = "http://localhost/login/microsoft"


@pytest.fixture
def http(sandbox):
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(sandbox.ca_file)
        yield session


def chosen(http, flow, name: str = "Anna de Vries", **changes: str) -> dict[str, str]:
    """Choose an account on the page, and answer what the browser goes back with."""
    place, _, query = flow["auth_uri"].partition("?")
    asked = dict(parse_qsl(query)) | {"sandbox_person": name} | changes
    answer = http.get(f"{place}?{urlencode(asked)}", allow_redirects=False, timeout=5)
    assert answer.status_code == 302, answer.text
    assert answer.headers["Location"].startswith(REDIRECT)
    return dict(parse_qsl(urlsplit(answer.headers["Location"]).query))


def test_a_person_chooses_who_they_are_and_msal_gets_a_signed_token_that_says_so(sandbox, http):
    application = msal_application(sandbox, http)
    flow = application.initiate_auth_code_flow([], redirect_uri=REDIRECT)
    page = http.get(flow["auth_uri"], timeout=5).text
    assert "Anna de Vries" in page
    assert "Cancel" in page
    result = application.acquire_token_by_auth_code_flow(flow, chosen(http, flow))
    base = f"{sandbox.authority}/{sandbox.directory.tenant_id}"
    keys = jwt.PyJWKSet.from_dict(http.get(f"{base}/discovery/v2.0/keys", timeout=5).json())
    kid = jwt.get_unverified_header(result["id_token"])["kid"]
    said = jwt.decode(
        result["id_token"],
        keys[kid],
        algorithms=["RS256"],
        audience=sandbox.directory.client_id,
        issuer=f"{base}/v2.0",
        options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
    )
    assert (said["name"], said["roles"], said["tid"]) == (
        "Anna de Vries",
        ["rqmail.admin"],
        sandbox.directory.tenant_id,
    )


def test_a_sign_in_is_renewed_until_the_account_or_its_sessions_end(sandbox, control, http):
    application = msal_application(sandbox, http)
    flow = application.initiate_auth_code_flow([], redirect_uri=REDIRECT)
    refresh = application.acquire_token_by_auth_code_flow(flow, chosen(http, flow, "Rik Bakker"))["refresh_token"]
    again = application.acquire_token_by_refresh_token(refresh, [])
    assert again["id_token_claims"]["roles"] == ["rqmail.read"]
    control.configure(directory={"people": {"Rik Bakker": ["rqmail.send"]}})
    assert application.acquire_token_by_refresh_token(refresh, [])["id_token_claims"]["roles"] == ["rqmail.send"]
    control.configure(directory={"people": {}})
    gone = msal_application(sandbox, http).acquire_token_by_refresh_token(refresh, [])
    control.configure(directory={"people": {"Rik Bakker": ["rqmail.send"]}})
    control.revoke_tokens()
    revoked = msal_application(sandbox, http).acquire_token_by_refresh_token(refresh, [])
    assert (gone["error_codes"], revoked["error_codes"]) == ([50057], [50173])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"code_verifier": "another" * 8}, 501481),
        ({"redirect_uri": "http://localhost/elsewhere"}, 500112),
        ({"code": "guessed"}, 9002313),
        ({"client_secret": "wrong"}, 7000215),
    ],
)
def test_a_code_is_redeemed_by_whom_it_was_made_for_once_and_not_for_long(sandbox, http, sandbox_clock, changes, code):
    flow = msal_application(sandbox, http).initiate_auth_code_flow([], redirect_uri=REDIRECT)
    right = {
        "grant_type": "authorization_code",
        "client_id": sandbox.directory.client_id,
        "client_secret": sandbox.directory.client_secret,
        "code": chosen(http, flow)["code"],
        "redirect_uri": REDIRECT,
        "code_verifier": flow["code_verifier"],
    }

    def redeem(**form: str) -> dict:
        url = f"{sandbox.authority}/{sandbox.directory.tenant_id}/oauth2/v2.0/token"
        return http.post(url, data=right | form, timeout=5).json()

    assert redeem(**changes)["error_codes"] == [code]
    assert "id_token" in redeem()
    assert redeem()["error_codes"] == [54005]
    late = chosen(http, flow)["code"]
    sandbox_clock.advance(seconds=601)
    assert redeem(code=late)["error_codes"] == [70008]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"scope": "profile"}, "invalid_scope"),
        ({"sandbox_person": ""}, "access_denied"),
    ],
)
def test_a_request_without_pkce_or_of_another_kind_goes_back_with_an_error(sandbox, http, changes, error):
    flow = msal_application(sandbox, http).initiate_auth_code_flow([], redirect_uri=REDIRECT)
    answer = chosen(http, flow, **changes)
    assert (answer["error"], answer["state"]) == (error, flow["state"])


def test_nobody_is_sent_to_an_address_that_is_not_registered(sandbox, control, http):
    application = msal_application(sandbox, http)
    control.configure(directory={"redirect_uris": [REDIRECT]})
    for place, status in ((REDIRECT, 200), ("http://localhost/other", 400), ("https://evil.example/", 400)):
        flow = application.initiate_auth_code_flow([], redirect_uri=place)
        assert http.get(flow["auth_uri"], timeout=5).status_code == status
