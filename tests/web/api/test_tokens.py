"""Tokens over the API, what each scope opens, and what the audit keeps of every change."""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application
from rqmail.models.access import ApiToken
from support.clock import START, MovableClock


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def issued(client: FlaskClient, name: str = "shop", *scopes: str, **more: str) -> str:
    answer = client.post("/admin/tokens", json={"name": name, "scopes": list(scopes or ("read",)), **more})
    assert answer.status_code == 201
    return answer.json["token"]


def test_a_token_is_shown_once_and_stored_as_a_digest_only(client: FlaskClient) -> None:
    token = issued(client)
    said = client.get("/admin/tokens").text + client.get("/admin/audit").text
    assert token not in said
    row = ApiToken.select().dicts().get()
    assert token not in str(row)
    assert row["digest"] not in said


@pytest.mark.parametrize("scope", ["send", "read", "admin"])
def test_each_scope_opens_what_it_names_and_no_more(client: FlaskClient, anyone: FlaskClient, scope: str) -> None:
    headers = bearer(issued(client, "shop", scope))
    opened = {
        "send": anyone.post("/messages", json={}, headers=headers).status_code != 403,
        "read": anyone.get("/messages", headers=headers).status_code != 403,
        "admin": anyone.post("/admin/tokens", json={}, headers=headers).status_code != 403,
    }
    assert opened == {name: scope in {name, "admin"} for name in opened}
    assert (anyone.get("/metrics", headers=headers).status_code == 200) is opened["read"]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer nonsense", "Basic YTpi", "Bearer é"])
@pytest.mark.usefixtures("held")
def test_without_a_valid_token_nothing_is_answered(web: Flask, anyone: FlaskClient, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for rule in web.url_map.iter_rules():
        if not rule.endpoint.startswith(("api.", "metrics.")):
            continue
        path = rule.rule.replace("<key>", "x").replace("<name>", "x").replace("<message_id>", "x")
        for method in rule.methods - {"HEAD", "OPTIONS"}:  # type: ignore[operator]
            answer = anyone.open(path, method=method, headers=headers, json={} if method != "GET" else None)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert set(answer.json) == {"error", "fieldErrors"}


def test_a_revoked_token_opens_nothing_any_more(client: FlaskClient, anyone: FlaskClient) -> None:
    headers = bearer(issued(client))
    assert anyone.get("/messages", headers=headers).status_code == 200
    assert client.delete("/admin/tokens/shop").json["revokedOn"] is not None
    assert anyone.get("/messages", headers=headers).status_code == 401
    assert client.delete("/admin/tokens/nobody").status_code == 404


def test_an_expired_token_opens_nothing_any_more(client: FlaskClient, anyone: FlaskClient, clock: MovableClock) -> None:
    headers = bearer(issued(client, "shop", "read", expiresOn=(START + timedelta(hours=1)).isoformat()))
    clock.advance(minutes=59)
    assert anyone.get("/messages", headers=headers).status_code == 200
    clock.advance(minutes=1)
    assert anyone.get("/messages", headers=headers).status_code == 401


def test_the_last_use_is_noted_once_a_minute(client: FlaskClient, anyone: FlaskClient, clock: MovableClock) -> None:
    def last_used() -> str:
        return client.get("/admin/tokens").json["tokens"][0]["lastUsedOn"]

    headers = bearer(issued(client))
    assert last_used() is None
    anyone.get("/messages", headers=headers)
    first = last_used()
    clock.advance(seconds=59)
    anyone.get("/messages", headers=headers)
    assert last_used() == first
    clock.advance(seconds=1)
    anyone.get("/messages", headers=headers)
    assert last_used() > first


@pytest.mark.parametrize(
    "body",
    [
        {"name": "admin", "scopes": ["read"]},
        {"name": "", "scopes": ["read"]},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["read"], "expiresOn": "2020-01-01T00:00:00Z"},
        {"name": "x", "scopes": ["read"], "token": "chosen-by-me"},
    ],
    ids=repr,
)
def test_a_token_that_makes_no_sense_is_not_issued(client: FlaskClient, body: dict[str, object]) -> None:
    assert client.post("/admin/tokens", json=body).status_code == 400
    assert client.get("/admin/tokens").json["tokens"] == []


