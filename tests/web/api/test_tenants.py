"""Tenants over the API: secrets go in and never come out."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.insight.checked import last_check

SECRETS = {"graphClientSecret": "gr-very-secret", "sendgridApiKey": "SG.very-secret"}


@pytest.fixture
def acme(client: FlaskClient) -> str:
    body = {
        "key": "acme",
        "provider": "microsoft-graph",
        "address": "info@acme.example",
        "graphClientId": "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902",
        **SECRETS,
    }
    assert client.post("/admin/tenants", json=body).status_code == 201
    return "/admin/tenants/acme"


def test_no_answer_and_no_audit_line_holds_a_secret(client: FlaskClient, acme: str) -> None:
    said = [
        client.get(acme).text,
        client.get("/admin/tenants").text,
        client.put(acme, json={"sendgridApiKey": "SG.very-secret-too"}).text,
        client.put(acme, json={"sendgridApiKey": "SG.very-secret\nx"}).text,
        client.put(acme, json={"sendgridApiKey": ["very-secret"]}).text,
        client.get("/admin/audit").text,
        client.get(f"{acme}/budget").text,
    ]
    assert not any("very-secret" in text for text in said)


def test_a_secret_is_shown_as_set_or_not_set(client: FlaskClient, acme: str) -> None:
    assert client.get(acme).json["hasSendgridApiKey"] is True
    assert client.put(acme, json={"sendgridApiKey": None}).json["hasSendgridApiKey"] is False
    assert client.get(acme).json["hasGraphClientSecret"] is True


def test_a_secret_that_is_set_is_the_one_that_is_used(client: FlaskClient, application: Application, acme: str) -> None:
    client.put(acme, json={"graphClientSecret": "another"})
    row = application.senders.find("tenant:acme").row
    assert application.box.decrypt(row.graph_client_secret_encrypted) == "another"  # type: ignore[union-attr, arg-type]


def test_a_field_left_out_keeps_its_value(client: FlaskClient, acme: str) -> None:
    assert client.put(acme, json={"address": "post@acme.example"}).status_code == 200
    shown = client.get(acme).json
    assert (shown["provider"], shown["address"], shown["graphClientId"]) == (
        "microsoft-graph", "post@acme.example", "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"provider": "pigeon"}, "provider"),
        ({"provider": None}, "provider"),
        ({"address": "nobody"}, "address"),
        ({"address": None}, "address"),
        ({"graphClientId": None}, "graphClientId"),
        ({"password": "x"}, "password"),
        ({"rateLimitPerMinute": 0}, "rateLimitPerMinute"),
    ],
    ids=repr,
)
def test_what_could_never_send_is_refused_by_field(
    client: FlaskClient, acme: str, body: dict[str, object], field: str
) -> None:
    before = client.get(acme).json
    answer = client.put(acme, json=body)
    assert answer.status_code == 400
    assert list(answer.json["fieldErrors"]) == [field]
    assert client.get(acme).json == before


def test_a_tenant_is_added_once_and_removed(client: FlaskClient, acme: str) -> None:
    assert client.post("/admin/tenants", json={"key": "acme"}).status_code == 409
    assert client.delete(acme).json == {"done": True}
    assert client.get(acme).status_code == 404
    assert client.put(acme, json={}).status_code == 404


@pytest.mark.parametrize("field", ["graphTenantId", "graphClientId"])
def test_the_ids_of_an_app_are_guids_or_refused_by_name(client: FlaskClient, field: str) -> None:
    new = {"key": "beta", "provider": "microsoft-graph", "address": "post@beta.nl", field: "no guid"}
    refused = client.post("/admin/tenants", json=new)
    assert refused.status_code == 400
    assert field in refused.json["fieldErrors"]


def test_a_tenant_is_checked_when_asked_and_its_last_check_is_shown(client: FlaskClient) -> None:
    tenant = "/admin/tenants/beta"
    added = {"key": "beta", "provider": "sendgrid", "sendgridFrom": "post@beta.example"}
    assert client.post("/admin/tenants", json=added).json["check"] is None
    checked = client.post(f"{tenant}/check").json
    assert (checked["outcome"], checked["maySend"]) == ("unconfigured", False)
    assert "sendgridApiKey of tenant beta is not set" in checked["problem"]
    assert client.get(tenant).json["check"] == checked
    assert client.get("/admin/tenants").json["tenants"][0]["check"] == checked
    assert client.post("/admin/tenants/none/check").status_code == 404


def test_who_only_reads_does_not_have_a_tenant_checked(anyone: FlaskClient, application: Application) -> None:
    application.tenants.add("beta", "default")
    _, token = application.access.create("reader", ["read"], by="test")
    headers = {"Authorization": f"Bearer {token}"}
    assert anyone.post("/admin/tenants/beta/check", headers=headers).status_code == 403
    assert anyone.post("/admin/tenants/beta/check").status_code == 401
    assert last_check("tenant:beta") is None


def test_the_limits_of_a_tenants_own_mailbox_are_changed_and_wrong_ones_refused(client: FlaskClient, acme: str) -> None:
    shown = client.put(acme, json={"rateLimitPerMinute": 7}).json
    assert (shown["rateLimitPerMinute"], shown["rateLimitRecipientsPerDay"]) == (7, None)
    assert client.get(f"{acme}/budget").json["budget"]["perMinute"] | {"used": 0} == {
        "limit": 7, "source": "override", "used": 0, "remaining": 7, "bucket": 0, "rolling": 0,
    }  # fmt: skip
    refused = client.put(acme, json={"rateLimitPerMinute": 0})
    assert (refused.status_code, refused.json["error"]) == (
        400,
        "rateLimitPerMinute moet een positief geheel getal zijn",
    )