def test_a_name_is_used_once(client: FlaskClient) -> None:
    issued(client)
    assert client.post("/admin/tokens", json={"name": "shop", "scopes": ["read"]}).status_code == 409


def test_every_change_is_written_down_with_who_what_and_how_it_was(client: FlaskClient, anyone: FlaskClient) -> None:
    headers = bearer(issued(client, "ops", "admin"))
    anyone.post("/admin/system-mailboxes", json={"key": "a", "address": "a@example.org"}, headers=headers)
    anyone.put("/admin/system-mailboxes/a", json={"rateLimitPerMinute": 5}, headers=headers)
    anyone.put("/admin/system-mailboxes/a", json={"rateLimitPerMinute": 0}, headers=headers)
    anyone.post("/admin/system-mailboxes/a/pause", json={"reason": "why"}, headers=headers)
    anyone.post("/admin/system-mailboxes/a/resume", headers=headers)
    anyone.delete("/admin/system-mailboxes/a", headers=headers)

    entries = client.get("/admin/audit?subject=mailbox:a").json["entries"][::-1]
    assert [(entry["who"], entry["action"]) for entry in entries] == [
        ("ops", "mailbox.add"),
        ("ops", "mailbox.set"),
        ("ops", "mailbox.pause"),
        ("ops", "mailbox.resume"),
        ("ops", "mailbox.delete"),
    ]
    assert entries[0]["before"] is None
    assert (entries[1]["before"]["rateLimitPerMinute"], entries[1]["after"]["rateLimitPerMinute"]) == (None, 5)
    assert entries[2]["after"]["pauseReason"] == "why"
    assert entries[4]["after"] is None
    assert client.get("/admin/audit").json["entries"][-1]["who"] == "admin"


def test_a_change_that_fails_is_not_written_down(client: FlaskClient) -> None:
    assert client.put("/admin/system-mailboxes/nobody", json={}).status_code == 404
    assert client.post("/messages/nothing/cancel").status_code == 404
    assert client.get("/admin/audit").json == {"entries": [], "nextCursor": None}


def test_what_cannot_be_written_down_is_not_changed(
    client: FlaskClient, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    application.mailboxes.add("a", "a@example.org")
    monkeypatch.setattr("rqmail.administration.audit.AuditEntry.create", lambda **_: 1 / 0)
    assert client.put("/admin/system-mailboxes/a", json={"rateLimitPerMinute": 5}).status_code == 500
    assert application.mailboxes.get("a").rate_limit_per_minute is None


def test_a_token_bound_to_mailboxes_hands_in_mail_for_these_alone(client: FlaskClient, anyone: FlaskClient) -> None:
    for key in ("news", "invoices"):
        assert client.post("/admin/system-mailboxes", json={"key": key, "address": f"{key}@x.nl"}).status_code == 201
    made = client.post("/admin/tokens", json={"name": "erp", "scopes": ["send"], "mailboxes": ["invoices"]})
    assert made.json["mailboxes"] == ["invoices"]
    headers = bearer(made.json["token"])
    mail = {"to": "a@y.nl", "subject": "s", "text": "t"}
    assert anyone.post("/messages", json=mail | {"mailbox": "invoices"}, headers=headers).status_code == 201
    for sender in ({"mailbox": "news"}, {"mailbox": "nowhere"}, {"tenant": "invoices"}, {}):
        refused = anyone.post(
            "/messages", json={"messages": [mail | {"mailbox": "invoices"}, mail | sender]}, headers=headers
        )
        assert (refused.status_code, refused.json["error"]) == (
            403,
            "The token is bound to mailboxes, and this sender is none of them.",
        )
    assert len(client.get("/messages").json["messages"]) == 1


@pytest.mark.parametrize(
    ("scopes", "mailboxes"), [(["read"], ["news"]), (["admin"], ["news"]), (["send"], ["nowhere"])]
)
def test_a_token_is_bound_only_to_mailboxes_that_exist_and_only_to_send(
    client: FlaskClient, scopes: list[str], mailboxes: list[str]
) -> None:
    client.post("/admin/system-mailboxes", json={"key": "news", "address": "news@x.nl"})
    refused = client.post("/admin/tokens", json={"name": "erp", "scopes": scopes, "mailboxes": mailboxes})
    assert refused.status_code == 400
    assert set(refused.json["fieldErrors"]) == {"mailboxes"}
